"""A reader's own file runs in a locked process and leaves a trace, or a reason."""

from __future__ import annotations

import pytest

from explain.chapters.your_kernel.view import EXAMPLE
from explain.puzzles.judge import Judge, NoTraceError
from tests.pages import page

pytestmark = pytest.mark.xdist_group("puzzles")
TEXT = EXAMPLE.read_text(encoding="utf-8")


def record(judge: Judge, text: str, function: str = "main", seconds: float = 30.0):
    return judge.record(text, "mine.py", function, seconds, unlocked=False, cancel=None).trace


def test_a_file_leaves_its_trace_and_what_it_printed(judge) -> None:
    trace = record(judge, TEXT)
    assert trace.launches[0].grid == (3, 1, 1)
    assert "18." in trace.report.output
    failed = record(judge, TEXT.replace("    print(y)", '    raise ValueError("late")'))
    assert failed.report.failure is not None


def test_a_run_is_checked(judge) -> None:
    assert record(judge, TEXT).report.findings == ()
    (found,) = record(judge, TEXT.replace(", mask=mask)\n    tl.", ")\n    tl.")).report.findings
    assert (found.sort, found.program, found.index) == ("outside", (2, 0, 0), (10,))


def test_a_run_that_cannot_be_repeated_in_time_is_checked_without(judge) -> None:
    """Whether a masked lane reaches the result takes more runs: here the second one would go on past the limit."""
    slow = TEXT.replace("    print(y)", "    import time; time.sleep(1.1)")
    report = record(judge, slow, seconds=2.0).report
    assert (report.findings, report.failure) == ((), None)
    assert "not checked" in report.notes[-1]


def test_a_path_is_read_where_it_lies_with_its_package_and_nothing_else(judge, tmp_path) -> None:
    package = tmp_path / "folder" / "package"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "sizes.py").write_text("N = 10.0")
    (tmp_path / "secret.txt").write_text("secret")
    mine = package / "mine.py"
    mine.write_text(TEXT.replace("arange(10.0)", "arange(N)") + "\nfrom .sizes import N\n")
    trace = judge.record(mine, "", "main", 30.0, unlocked=False, cancel=None).trace
    assert (trace.launches[0].grid, trace.report.failure) == ((3, 1, 1), None)
    mine.write_text(f"def main():\n    open({str(tmp_path / 'secret.txt')!r})")
    with pytest.raises(NoTraceError, match="PermissionError"):
        judge.record(mine, "", "main", 30.0, unlocked=False, cancel=None)


def test_a_test_runs_too(judge) -> None:
    trace = record(judge, TEXT.replace("def main()", "def test_it(monkeypatch)"), "test_it")
    assert (trace.launches[0].grid, trace.report.failure) == ((3, 1, 1), None)


def test_an_optimizer_steps_before_the_launch(judge) -> None:
    step = "    p = torch.ones(2, requires_grad=True)\n    p.sum().backward()\n    torch.optim.Adam([p]).step()\n"
    assert record(judge, TEXT.replace("def main():\n", f"def main():\n{step}")).report.failure is None


@pytest.mark.parametrize(
    ("text", "function", "seconds"),
    [
        (TEXT, "absent", 30),
        ("x = (", "main", 30),
        ("def main():\n    open('/etc/passwd').read()", "main", 30),
        ("def main():\n    while True:\n        pass", "main", 1),
        ("import os\nos._exit(0)", "main", 30),
    ],
)
def test_a_file_without_a_trace_is_told_why(judge, text, function, seconds) -> None:
    with pytest.raises(NoTraceError) as told:
        record(judge, text, function, seconds)
    assert str(told.value)


def test_the_page_begins_with_an_example() -> None:
    test = page("your_kernel")
    assert test.text_input[0].value == "main"
