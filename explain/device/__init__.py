"""The device worker: the compiled kernel on a CUDA GPU, checked, timed, and shown to go through the same states."""
