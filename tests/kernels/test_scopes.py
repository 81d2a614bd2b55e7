"""Marked scopes are in the right places, and without a profiler the kernel compiles to the same instructions."""

from __future__ import annotations

import pytest

from kernels import scopes
from kernels.edits import source_of

HOPPER = "kernels.attention_hopper"


def _body(source: str, function: str) -> list[str]:
    start = source.index(f"def {function}(")
    return [line.strip() for line in source[start : source.index("\n\n\n", start)].splitlines()]


def test_nothing_but_scopes_is_added():
    plain = source_of(HOPPER).splitlines()
    left = [line for line in scopes.marked(source_of(HOPPER)).splitlines() if "pl." not in line and "as pl" not in line]
    assert left == plain


def test_the_softmax_lies_between_the_scores_and_the_wait_for_v_and_under_the_product_before():
    compute = _body(scopes.marked(source_of(HOPPER)), "_compute")
    loop = compute[compute.index("for visit in range(1, visits):") :]
    order = [line for line in loop if line.startswith("pl.")]
    assert order[:10] == [
        'pl.enter_scope("wait K")',
        'pl.exit_scope("wait K")',
        'pl.enter_scope("QK")',
        'pl.enter_scope("PV")',
        'pl.exit_scope("QK")',
        'pl.enter_scope("softmax")',
        'pl.exit_scope("softmax")',
        'pl.enter_scope("wait V")',
        'pl.exit_scope("wait V")',
        'pl.exit_scope("PV")',
    ]


def test_a_statement_of_several_lines_is_marked_around_all_of_them():
    matmul = ["    o = warpgroup_mma(", "        p, v, o,", "    )"]
    wait = "    o = warpgroup_mma_wait(0)"
    source = ["def f():", "    s = warpgroup_mma(q, k)", "    s = warpgroup_mma_wait(0)", *matmul, wait, ""]
    lines = scopes.marked("\n".join(source)).splitlines()
    at = lines.index(matmul[0])
    assert lines[at - 1 : at + 4] == ['    pl.enter_scope("PV")', *matmul, wait]


@pytest.mark.parametrize(
    ("source", "words"),
    [("def f():\n    s = warpgroup_mma(q, k)\n", ": QK"), ("def f():\n    pass\n", "warpgroup_mma")],
)
def test_what_cannot_be_marked_is_refused(source, words):
    with pytest.raises(ValueError, match=words):
        scopes.marked(source)


COMPILED = {  # module:function:head_dim → the least clock readings, and the warps
    f"{HOPPER}:flash_attention_hopper:128": (65, 12),
    "kernels.rungs.specialised:attention:128": (20, 12),
}
"""The most and the fewest scopes; the timelines of the others are recorded on a GPU (tests/gpu/test_timeline.py)."""


def test_compiled_for_hopper_the_marks_are_nothing_until_a_profiler_is_at_work(compile_workers):
    done = compile_workers.call({"script": "tests.kernels.compile_scopes", "arguments": [*COMPILED]})
    assert "scope name" not in done["said"]  # Proton says so where one begins twice, or never ends
    for line, (readings, warps) in zip(done["printed"].splitlines(), COMPILED.values(), strict=True):
        same, read, shared, all_warps = line.split()
        assert same == "True"
        assert int(read) >= readings
        assert int(shared) <= 227 * 1024
        assert int(all_warps) == warps
