"""Hardware counters: the bytes that one run of a compiled kernel moved, as the GPU itself counts them."""
