"""The room of the page Online softmax."""
