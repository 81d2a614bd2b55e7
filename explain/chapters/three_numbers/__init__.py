"""Lab, Three numbers."""
