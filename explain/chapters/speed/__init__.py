"""The room of the page Speed."""
