"""Every number of a kernel that the catalog does not know can be read: on a page that opens from disk."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
import triton
import triton.language as tl
from playwright.sync_api import Locator, Page, expect

from explain.chapters.your_run import view as your_run
from explain.player.component import Run
from explain.trace import file as trace_file
from explain.trace.file import TraceFile
from explain.trace.model import Trace, numbers
from explain.trace.python_file import record_file
from explain.trace.recorder import record_call
from tests.e2e.conftest import go

ROWS, COLS = 4, 16


@triton.jit
def theirs(x_ptr, y_ptr, n, COLS: tl.constexpr, ROWS: tl.constexpr):
    c = tl.arange(0, COLS)
    mask = c < n
    x_ptrs = x_ptr + tl.arange(0, ROWS)[:, None] * COLS + c[None, :]
    x = tl.load(x_ptrs, mask=mask[None, :], other=0.0)
    falling = 10 - c
    holes = tl.where(mask, c - 3.0, float("nan"))
    holes = tl.where(c > n + 1, 12.0, holes)
    gone = tl.where(mask, -float("inf"), float("nan"))
    gone = gone - gone
    cube = tl.reshape(x, (ROWS, 2, COLS // 2))
    a1 = n + 1
    a2 = a1 + 1
    a3 = a2 + 1
    a4 = a3 + 1
    a5 = a4 + 1
    a6 = a5 + 1
    a7 = a6 + 1
    a8 = a7 + 1
    a9 = a8 + 1
    a10 = a9 + 1
    a11 = a10 + 1
    a12 = a11 + 1
    a13 = a12 + 1
    a14 = a13 + 1
    a15 = a14 + 1
    a16 = a15 + 1
    a17 = a16 + 1
    a18 = a17 + 1
    acc = tl.zeros((ROWS, ROWS), tl.float32)
    acc = tl.dot(x, tl.trans(x), acc)
    axis = a18 + 1
    total = tl.sum(cube, axis=0)
    tl.store(y_ptr + c, 2 * tl.sum(x, 0) + tl.max(total) * axis + falling, mask=mask)


def traced() -> Trace:
    x, y = torch.randn(ROWS, COLS, generator=torch.Generator().manual_seed(1)), torch.zeros(COLS)
    return record_call(lambda: theirs[(1,)](x, y, 13, COLS=COLS, ROWS=ROWS))


@pytest.fixture(scope="module")
def trace() -> Trace:
    return traced()


@pytest.fixture
def at(alone, trace, tmp_path) -> Any:
    """at(name): the page at the step that sets a variable last."""
    trace_file.write(trace, tmp_path / "t.tilescope")
    run = Run(TraceFile((tmp_path / "t.tilescope").read_bytes()), {"title": "theirs", "badge": "trace"})
    return lambda step: alone(run, step=step)


def last(trace: Trace, name: str) -> int:
    return trace.history(name)[-1][0]


def picture(page: Page, name: str) -> Locator:
    return page.locator(".variables li", has=page.locator(f".name[data-name={name}]")).locator("canvas")


def read(page: Page, name: str, row: int, col: int, shape: tuple[int, int]) -> tuple[list[int], float]:
    """The index and the number that the tooltip shows for an element of a picture."""
    canvas = picture(page, name)
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    assert box is not None
    canvas.hover(position={"x": (col + 0.5) * box["width"] / shape[1], "y": (row + 0.5) * box["height"] / shape[0]})
    return told(page.locator(".tip").inner_text(), name)


def told(text: str, name: str) -> tuple[list[int], float]:
    found = re.fullmatch(rf"{name}\[([\d, ]+)\] = (?:element )?([-\d.,]+)(?: of \w+)?", text.replace("−", "-"))
    assert found, text
    return [int(part) for part in found[1].split(",")], float(found[2].replace(",", ""))


def test_every_variable_and_each_of_its_numbers(at, trace):
    step = trace.steps - 1
    page = at(step)
    state = trace.state(step)
    listed = page.locator(".variables .name").evaluate_all("all => all.map((one) => one.dataset.name)")
    assert len(state) > 30
    assert {*listed} == {*state, "stored"}
    x = state["x"].numpy()
    index, number = read(page, "x", 2, 5, x.shape)
    assert index == [2, 5]
    assert number == pytest.approx(x[2, 5], rel=1e-6)
    index, number = read(page, "x_ptrs", 3, 1, x.shape)
    assert (index, number) == ([3, 1], 3 * COLS + 1)
    (access,) = trace.accesses(step)
    index, number = read(page, "stored", 0, 4, (1, COLS))
    assert index == [4]
    assert number == pytest.approx(access.stored.numpy()[4], rel=1e-6)


def test_what_the_mask_hides_of_a_load_and_of_a_store_is_hatched(at, trace):
    page = at(trace.steps - 1)
    (stored,) = trace.accesses(trace.steps - 1)
    assert stored.mask is not None
    for name, rows in (("x", ROWS), ("stored", 1)):
        hidden = rows * int((~stored.mask.numpy()).sum())
        line = page.locator(".variables li", has=page.locator(f".name[data-name={name}]"))
        expect(line).to_contain_text(f"hatched: {hidden} masked")
        for col, masked in ((0, False), (COLS - 1, True)):
            canvas = line.locator("canvas")
            box = canvas.bounding_box()
            assert box is not None
            canvas.hover(position={"x": (col + 0.5) * box["width"] / COLS, "y": 3})
            assert page.locator(".tip").inner_text().endswith(", masked") is masked
    expect(page.locator(".variables li", has_text="hatched")).to_have_count(2)


def lines_and_sentence(page: Page) -> tuple[float, float, float]:
    """Where the last line of code ends, where the panel ends, and where the line's sentence begins."""
    last_line, code, equation = (
        page.locator(part).last.bounding_box() for part in (".listing:not([hidden]) .line", ".code", ".panel.equation")
    )
    assert last_line is not None
    assert code is not None
    assert equation is not None
    return last_line["y"] + last_line["height"], code["y"] + code["height"], equation["y"]


@pytest.mark.parametrize(("width", "height"), [(1440, 900), (1920, 1080), (420, 900)])
def test_the_sentence_of_a_line_stands_directly_under_the_code(alone, trace, tmp_path, width, height):
    trace_file.write(trace, tmp_path / "t.tilescope")
    long = Run(TraceFile((tmp_path / "t.tilescope").read_bytes()), {"title": "theirs", "badge": "trace"})
    for run, short in ((your_run.recorded(your_run.EXAMPLE), width > 800), (long, False)):
        page = alone(run)
        page.set_viewport_size({"width": width, "height": height})
        begins = set()
        for step in range(12):
            go(page, step)
            line, code, sentence = lines_and_sentence(page)
            assert 0 < sentence - code < 30
            assert not short or 0 < code - line < 60  # values in a line of their own have room
            begins.add(round(sentence))
        assert len(begins) == 1  # nothing moves from step to step


def test_an_array_with_three_axes_is_read_slice_by_slice_and_by_keys(at, trace):
    step = last(trace, "cube")
    page = at(step)
    cube = trace.state(step)["cube"].numpy()
    for _ in range(3):
        page.get_by_role("button", name="next slice of cube").click()
    canvas = picture(page, "cube")
    canvas.focus()
    for key in ("ArrowDown", "ArrowRight", "ArrowRight"):
        page.keyboard.press(key)
    index, number = told(canvas.get_attribute("aria-valuetext") or "", "cube")
    assert index == [3, 1, 2]
    assert number == pytest.approx(cube[3, 1, 2], rel=1e-6)
    assert told(page.locator(".tip").inner_text(), "cube") == (index, number)
    assert page.get_by_test_id("player").get_attribute("data-step") == str(step)  # the keys did not step


def test_the_line_lists_what_it_reads_with_least_and_most(at, trace):
    page = at(last(trace, "acc"))
    names = page.locator(".line.now .chip button").evaluate_all("all => all.map((one) => one.dataset.name)")
    assert sorted(names) == ["acc", "acc", "x"]  # tl.dot(x, tl.trans(x), acc)
    assert not page.locator(".sram .tiles [data-name$=_ptrs]").count()
    page.keyboard.press("ArrowRight")
    go(page, last(trace, "falling"))
    expect(page.locator(".line.now .chip")).to_contain_text("−5 … 10")
    go(page, last(trace, "holes"))
    expect(page.locator(".line.now .chip")).to_contain_text("−3 … 12, 2 NaN")
    go(page, last(trace, "gone"))
    expect(page.locator(".line.now .chip")).to_contain_text("gone NaN")
    expect(page.locator(".line.now .chip")).to_contain_text("−∞, 3 NaN")
    go(page, last(trace, "total"))
    assert "axis" not in page.locator(".line.now .chip").inner_text()


PROGRAM = """
import torch, triton, triton.language as tl

@triton.jit
def kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(y_ptr + at, 2 * x, mask=at < n)

def main():
    x, y = torch.arange(16.0), torch.zeros(16)
    kernel[(2,)](x, y, 12, BLOCK=8)
"""


def test_the_grid_is_a_map_and_another_program_stands_beside(alone, tmp_path):
    (tmp_path / "mine.py").write_text(PROGRAM.replace("[(2,)]", "[(3,)]").replace("16", "24"))
    trace = record_file(tmp_path / "mine.py", "main", [[0, 0, 0], [1, 0, 0]], lambda *said: None)
    trace_file.write(trace, tmp_path / "t.tilescope")
    (first, other), step = trace.history("x"), trace.history("x")[0][0]
    data = TraceFile((tmp_path / "t.tilescope").read_bytes())
    page = alone(Run(data, {"title": "theirs", "badge": "trace"}), step=step)
    grid = page.get_by_role("button", name="program: the grid")
    grid.click()
    expect(page.get_by_role("dialog")).to_contain_text("grid 3 × 1 × 1, 3 programs, 2 recorded")
    expect(page.get_by_role("button", name="program 2, not recorded")).to_be_disabled()
    page.get_by_role("button", name="program 1").click()
    expect(page.get_by_test_id("player")).to_have_attribute("data-step", str(other[0]))  # the same line
    grid.click()
    page.get_by_label("Compare").check()
    page.get_by_role("button", name="program 0").click()
    expect(page.locator(".variables h3")).to_contain_text(f"beside: program 0 at step {step}")
    beside = page.locator(".variables li.beside", has=page.locator(".name[data-name=x]")).locator("canvas")
    beside.focus()
    page.keyboard.press("ArrowRight")
    assert told(beside.get_attribute("aria-valuetext") or "", "x") == ([1], numbers(first[1])[1])
    expect(page.locator(".variables li.beside", has_text="the same in program 0").first).to_be_visible()  # n
    grid.click()
    page.get_by_label("Compare").check()
    page.get_by_role("button", name="program 1, shown now").click()
    expect(page.locator(".variables li.beside")).to_have_count(0)


@pytest.mark.parametrize(
    ("old", "new", "first"),
    [
        ("2 * x", "3 * x", ("stored in y", "1", "2", "3")),
        ("y_ptr + at, 2", "y_ptr + at + 1, 2", ("elements of y", "0", "0", "1")),
        ("2 * x, mask=at < n", "2 * x, mask=at < 11", ("mask of y", "3", "1", "0")),
        ("16.0)", "16.00)", None),  # the same
        ("[(2,)]", "[(3,)]", None),
    ],
)
def test_two_traces_of_theirs_that_differ_are_not_called_the_same(alone, tmp_path, old, new, first):
    assert old in PROGRAM
    runs = []
    for name, text in (("a", PROGRAM), ("b", PROGRAM.replace(old, new))):
        (tmp_path / f"{name}.py").write_text(text)
        trace = record_file(tmp_path / f"{name}.py", "main", [[0, 0, 0], [1, 0, 0]], lambda *said: None)
        trace_file.write(trace, tmp_path / f"{name}.tilescope")
        data = TraceFile((tmp_path / f"{name}.tilescope").read_bytes())
        runs.append(Run(data, {"title": name, "badge": "trace"}))
    box = alone(*runs).locator(".difference")
    found = tuple(box.get_attribute(f"data-{part}") for part in ("name", "index", "left", "right"))
    assert found == (first or ("", "", "", ""))
    assert box.get_attribute("data-comparable") == str(new != "[(3,)]").lower()
