"""The room of the page What breaks."""
