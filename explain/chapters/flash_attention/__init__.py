"""Chapter 5, FlashAttention."""
