"""The room of the page Memory hierarchy."""
