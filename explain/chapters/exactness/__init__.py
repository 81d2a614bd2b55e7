"""Chapter 6, Exactness."""
