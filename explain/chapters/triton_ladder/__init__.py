"""The room of the page Triton ladder."""
