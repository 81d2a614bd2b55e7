"""Chapter 1, Softmax."""
