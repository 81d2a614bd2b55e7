"""No answer is right but by its outputs: what reaches past Triton's language is refused, and if it were not, forging
the result from inside its process does not help."""

from __future__ import annotations

import pytest

from explain.puzzles.answer import Answer, AnswerError, answer_of
from explain.puzzles.judge import Judge
from explain.puzzles.puzzles import puzzles

pytestmark = pytest.mark.xdist_group("puzzles")
PUZZLE = puzzles()["vector_add"]
HEAD = PUZZLE.head()
KERNEL = PUZZLE.starter()[len(PUZZLE.starter().partition("@triton.jit")[0]) :]
"""A kernel that stores nothing."""
LINE = 'b\'{"outputs": {"c": {"shape": [1], "data": "AAAAAAAA8D8="}}, "traffic": [0, 0, 0]}\\n\''
"""What the process of an answer sends for the first case, with 1.0 as its element."""

FORGERIES = {
    "an answer of its own":
    "import os\n"
    "for fd in range(3, 64):\n"
    f"    try: os.write(fd, {LINE} * 99)\n"
    "    except OSError: pass\n"
    "os._exit(0)",
    "no answer": "import os\nos._exit(0)",
    "an answer at exit": f"import atexit, os\natexit.register(lambda: os.write(3, {LINE}))",
    "an answer from a thread": f"import os, threading\nthreading.Thread(target=lambda: os.write(3, {LINE})).start()",
    "an answer without outputs":
    "import os\n"
    "os.write(3, b'{\"outputs\": {}, \"traffic\": [0, 0, 0]}\\n' * 99)\n"
    "os._exit(0)",
    "an answer of another shape": f"import os\nos.write(3, {LINE}.replace(b'[1]', b'[]') * 99)\nos._exit(0)",
    "an answer of NaN": f"import os\nos.write(3, {LINE}.replace(b'AAAAAAAA8D8=', b'AAAAAAAA+H8=') * 99)\nos._exit(0)",
    "a verdict":
    "import os\n"
    "os.write(3, b'{\"right\": true, \"verdicts\": [{\"right\": true}]}\\n' * 99)\n"
    "os._exit(0)",
    "a pickle": "import os, pickle\nos.write(3, pickle.dumps(print))\nos._exit(0)",
    "a deep answer": "import os\nos.write(3, b'[' * 50000 + b'\\n')\nos._exit(0)",
    "an endless number": "import os\nos.write(3, b'{\"outputs\": {\"c\": ' + b'9' * 50000 + b'}}\\n')\nos._exit(0)",
    "a message of its protocol":
    "import os\n"
    "for fd in range(1, 64):\n"
    "    try: os.write(fd, b'\\0\\0\\0\\x2c{\"number\": 1, \"ok\": true, \"value\": {\"why\": \"\"}}')\n"
    "    except OSError: pass",
    "a comparison that is always true":
    "import torch, numpy\n"
    "for module in (torch, numpy):\n"
    "    module.allclose = module.isclose = module.equal = lambda *_, **__: True\n"
    "numpy.ndarray_equal = lambda *_: True",
    "another clock": "import time\ntime.monotonic = time.perf_counter = time.time = lambda: 0.0",
    "another launcher":
    "import torch, kernels.vector\n"
    "kernels.vector.vector_add = lambda a, b, *_, **__: torch.ones_like(a)",
    "another recorder": "import explain.puzzles.runner as runner\nrunner._counted = lambda *_: ({}, [0, 0, 0])",
    "another encoder": "import json\njson.dumps = lambda *_: '{\"right\": true}'",
    "another check": "import kernels.verify\nkernels.verify.verify = lambda *_, **__: None",
    "the answer in a frame":
    "import sys\n"
    "frame = sys._getframe()\n"
    "while frame:\n"
    "    frame.f_locals.get('expected', frame.f_locals.get('cases'))\n"
    "    frame = frame.f_back",
    "another interpreter": "import triton.language as tl\ntl.store = lambda *_, **__: None",
    "an input that is also the output": "import torch, numpy\ntorch.empty_like = lambda x, **_: x",
    "the memory of before": "import torch\ntorch.empty_like = lambda x, **_: torch.zeros_like(x)",
    "an exception that is none": "raise SystemExit(0)",
}  # fmt: skip


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forged_answer_is_not_right(judge: Judge, name: str) -> None:
    text = f"{HEAD}\n{FORGERIES[name]}\n\n\n{KERNEL}"
    with pytest.raises(AnswerError):
        answer_of(text, "answer.py")
    found = judge.judge(Answer("answer.py", PUZZLE, text), seed=7, seconds=20)
    assert not found.right
    assert found.passed < found.cases


BODIES = [
    "open('x')", "x_ptr.handle", "x_ptr.data", "tl.core", "tl.math.core", "tl.extra", "().__class__", "tl.load.fn",
    "__import__('os')", "getattr(tl, 'core')", "a = tl\n    a.core", "triton.runtime", "math.__spec__", "import os",
    "lambda: 1", "[x for x in y]", "f'{x_ptr.__class__}'", "'{0}'.format(x_ptr)", "global g", "tl = 1", "(y := 1)",
    "del x_ptr", "try:\n        1\n    except: 2", "def g(): pass", "f.fn", "f.run", "tl.tensor(1, 2)", "eval('1')",
    "raise SystemExit", "with x_ptr: pass", "vars()", "print(__builtins__)", "tl.inline_asm_elementwise('')",
]  # fmt: skip
MODULES = [
    "import os", "from os import path", "import triton.language.core as c", "from triton.language import core",
    "from math import *", "import kernels.reference", "from kernels.reference import softmax", "from . import x",
    "x = open\nopen = 1", "for i in range(3): pass", "class A: pass", "x: eval('1') = 2", "print(1)", "if True: pass",
    "@triton.autotune(configs=[])\ndef f(): pass", "def f(a=open('x')): pass", "def f(a: open('x')): pass",
    "async def f(): pass",
]  # fmt: skip


@pytest.mark.parametrize("text", [f"@triton.jit\ndef f(x_ptr):\n    {body}" for body in BODIES] + MODULES)
def test_what_is_not_triton_is_refused_at_its_line(text: str) -> None:
    first = HEAD.count("\n") + 2
    with pytest.raises(AnswerError) as refused:
        answer_of(f"{HEAD}\n{text}\n", "answer.py")
    assert refused.value.line is not None
    assert refused.value.line >= first


@pytest.mark.parametrize("body", ["tl.{}(x_ptr)", "x_ptr.{}", "__{}"])
def test_a_long_name_is_quoted_by_its_beginning(body: str) -> None:
    with pytest.raises(AnswerError) as refused:
        answer_of(f"{HEAD}\n@triton.jit\ndef f(x_ptr):\n    {body.format('long' * 1000)}\n", "answer.py")
    assert "longlong" in str(refused.value)
    assert len(str(refused.value)) < 300
