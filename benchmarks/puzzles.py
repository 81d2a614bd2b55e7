"""How long a reader waits in the page *Write it*, from Check to the verdict, and what they are told.

    python -m benchmarks.puzzles --out benchmarks/results/puzzles.json

Headless Chrome or Chromium opens each puzzle in the app and solves it. Between right answers it gives the wrong ones of
students (tests/explain/puzzles/students.py): their time includes both traces and the first difference. The processes
that judge are warm. A puzzle's time is the median of its repeats, for wrong answers that of the slowest one. A wrong
answer is told where it is wrong if its line is marked, or if the message says what is missing. About twenty minutes.
"""

from __future__ import annotations

import math
import os
import re
import statistics
import sys
from collections.abc import Sequence
from typing import Any

from playwright.sync_api import Page

from benchmarks.report import chrome, finish, parser_of
from benchmarks.tracing import _cpu
from explain.puzzles.predictions import Prediction
from explain.puzzles.puzzles import ladder
from tests.e2e.server import running_app
from tests.explain.puzzles.students import MISTAKES, solved

MOST_SECONDS = 1.0
"""A right answer should be told within this time, and so should a wrong one."""
PATIENCE_MS = 60_000
SETTLED_MS = 1_500
"""Before each answer: the browser has then drawn what came with the last verdict, as it has when a reader answers."""
APART = 0.01
"""Numbers as close as this may both be right."""
WITHOUT_A_LINE = ("bytes", "Nothing is stored")
"""What a message says that has no line, and yet says what is wrong."""
WRITE = "(root, text) => { root.editor.setValue(text, -1); root.editor.focus() }"
CHECK = """(patience) => new Promise((told, failed) => {
  setTimeout(failed, patience, new Error("no other verdict came"));
  const said = () => document.querySelector("[data-testid=stAlertContentError], [data-testid=stAlertContentSuccess]");
  const before = said()?.textContent, start = performance.now();
  const watch = new MutationObserver(() => {
    const now = said()?.textContent;
    if (!now || now === before) return;
    watch.disconnect();
    const right = Boolean(document.querySelector("[data-testid=stAlertContentSuccess]"));
    const alert = document.querySelector("[data-testid=stAlert]");
    const verdict = document.querySelector(".st-key-puzzle-verdict") ?? alert;
    const ms = performance.now() - start;
    setTimeout(() => told({ ms, right, words: verdict.innerText }), 400);  // its marks and its table come with it
  });
  watch.observe(document.body, { subtree: true, childList: true, characterData: true });
  [...document.querySelectorAll("button:enabled")].find((one) => one.innerText.startsWith("Check")).click();
})"""
"""Presses Check; {ms: until another verdict stands in the page, right, words}. Fails after `patience` milliseconds."""
MARKED = "document.querySelector('.kernel-editor')?.editor.session.getAnnotations().length"


WORDS: list[str] = []
"""What the wrong answers of a puzzle were told."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the benchmark; 0 if each answer is judged as it should be, told where it is wrong, and in time if right."""
    parser = parser_of(__doc__)
    parser.add_argument("--repeats", type=int, default=3, help="timed checks of each answer (3)")
    parser.add_argument("--only", nargs="*", choices=[*ladder()], metavar="PUZZLE", help="these puzzles; default: all")
    parser.add_argument("--words", action="store_true", help="also print what each wrong answer is told")
    options = parser.parse_args(arguments)
    each: dict[str, dict[str, Any]] = {}
    with chrome() as browser, running_app() as server:
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        page.set_default_timeout(PATIENCE_MS)
        for name in ("vector_add", *(options.only or ladder())):  # the first time warms the processes up
            page.goto(f"{server.url}/write_it?puzzle={name}")
            each[name] = _measured(page, name, options.repeats)
            print(f"{name:<18}{each[name]}", file=sys.stderr)
            for words in WORDS if options.words else ():
                print(f"  {words}", file=sys.stderr)
            WORDS.clear()
    right, wrong = ([one[which] for one in each.values()] for which in ("right_s", "wrong_s"))
    counts = {what: sum(one[what] for one in each.values()) for what in ("solved", "wrong", "told")}
    passed = counts["solved"] == len(each) and counts["told"] == counts["wrong"] and max(right) <= MOST_SECONDS
    result = {
        "what": "seconds from Check to the verdict in the page, in warm processes",
        "machine": {"cpu": _cpu(), "cores": os.cpu_count(), "load": round(os.getloadavg()[0], 1)},
        "repeats": options.repeats,
        "limit_s": MOST_SECONDS,
        **counts,
        "right_s": {"median": round(statistics.median(right), 3), "slowest": max(right)},
        "wrong_s": {"median": round(statistics.median(wrong), 3), "slowest": max(wrong)},
        "puzzles": each,
        "passed": passed,
    }
    return finish(result, "puzzles", options.out)


def _measured(page: Page, name: str, repeats: int) -> dict[str, Any]:
    """A puzzle's times and counts. A right answer stands between two wrong ones: each verdict has other words."""
    puzzle = ladder()[name]
    if isinstance(puzzle, Prediction):
        right, *wrong = _asked(page, puzzle.ask)
    else:
        page.locator(".kernel-editor[data-ready]").wait_for()
        right, *wrong = [solved(puzzle), *(one.text for one in MISTAKES if one.puzzle == name)]
    times: dict[str, list[float]] = {}
    told = set()
    solves = True
    for _ in range(repeats):
        for answer in wrong:
            seconds, verdict = _checked(page, answer)
            times.setdefault(answer, []).append(seconds)
            marked = isinstance(puzzle, Prediction) or page.evaluate(MARKED)
            solves &= not verdict["right"]
            if marked or any(one in verdict["words"] for one in WITHOUT_A_LINE):
                told.add(answer)
            WORDS.append(verdict["words"])
            seconds, verdict = _checked(page, right)
            times.setdefault(right, []).append(seconds)
            solves &= verdict["right"]
    medians = {answer: round(statistics.median(found), 3) for answer, found in times.items()}
    slowest = max(medians[answer] for answer in wrong)
    return {"right_s": medians[right], "wrong_s": slowest, "solved": solves, "wrong": len(wrong), "told": len(told)}


def _checked(page: Page, answer: str) -> tuple[float, dict[str, Any]]:
    """Gives an answer; the seconds until its verdict stands in the page, and the verdict."""
    field = page.get_by_label("Your number")
    if field.count():
        field.fill(answer)
    else:
        page.locator(".kernel-editor").evaluate(WRITE, answer)
    page.locator("button:enabled", has_text="Check").wait_for()
    page.wait_for_timeout(SETTLED_MS)
    said: dict[str, Any] = page.evaluate(CHECK, PATIENCE_MS)
    return said["ms"] / 1000, said


def _asked(page: Page, ask: str) -> list[str]:
    """The right number and three wrong ones. Where a mistake gives the right one, the reader asks for other numbers."""
    while True:
        page.get_by_label("Your number").wait_for()
        question = page.get_by_text("after this tile?").first.inner_text()
        right, *wrong = _numbers(ask, question)
        if all(abs(float(one) - float(right)) > APART for one in wrong):
            return [right, *wrong]
        page.get_by_role("button", name="Other numbers").click()
        page.get_by_text(question).wait_for(state="detached")


def _numbers(ask: str, question: str) -> list[str]:
    """The right number for the question of a prediction, and three wrong ones: what a student forgets."""
    known, tile = re.findall(r"(?:m =|holds) (.*?)\. ", question.replace("−", "-"))
    m, total = (float(one) for one in f"{known} and ℓ = 0".replace(" and ℓ =", "").split()[:2])
    x = [float(one) for one in tile.split(", ")]
    new = max(m, *x)
    alpha, added = math.exp(m - new), sum(math.exp(one - new) for one in x)
    return [f"{one:.5f}" for one in {
        "new_max": (new, new + 0.5, min(x), -9.0),
        "rescale": (alpha, 1 / alpha, m - new, 1.5),
        "running_sum": (total * alpha + added, total + added, added, total * alpha),
    }[ask]]  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
