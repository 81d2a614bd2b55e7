"""The first difference of two runs: bugs are found at their line, right variants are not blamed."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest

from benchmarks.difference_forms import rewritten
from explain import cli
from explain.difference.compare import CannotCompareError, first_difference
from explain.experiment import Experiment
from explain.trace import file as trace_file
from explain.trace.model import Trace
from explain.trace.recorder import record_call
from kernels.catalog import KERNELS, Kernel
from kernels.edits import Edit, source_of
from kernels.launch import launcher, tensors

ROWS = {"rows": 2, "cols": 10, "block_n": 4}
HEADS = {"seq_len": 8, "head_dim": 16, "block_m": 4, "block_n": 4, "heads": 2}


def traced(
    kernel: str, sizes: dict[str, Any], inputs: str = "normal", edit: Edit | None = None, seed: int = 0
) -> Trace:
    """A run of a catalog kernel, with a line of it changed if asked for."""
    experiment = Experiment.of(kernel, sizes, inputs, seed)
    entry: Kernel = replace(KERNELS[kernel], edit=edit) if edit else KERNELS[kernel]
    arrays = entry.make_inputs(experiment.preset, experiment.values, seed)
    launch = launcher(entry, experiment.values, tensors(experiment.values, arrays, "cpu"))
    return record_call(launch, experiment=experiment.to_json())


BUGS = [
    ("softmax_online", ROWS, "normal", "alpha = tl.exp(m_i - m_safe)", "alpha = tl.where(m_i == m_i, 1.0, 0.0)", "α"),
    ("softmax_online", ROWS, "normal", "l_i * alpha + tl.sum(p, axis=0)", "l_i + tl.sum(p, axis=0)", "α"),
    ("flash_attention", HEADS, "normal", "acc = acc * alpha[:, None]", "acc = acc * 1.0", "α"),
    ("flash_attention", HEADS, "normal", "tl.sum(p, axis=1)", "tl.sum(p, axis=0)", "axis"),
    ("flash_attention", {**HEADS, "causal": True}, "normal", "cols[None, :] <= rows", "cols[None, :] < rows", "mask"),
    ("flash_attention", HEADS, "normal", "p = tl.exp(s - m", "p = tl.exp2(s - m", "base 2"),
    ("flash_attention", HEADS, "normal", "range(0, end, BLOCK_N)", "range(0, end - 1, BLOCK_N * 2)", "loop"),
    ("softmax_online", ROWS, "first_tile_masked", "p = tl.exp(x - m_safe)", "p = tl.exp(x - m_new)", "−∞"),
    ("softmax_tiled", {**ROWS, "block_m": 2}, "normal", "tl.sum(p, axis=1)", "tl.sum(p)", "all axes"),
    ("softmax_topk", {**ROWS, "k": 3}, "constant", "top_x >= best", "top_x > best", "equal numbers"),
    ("flash_attention_exp2", HEADS, "normal", "tl.log2(l_i)", "tl.log(l_i)", "log in place of log2"),
]


@pytest.mark.parametrize(("kernel", "sizes", "inputs", "old", "new", "cause"), BUGS, ids=lambda value: str(value)[:24])
def test_a_bug_is_found_at_its_line_with_its_cause(kernel, sizes, inputs, old, new, cause):
    edit = Edit("broken_for_this_test", f"{kernel}_kernel", old, new)
    lines = [line for sign, line, _ in edit.diff(source_of(KERNELS[kernel].module)) if sign == "+"]
    found = first_difference(traced(kernel, sizes, inputs), traced(kernel, sizes, inputs, edit))
    assert found.wrong.line in lines
    assert cause in found.cause


@pytest.mark.parametrize(
    ("old", "new", "cause"),
    [
        ("total * tl.exp(best - base) + ", "total + ", "not rescaled"),
        ("tl.exp(best - base)", "tl.exp(base - best)", "upside down"),
        ("e = tl.exp(vals", "e = tl.exp2(vals", "base 2"),
        ("tl.exp(vals - best) * share", "tl.exp(vals - best)", "not divided by"),
        ("i in range(tl.cdiv(n_cols, BLOCK_N))", "i in range(tl.cdiv(n_cols, BLOCK_N) - 1)", "loop ends"),
    ],
)
def test_a_bug_is_found_in_a_kernel_of_another_form(old, new, cause):
    edit, lines = rewritten(0, (old, new))
    found = first_difference(traced("softmax_online", ROWS), traced("softmax_online", ROWS, edit=edit), secret=True)
    assert found.wrong.line in lines
    assert cause in found.cause


OURS = {"vals": "x", "where": "cols", "higher": "m_new", "best": "m_i", "total": "l_i", "e": "p"}


@pytest.mark.parametrize("names", [{}, OURS], ids=["other names", "our names"])
def test_a_right_state_is_not_blamed_if_our_kernel_reads_all_in_a_pass_before(names):
    edit, lines = rewritten(0, ("tl.exp(vals - best) * share", "tl.exp(vals) / total"), kernel="softmax_safe")
    for other, ours in names.items():
        edit = replace(edit, new=re.sub(rf"(?<!\.)\b{other}\b", ours, edit.new))
    row = {"rows": 1, "cols": 6, "block_n": 2}
    found = first_difference(traced("softmax_safe", row, "notebook"), traced("softmax_safe", row, "notebook", edit))
    assert found.wrong.line in lines


FORGOTTEN = [  # the line that is left out, the line where it shows, the cause
    ("softmax_online", "normal", "        m_i = m_new\n", "m_new = tl.maximum(", "`m_i` is not set again"),
    ("softmax_online", "everything_masked", "    l_i = tl.where(l_i == 0.0, 1.0, l_i)\n", "y = tl.exp(", "0 / 0"),
    ("softmax_split", "normal", "    tl.store(m_ptr + own, m_i)\n", "tl.load(m_", "nothing is stored to `m_"),
]


@pytest.mark.parametrize(("kernel", "inputs", "left_out", "line", "cause"), FORGOTTEN, ids=lambda value: value[:24])
def test_a_line_that_is_forgotten_is_named_by_what_it_sets(kernel, inputs, left_out, line, cause):
    function = "softmax_merge_kernel" if kernel == "softmax_split" else f"{kernel}_kernel"
    edit = Edit("broken_for_this_test", function, left_out, "")
    found = first_difference(traced(kernel, ROWS, inputs), traced(kernel, ROWS, inputs, edit))
    assert line in found.wrong.code
    assert cause in found.cause


def test_a_variable_that_is_overwritten_too_early_is_named():
    source, early = source_of("kernels.softmax"), "        m_i = m_new\n"
    start = source.index("        alpha =", source.index("def softmax_online_kernel("))
    before = source[start : source.index(early, start)]
    edit = Edit("broken_for_this_test", "softmax_online_kernel", before + early, early + before)
    found = first_difference(traced("softmax_online", ROWS), traced("softmax_online", ROWS, edit=edit))
    assert (found.wrong.variable, found.cause) == ("alpha", "`m_i` is overwritten too early")


def test_a_loop_that_goes_on_after_the_difference_does_not_end_early():
    row = {"rows": 1, "cols": 6, "block_n": 2}
    found = first_difference(traced("softmax_safe", row, "notebook"), traced("softmax_blocked_wrong", row, "notebook"))
    assert "`l_i` so far is not added" in found.cause


@pytest.mark.parametrize(
    ("kernel", "function", "inputs", "old", "new", "cause"),
    [
        ("softmax_split", "softmax_merge", "normal", "l_j * beta", "l_j",
         "not rescaled: the factor β, `beta`, is missing"),
        ("softmax_safe", "softmax_safe", "normal", "l_i = l_i + tl.sum", "l_i = tl.sum",
         "the `l_i` so far is not added"),
        ("softmax_online", "softmax_online", "first_tile_masked", 'tl.where(m_new == -float("inf"), 0.0, m_new)',
         "m_new", "a case that depends on `m_new` is missing: always `m_new`"),
    ],
)  # fmt: skip
def test_a_secret_cause_is_in_the_readers_words(kernel, function, inputs, old, new, cause):
    edit = Edit("worded", f"{function}_kernel", old, new)
    found = first_difference(traced(kernel, ROWS, inputs), traced(kernel, ROWS, inputs, edit=edit), secret=True)
    assert found.cause == cause


def test_another_argument_is_named():
    half = traced("vector_add", {"n": 8, "block_n": 4}, edit=Edit("less", "vector_add", " n, ", " n // 2, "))
    found = first_difference(traced("vector_add", {"n": 8, "block_n": 4}), half)
    assert (found.wrong.variable, found.cause) == ("n", "the launch passes another `n`: `n` is 4 too small")


def test_a_secret_kernel_is_not_quoted():
    edit = Edit("halved", "softmax_online_kernel", "y = tl.exp(x - m_i) / l_i", "y = tl.exp(x - m_i)")
    runs = traced("softmax_online", ROWS), traced("softmax_online", ROWS, edit=edit)
    longer = Edit("first_row", "softmax_online_kernel", "x_ptr += row * stride_xm", "x_ptr += 0")
    other = traced("softmax_online", ROWS, edit=longer)
    told = [first_difference(runs[0], run, secret=True) for run in (runs[1], other)]
    assert [one.cause for one in told if one] == [
        "not divided by `l_i`",
        "a term with `row` and `stride_xm` is not added",
    ]
    open_ = first_difference(runs[0], other)
    assert "`row * stride_xm`" in open_.cause


def test_a_cause_that_no_hypothesis_gives_is_unknown():
    odd = "alpha = tl.abs(m_i * 0.37 - m_safe)"
    edit = Edit("odd", "softmax_online_kernel", "alpha = tl.exp(m_i - m_safe)", odd)
    found = first_difference(traced("softmax_online", ROWS), traced("softmax_online", ROWS, edit=edit))
    assert (found.wrong.variable, found.cause, found.evidence) == ("alpha", "", "")


@pytest.mark.parametrize(
    ("one", "other", "sizes", "others"),
    [
        ("softmax_online", "softmax_safe", ROWS, ROWS),
        ("softmax_online", "softmax_online", ROWS, {**ROWS, "block_n": 8}),
        ("softmax_safe", "softmax_split", ROWS, {**ROWS, "order": "tree"}),
        ("flash_attention", "flash_attention_exp2", HEADS, HEADS),
        ("flash_attention", "flash_attention_v1", HEADS, {**HEADS, "block_m": 8}),
        ("attention_standard", "flash_attention", HEADS, HEADS),
    ],
)
def test_a_right_variant_is_the_same(one, other, sizes, others):
    assert first_difference(traced(one, sizes), traced(other, others)) is None


def test_other_inputs_cannot_be_compared():
    with pytest.raises(CannotCompareError, match="x_ptr"):
        first_difference(traced("softmax_online", ROWS), traced("softmax_online", ROWS, seed=1))
    with pytest.raises(CannotCompareError):
        first_difference(traced("softmax_online", ROWS), traced("flash_attention", HEADS))


def test_the_command_compares_trace_files(capsys, tmp_path):
    edit = Edit("doubled", "softmax_online_kernel", "y = tl.exp(x - m_i) / l_i", "y = tl.exp(x - m_i)")
    runs = {"right": traced("softmax_online", ROWS), "broken": traced("softmax_online", ROWS, edit=edit)}
    right, broken = (tmp_path / f"{name}.tilescope" for name in runs)
    for path, run in zip((right, broken), runs.values(), strict=True):
        trace_file.write(run, path)
    page = tmp_path / "page.html"
    assert cli.main(["diff", str(right), str(broken), "--json", "--out", str(page)]) == 1
    answer = json.loads(capsys.readouterr().out)
    assert answer["same"] is False
    assert answer["difference"]["wrong"]["variable"] == "y"
    assert answer["difference"]["outputs"] == {"y": 20}
    assert page.stat().st_size > 10_000
    assert cli.main(["diff", str(right), str(right), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"same": True, "difference": None}
    other = tmp_path / "other.tilescope"
    trace_file.write(traced("softmax_online", ROWS, seed=1), other)
    assert cli.main(["diff", str(right), str(other), "--json"]) == 2
    said = capsys.readouterr()
    assert "the inputs differ" in json.loads(said.out)["error"]
    assert "the inputs differ" in said.err


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["no_such", "softmax_online"], "no_such"),
        (["README.md", "README.md"], "README.md"),
        (["softmax_online", "softmax_safe", "--out", "page.txt"], "page.txt"),
        (["softmax_online", "softmax_safe", "--set", "cols=none"], "cols=none"),
    ],
)
def test_bad_arguments_are_named(capsys, words, named):
    assert cli.main(["diff", *words]) == 2
    assert named in capsys.readouterr().err
