"""The room of the page Softmax."""
