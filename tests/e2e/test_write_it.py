"""A kernel written in the page: wrong at its line, then right, by the file that the command keeps too."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import Page, expect

from explain.puzzles.puzzles import puzzles

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

    wrong = TEXT.replace(RESCALED, "l_i + ")
    line = 1 + next(n for n, text in enumerate(TEXT.splitlines()) if RESCALED in text)
    editor.evaluate(WRITE, wrong)
    check.click()
    expect(errors).to_have_count(1)
    expect(page.get_by_test_id("player")).to_be_visible()
    page.wait_for_function(MARKED, arg=line)

    editor.evaluate(WRITE, "import os\n" + TEXT)
    check.click()
    expect(page.get_by_test_id("player")).to_have_count(0)
    page.wait_for_function(MARKED, arg=1)

    editor.evaluate(WRITE, TEXT)
    page.keyboard.press("Control+Enter")
    expect(page.locator("[data-testid=stAlertContentSuccess]")).to_have_count(1)
    expect(page.get_by_role("table")).to_have_count(1)
