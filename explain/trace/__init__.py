"""Records runs of Triton kernels and writes them to files. Imports nothing else of explain.

`model` and `file` need only NumPy. `recorder` and its modules import torch and triton: use them in worker processes.
"""
