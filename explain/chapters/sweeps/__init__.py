"""Kernels over one parameter, all else fixed: what to run, running it in the background, what its points come to."""
