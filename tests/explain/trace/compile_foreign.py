"""Prints what Triton's compiler says of the kernels of foreign_kernels for sm_90: {name: its error, "" for none}.

A process of its own: with TRITON_INTERPRET the kernels would not be compiled.
"""

from __future__ import annotations

import json
import sys

from triton._C.libtriton import ir
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.compiler.compiler import make_backend

from tests.explain.trace import foreign_kernels


def error_of(name: str, signature: dict[str, str], constants: dict[str, object]) -> str:
    kernel = getattr(foreign_kernels, name)
    places = {(kernel.arg_names.index(key),): value for key, value in constants.items()}
    source = ASTSource(kernel, {**signature, **dict.fromkeys(constants, "constexpr")}, places)
    target = GPUTarget("cuda", 90, 32)
    backend = make_backend(target)
    options, context = backend.parse_options({}), ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    try:
        functions = backend.get_codegen_implementation(options)
        source.make_ir(target, options, functions, backend.get_module_map(), context)
    except Exception as error:
        return str(error) or repr(error)
    return ""


if __name__ == "__main__":
    print(json.dumps({name: error_of(name, *call) for name, call in json.loads(sys.argv[1]).items()}))
