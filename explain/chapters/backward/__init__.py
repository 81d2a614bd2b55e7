"""The room of the page Backward."""
