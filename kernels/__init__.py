"""What runs on the GPU: the Triton kernels, their inputs, their float64 references and the bytes they must move.

`catalog` lists them all and imports neither torch nor triton; the kernels' own modules do.
"""
