"""Chapter 7, What breaks."""
