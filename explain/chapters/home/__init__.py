"""Home, the first page."""
