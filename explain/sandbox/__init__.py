"""Runs code that somebody else wrote, in a process that can compute and answer, and do nothing else."""
