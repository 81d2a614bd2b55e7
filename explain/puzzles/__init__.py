"""Puzzles: a reader writes a kernel. It is judged against float64 on inputs that expose errors: docs/puzzles.md."""
