"""The room of the page Your first Triton kernel."""
