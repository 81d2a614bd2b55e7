"""What a kernel's source says: its statements as equations, and which variables are still read."""
