"""A kernel written in the page: wrong at its line, then right, by the file that the command keeps too."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from explain.puzzles.kernels import KERNELS
from explain.puzzles.puzzles import predictions, puzzles
from tests.e2e.conftest import rests
from tests.e2e.waiting import until
from tests.explain.puzzles.students import MISTAKES, solved

PUZZLE = puzzles()["online"]
TEXT = "\n\n\n".join([PUZZLE.head(), *PUZZLE.solution().values()]) + "\n"
RESCALED = "l_i * alpha + "
MARKED = """line => {
  const marks = document.querySelector(".kernel-editor").editor.session.getAnnotations();
  return marks.length === 1 && marks[0].row + 1 === line;
}"""
WRITE = "(root, text) => { root.editor.setValue(text, -1); root.editor.focus() }"


def test_a_kernel_is_checked_in_the_page(visit: Callable[[str], Page]) -> None:
    page = visit(f"write_it?puzzle={PUZZLE.name}")
    editor = page.locator(".kernel-editor[data-ready]")
    check = page.get_by_role("button", name="Check", exact=True)
    errors = page.locator("[data-testid=stAlertContentError]")
    expect(check).to_be_in_viewport()  # goal, editor and button are on the first screen

    wrong = TEXT.replace(RESCALED, "l_i + ")
    line = 1 + next(n for n, text in enumerate(TEXT.splitlines()) if RESCALED in text)
    editor.evaluate(WRITE, wrong)
    check.click()
    expect(errors).to_have_count(1)
    expect(page.get_by_test_id("player")).to_be_visible()
    until(page, MARKED, arg=line)

    editor.evaluate(WRITE, "import os\n" + TEXT)
    check.click()
    expect(page.get_by_test_id("player")).to_have_count(0)
    until(page, MARKED, arg=1)

    editor.evaluate(WRITE, TEXT)
    page.keyboard.press("Control+Enter")
    expect(page.locator("[data-testid=stAlertContentSuccess]")).to_have_count(1)
    expect(page.get_by_role("table")).to_have_count(1)

    solved = page.get_by_role("button", name=f"{PUZZLE.title}, solved")
    rests(page)
    page.get_by_role("button", name="Next: ").click()
    expect(page.get_by_role("heading", name="Tiles of rows and columns")).to_be_visible()
    rests(page)
    solved.click()  # on the path
    expect(page.locator("h2[id]", has_text=PUZZLE.title)).to_be_visible()  # the path has it too
    expect(solved).to_have_attribute("aria-current", "step")


@pytest.mark.parametrize("name", [one.name for one in puzzles().values() if one.kernel in KERNELS])
def test_the_backward_puzzles_are_solved_in_the_page(visit: Callable[[str], Page], name: str) -> None:
    page = visit(f"write_it?puzzle={name}")
    editor = page.locator(".kernel-editor[data-ready]")
    editor.evaluate(WRITE, next(one.text for one in MISTAKES if one.puzzle == name))
    page.keyboard.press("Control+Enter")
    expect(page.get_by_test_id("player")).to_be_visible()
    rests(page)
    editor.evaluate(WRITE, solved(puzzles()[name]))
    page.keyboard.press("Control+Enter")
    expect(page.locator("[data-testid=stAlertContentSuccess]")).to_have_count(1)
    expect(page.get_by_role("table")).to_have_count(1)


@pytest.mark.parametrize("name", predictions())
def test_a_prediction_shows_its_step_and_has_other_numbers(visit: Callable[[str], Page], name: str) -> None:
    page = visit(f"write_it?puzzle={name}")
    question = page.get_by_text("after this tile?").first
    asked = question.inner_text()
    page.get_by_label("Your number").fill("77")
    page.get_by_role("button", name="Check", exact=True).click()
    expect(page.locator("[data-testid=stAlertContentError]")).to_have_count(1)
    expect(page.get_by_test_id("player")).to_have_count(0)  # its step has the answer
    rests(page)
    page.get_by_role("button", name="Show me the step").click()
    expect(page.get_by_test_id("player")).to_be_visible()
    rests(page)
    page.get_by_role("button", name="Other numbers").click()
    expect(page.get_by_test_id("player")).to_have_count(0)
    expect(question).not_to_have_text(asked)


def test_a_file_is_checked_at_each_save(visit: Callable[[str], Page], tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(PUZZLE.starter())
    page = visit(f"write_it?puzzle={PUZZLE.name}")
    page.get_by_label("the path of a file on this computer").fill(str(file))
    page.keyboard.press("Enter")
    expect(page.locator("[data-testid=stAlertContentError]")).to_have_count(1)
    file.write_text(TEXT)
    expect(page.locator("[data-testid=stAlertContentSuccess]")).to_have_count(1)
