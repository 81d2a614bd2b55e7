"""The room of the page Decoding."""
