"""The page of puzzles: who may run code without a lock, what is drawn, hints one by one. A check is in tests/e2e."""

from __future__ import annotations

import json
import re
import threading

import pytest

from explain.chapters.write_it import checks, figures, solved
from explain.puzzles.judge import Judgement
from explain.puzzles.progress import Progress
from explain.puzzles.puzzles import ladder, predictions, puzzles
from explain.ui.address import is_loopback
from tests.pages import codes, page, texts


@pytest.mark.parametrize(
    ("address", "host", "origin", "own"),
    [
        ("127.0.0.1", "localhost:8501", "http://localhost:8501", True),
        ("localhost", "127.0.0.1:8501", "http://127.0.0.1:8501", True),
        ("0.0.0.0", "localhost:8501", "http://localhost:8501", False),
        ("127.0.0.1", "evil.example:8501", "http://evil.example:8501", False),  # a name that leads to this machine
        ("127.0.0.1", "localhost:8501", "http://evil.example", False),
        ("127.0.0.1", "localhost:8501", "http://localhost:9999", False),  # another server's page
        ("127.0.0.1", "localhost:8501", "", False),
        ("127.0.0.1", "", "", False),
    ],
)
def test_only_a_reader_at_the_server_may_run_code_without_a_lock(address, host, origin, own) -> None:
    headers = {"Host": host, "Origin": origin}
    assert is_loopback(address, headers) == own
    assert not is_loopback(address, headers | {"X-Forwarded-For": "127.0.0.1"})


def test_each_puzzle_opens_by_its_address_with_its_hints_folded(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("TILESCOPE_PROGRESS", str(tmp_path / "progress.json"))
    for name, puzzle in ladder().items():
        test = page("write_it", puzzle=name)
        assert puzzle.title in [header.value for header in test.header]
        assert not any(hint in texts(test) for hint in puzzle.hints)


def test_hints_unfold_one_by_one_then_the_solution(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("TILESCOPE_PROGRESS", str(tmp_path / "progress.json"))
    puzzle = puzzles()["online"]
    test = page("write_it", puzzle=puzzle.name)
    for read in range(1, len(puzzle.hints) + 1):
        assert not test.toggle
        test.button(key=f"hint {puzzle.name}").click().run()
        assert sum(f"**{number}.**" in texts(test) for number in range(1, 9)) == read
    test.toggle[0].set_value(True).run()
    assert any(code.startswith("--- ") and "+" in code for code in codes(test))


def test_bytes_and_flops_name_their_case_and_what_is_counted():
    case = puzzles()["vector_add"].cases(seed=0)[-1]
    told = figures.traffic(
        Judgement("vector_add", 1, 1, traffic=(280, 140, 96), least=(280, 140, 96), measured_at=case)
    )
    assert f"n = {case.values['n']}" in told
    assert "FLOPs of whole tiles" in told  # masked lanes too: no least of the formula
    assert "least" not in told


def test_a_picture_fills_what_one_program_touches() -> None:
    puzzle = puzzles()["vector_add"]
    run = checks.picture(puzzle).wait(300)
    assert run.result is not None, run.error
    launch = run.result.trace.launches[0]
    words, drawn = figures.reach(run.result.trace, puzzle.functions)
    assert words.startswith("3 programs")
    assert "BLOCK_N = 32" in words
    filled, n = map(int, re.findall(r"(\d+) of (\d+)<", drawn)[0])
    assert filled * launch.programs < n  # the last tile is not full: what the mask is for can be seen
    assert drawn.count("var(--f-hbm)") == len(launch.buffers)  # one run of neighbours in each


def test_errors_stand_at_their_line() -> None:
    failing = puzzles()["online"].cases(0)[0]
    assert figures.errors(Judgement("online", 9, 3, failing, "NameError: x", 12)) == {12: "NameError: x"}
    assert figures.errors(Judgement("online", 9, 9)) == {}


def test_a_browser_adds_what_it_kept_and_nothing_else() -> None:
    known = Progress()
    known.of("softmax_row").solved = "2026-02-02"
    kept = {"vector_add": ["2026-01-01", "text"], "softmax_row": "2026-01-01", "no_puzzle": "2026-01-01", "online": 7}
    solved.add(known, {**kept, "flash": ["2026-01-01", 7], "topk": "2025-01-01"})  # at first the day alone was kept
    days = {name: (done.solved, done.answer) for name, done in known.puzzles.items() if done.solved}
    assert days == {
        "vector_add": ("2026-01-01", "text"), "softmax_row": ("2026-02-02", ""), "topk": ("2025-01-01", "")
    }  # fmt: skip


@pytest.mark.parametrize("name", predictions())
def test_a_wrong_number_shows_the_answer_only_on_request(tmp_path, monkeypatch, name) -> None:
    monkeypatch.setenv("TILESCOPE_PROGRESS", str(tmp_path / "progress.json"))
    test = page("write_it", puzzle=name)
    seed = test.session_state[f"seed {name}"]
    run = checks.predicted(predictions()[name], seed).wait(300).result
    right = predictions()[name].solution([(predictions()[name].experiment(seed), run.trace)])
    test.run()
    test.text_input(key=f"number {name} {seed}").set_value("77")
    test.button(key=f"FormSubmitter:form {name} {seed}-Check").click().run()
    assert "The step" not in [header.value for header in test.header]
    assert right not in texts(test)
    test.button(key=f"tell {name}").click().run()
    assert "The step" in [header.value for header in test.header]
    assert right in texts(test)


class EndsWhenLooked:
    """A job that ends at the n-th look at it: where a page looks twice, it may end in between."""

    result, error, seconds, doing = None, "the run was cut", 2.0, "checking your kernel"
    cancel = threading.Event()

    def __init__(self, looks: int) -> None:
        self.looks = looks

    def wait(self, _seconds: float) -> None:
        """Waits for nothing: it ends by looks, not by time."""

    @property
    def running(self) -> bool:
        self.looks -= 1
        return self.looks >= 0


@pytest.mark.parametrize("looks", range(6))
def test_the_button_waits_only_for_a_job_that_is_followed(tmp_path, monkeypatch, looks) -> None:
    monkeypatch.setenv("TILESCOPE_PROGRESS", str(tmp_path / "progress.json"))
    job = EndsWhenLooked(looks)
    monkeypatch.setattr(checks.JOBS, "get", lambda _: job)
    test = page("write_it", puzzle="vector_add")
    [editor] = [one.proto for one in test.get("bidi_component") if "starter" in one.proto.json]
    waits = json.loads(editor.json)["busy"] == "yes"
    followed = any(button.label == "Cancel" for button in test.button)
    assert not waits or followed
