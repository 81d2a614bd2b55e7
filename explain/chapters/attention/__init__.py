"""The room of the page Attention in ten minutes."""
