"""Puzzles: a reader writes a kernel, and it is judged against float64 on inputs that bite (docs/puzzles.md)."""
