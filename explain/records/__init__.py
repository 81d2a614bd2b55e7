"""What was measured: a GPU's points and their file, the plans, the registry of files, and the committed results."""
