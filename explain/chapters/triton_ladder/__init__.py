"""Chapter 3, Triton ladder."""
