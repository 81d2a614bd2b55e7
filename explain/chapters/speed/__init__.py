"""Chapter 8, Speed."""
