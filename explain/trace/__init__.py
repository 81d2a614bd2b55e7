"""Recorded runs of Triton kernels: recording them, and the file they travel in.

`model` and `file` need NumPy alone. `recorder` and what it uses import torch and triton: worker processes only.
"""
