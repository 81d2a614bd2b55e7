"""What a tile costs on a GPU that need not be there: the kernel compiled, its shared memory, registers and spills read."""
