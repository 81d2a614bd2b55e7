"""The room of the page FlashAttention."""
