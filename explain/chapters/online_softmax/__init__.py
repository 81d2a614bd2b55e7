"""Chapter 2, Online softmax."""
