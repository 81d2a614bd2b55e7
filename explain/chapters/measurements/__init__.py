"""Lab, Measurements."""
