"""Tool, Side by side."""
