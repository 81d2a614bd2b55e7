"""The room of the page Cross entropy."""
