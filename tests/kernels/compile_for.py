"""Compiles an attention kernel for a GPU you don't have. A process of its own: one process compiles or interprets.

python compile_for.py 90 flash_attention_exp2_kernel:bf16 …

prints a line for each: how often its PTX has ex2 and log2 e, and its bytes of shared memory
"""

import sys

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from kernels import attention

constants = {"HEAD_DIM": 64, "BLOCK_D": 64, "BLOCK_M": 64, "BLOCK_N": 64, "CAUSAL": True}
floats = {"sm_scale", "scale_log2"}
capability, *wanted = sys.argv[1:]
for one in wanted:
    name, dtype = one.split(":")
    kernel = getattr(attention, name)
    signature = {
        argument: "constexpr"
        if argument in constants
        else "*fp32"
        if argument == "lse_ptr"
        else f"*{dtype}"
        if argument.endswith("_ptr")
        else "fp32"
        if argument in floats
        else "i32"
        for argument in kernel.arg_names
    }
    source = ASTSource(fn=kernel, signature=signature, constexprs=constants)
    compiled = triton.compile(source, target=GPUTarget("cuda", int(capability), 32), options={"num_warps": 4})
    assert compiled.asm["cubin"]
    ptx = compiled.asm["ptx"]
    # the middle one: log2 e in float32
    print(ptx.count("ex2.approx"), ptx.upper().count("0F3FB8AA3B"), compiled.metadata.shared)
