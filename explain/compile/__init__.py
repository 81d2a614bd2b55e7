"""What a tile costs on a GPU you don't have: shared memory, registers and spills of the compiled kernel."""
