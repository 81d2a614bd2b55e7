"""Records runs of Triton kernels and writes them to files. It knows nothing else of explain.

`model` and `file` need NumPy alone. `recorder` and what it uses import torch and triton: worker processes only.
"""
