"""Each sort of finding is found in its kernel and not in the right twin: the line, the program, the element."""

from __future__ import annotations

import itertools
import sys
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from explain.trace import file
from explain.trace.checks import CHECKS, NOT_TRIED, checked
from explain.trace.errors import TookTooLong, TraceTooLarge
from explain.trace.model import SORTS
from explain.trace.python_file import record_file
from explain.trace.races import Lanes
from explain.trace.recorder import record_call
from explain.trace.records import ATOMIC, LOAD
from tests.explain.checks import faults


def findings(function):
    trace = checked(lambda evidence: record_call(function, evidence=evidence))
    return trace.report.findings


def line_of(text, nth=0):
    """The line of faults.py that has this text."""
    with open(faults.__file__, encoding="utf-8") as source:
        return [number for number, line in enumerate(source, 1) if text in line][nth]


STORE_ALL = "tl.store(y_ptr + cols, tl.load(x_ptr + cols))"
STORE_SOME = "tl.store(y_ptr + cols, tl.load(x_ptr + cols, mask=cols < n), mask=cols < n)"
FOUND = {
    "outside": (STORE_ALL, 0, (3, 0, 0), "x_ptr", 60),
    "unwritten": ("tl.atomic_add(y_ptr + cols, x)", 0, (0, 0, 0), "y_ptr", 0),
    "undefined": ("x = tl.load(x_ptr + cols, mask=cols < n)\n", 0, (0, 0, 0), "x_ptr", 10),
    "race": ("tl.store(y_ptr, tl.load(y_ptr) + tl.sum(x))", 0, (1, 0, 0), "y_ptr", 0),
    "twice": ("tl.store(y_ptr + lanes // 2, x)", 0, (0, 0, 0), "y_ptr", 0),
    "wrapped": ("x = tl.load(x_ptr + row * stride", 0, (2, 0, 0), "", -1),
    "overflow": ("tl.store(y_ptr + lanes, tl.load(x_ptr + lanes).to", 0, (0, 0, 0), "", -1),
    "nan": ("p = tl.exp(x - m)", 0, (0, 0, 0), "", -1),
    "rewritten": ("tl.store(y_ptr + cols, tl.load(x_ptr + cols, mask=cols < n, other=0.0)", 0, (1, 0, 0), "y_ptr", 12),
    "mask": (STORE_SOME, 0, (0, 0, 0), "", -1),
    "unused": ("w = tl.load(w_ptr + lanes)", 0, (0, 0, 0), "", -1),
    "sectors": ("tl.store(y_ptr + lanes, tl.load(x_ptr + lanes * stride))", 0, (0, 0, 0), "", -1),
}


@pytest.mark.parametrize("sort", SORTS)
def test_a_fault_is_found_where_it_is(sort):
    text, nth, program, buffer, element = FOUND[sort]
    found = [one for one in findings(getattr(faults, sort)) if one.sort == sort]
    assert [(one.line, one.error, one.program) for one in found] == [(line_of(text, nth), SORTS[sort].error, program)]
    assert (found[0].buffer, found[0].element) == (buffer, element)


@pytest.mark.parametrize("sort", SORTS)
def test_its_right_twin_is_not_blamed(sort):
    found = findings(getattr(faults, f"{sort}_right"))
    assert sort not in {one.sort for one in found}
    assert not [one for one in found if one.error]


@pytest.mark.parametrize(
    "function",
    [
        "unwritten_then_filled",
        "unwritten_then_filled_by_numpy",
        "unwritten_then_filled_with_a_byte_of_poison",
        "unwritten_then_zeroed_by_numpy",
        "race_with_a_lock",
        "race_in_place_right",
        "outside_a_view_right",
    ],
)
def test_right_kernels_that_look_alike_are_not_blamed(function):
    assert not [one for one in findings(getattr(faults, function)) if one.error]


def test_an_atomic_after_the_race_excuses_nothing():
    assert "race" in {one.sort for one in findings(faults.race_before_an_atomic)}


def test_a_run_that_is_never_the_same_twice_is_not_blamed():
    turns = itertools.count()

    def run():
        x = torch.full((16,), float(next(turns)))
        faults.maximum_kernel[(1,)](x, torch.zeros(1), 10, PADDED=False, BLOCK=16)

    assert "undefined" not in {one.sort for one in findings(run)}


def test_what_numpy_did_not_write_is_unwritten():
    (found,) = (one for one in findings(faults.unwritten_but_half) if one.error)
    assert (found.sort, found.element, found.times) == ("unwritten", 8, 8)


def test_whole_numbers_that_nobody_wrote_are_unwritten():
    (found,) = (one for one in findings(faults.unwritten_counts) if one.error)
    assert (found.sort, found.times) == ("unwritten", 16)


def late(evidence):
    raise TookTooLong("it ran too long")


def hidden_limit(evidence):
    def call():
        with suppress(TraceTooLarge):
            faults.undefined()

    return record_call(call, evidence=evidence, max_steps=3)


def failing(evidence):
    record_call(faults.undefined, evidence=evidence)
    raise ValueError("index 1515870810 is not allowed")


@pytest.mark.parametrize(("again", "proves"), [(late, False), (hidden_limit, False), (failing, True)])
def test_a_repetition_that_a_limit_ends_proves_nothing(again, proves):
    def record(evidence):
        return again(evidence) if evidence.garbage else record_call(faults.undefined, evidence=evidence)

    report = checked(record).report
    assert ("undefined" in {one.sort for one in report.findings}) == proves
    assert (NOT_TRIED in report.notes) != proves


@pytest.mark.parametrize("hidden", [False, True])
def test_a_file_that_is_late_when_it_runs_again_is_not_blamed(tmp_path, hidden):
    path = tmp_path / "mine.py"
    wait = "    time.sleep(30 if begun else 0)\n"
    if hidden:
        wait = f"    with contextlib.suppress(Exception):\n    {wait}"
    path.write_text(
        "import contextlib, sys, time\nfrom tests.explain.checks import faults\n\n"
        "def main():\n    begun, sys.begun = hasattr(sys, 'begun'), True\n    faults.undefined()\n" + wait
    )
    try:
        report = checked(lambda e: record_file(path, "main", "all", lambda *_: None, 2.0, evidence=e)).report
    finally:
        vars(sys).pop("begun", None)
    assert "undefined" not in {one.sort for one in report.findings}
    assert NOT_TRIED in report.notes


def test_of_two_loads_in_a_line_the_unused_one_is_named():
    (found,) = findings(faults.unused_beside_a_used_one)
    assert found.sort == "unused"
    assert "w_ptr" in found.words


def test_the_sectors_of_each_access_are_judged_by_themselves():
    (found,) = findings(faults.sectors_of_the_load_alone)
    assert found.sort == "sectors"
    assert "x_ptr" in found.words
    assert "33%" in found.words


def test_few_bytes_side_by_side_waste_nothing():
    assert not findings(faults.sectors_of_few_bytes)


@pytest.mark.parametrize("function", ["a_descriptor", "a_descriptor_over_the_edge"])
def test_a_descriptor_keeps_its_bounds_and_has_no_mask(function):
    assert not findings(getattr(faults, function))


def test_a_view_of_a_larger_tensor_has_gaps():
    (found,) = (one for one in findings(faults.outside_a_view) if one.error)
    assert (found.sort, found.element, found.index, found.times) == ("outside", 16, (0, 16), 16)


def test_the_mask_that_mends_names_the_variables():
    (found,) = findings(faults.outside)
    assert "cols < n" in found.remedy
    assert found.index == (60,)


@triton.jit
def before_kernel(x_ptr, y_ptr, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK) - 1
    tl.store(y_ptr + lanes + 1, tl.load(x_ptr + lanes))


def test_an_element_before_the_tensor_has_no_place():
    (found,) = (one for one in findings(lambda: before_kernel[(1,)](torch.randn(16), torch.zeros(16), BLOCK=16)))
    assert (found.element, found.index) == (-1, ())
    assert "lanes >= 0" in found.remedy


def test_findings_are_kept_in_the_trace_file():
    trace = checked(lambda evidence: record_call(faults.outside, evidence=evidence))
    read = file.read(file.to_bytes(trace))
    assert read.report.findings == trace.report.findings
    assert file.read(file.to_bytes(record_call(faults.outside_right))).report.findings is None


def test_every_sort_has_a_check():
    assert list(CHECKS) == list(SORTS)


@pytest.mark.parametrize(
    ("function", "line"),
    [
        (faults.race_in_place, "tl.store(x_ptr + cols, here + there, mask=cols < n)"),
        (faults.race_read_back, "tl.store(z_ptr + cols, tl.load(y_ptr + (cols + 1) % n))"),
    ],
)
def test_a_race_is_found_whatever_lies_between(function, line):
    found = [one for one in findings(function) if one.error]
    assert {one.sort for one in found} == {"race"}
    assert line_of(line) in [one.line for one in found]


def accesses(seed, count=60):
    """Lanes of random accesses to few addresses by few programs, one lane each, sorted; all at one line."""
    random = np.random.default_rng(seed)
    kind, address = random.integers(0, 3, count), random.integers(0, 8, count)
    places = np.stack([np.zeros(count, int), np.sort(random.integers(0, 4, count))], axis=1)
    run: Any = SimpleNamespace(places=places, steps=np.arange(count))
    run.trace = SimpleNamespace(columns=SimpleNamespace(access_kind=kind, line=np.zeros(count, int)))
    access = np.lexsort((np.arange(count), address))
    return Lanes(run, address[access], access, np.zeros(count), address[access])


@pytest.mark.parametrize("seed", range(5))
def test_every_access_that_races_is_found(seed):
    lanes = accesses(seed)
    kind, program = lanes.run.trace.columns.access_kind, lanes.run.places[:, 1]
    address = dict(zip(lanes.access, lanes.address, strict=True))
    pairs = {
        (a, b)
        for a in range(len(kind))
        for b in range(a + 1, len(kind))
        if program[a] != program[b] and address[a] == address[b]
        if {kind[a], kind[b]} not in ({LOAD}, {ATOMIC})
    }
    found = {(a, b) for a, b, _ in lanes.conflicts(lambda a, b: False)}
    assert found <= pairs
    assert {(b, kind[a]) for a, b in found} == {(b, kind[a]) for a, b in pairs}
    excused = {pair for pair in pairs if sum(pair) % 2}
    found = {(a, b) for a, b, _ in lanes.conflicts(lambda a, b: (a, b) in excused)}
    assert found <= pairs - excused
