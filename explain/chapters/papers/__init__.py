"""Lab 4: the papers' figures and tables as data, our experiments that repeat them, and both side by side."""
