"""What a tile costs on a GPU you need not have: shared memory, registers and spills of the compiled kernel."""
