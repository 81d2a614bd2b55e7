"""Chapter 4, Memory hierarchy."""
