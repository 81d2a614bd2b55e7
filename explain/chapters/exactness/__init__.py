"""The room of the page Exactness."""
