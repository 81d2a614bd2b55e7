"""What a kernel's own source says: its statements as equations, which of its variables are still read."""
