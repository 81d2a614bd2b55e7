"""Why a file has no trace, in the page's words: the messages come from real recordings."""

from __future__ import annotations

from pathlib import Path

import pytest

from explain.chapters.your_kernel.reasons import Reason, reason
from explain.chapters.your_kernel.view import EXAMPLE
from explain.trace.errors import TraceError
from explain.trace.python_file import record_file

TEXT = EXAMPLE.read_text(encoding="utf-8")
LOOP = TEXT.replace("    print(y)", "    while True: pass")
LATE_SECONDS = 1.0


def reason_of(folder: Path, text: str, function: str = "main") -> Reason:
    """The reason of a run of the text, recorded as the page's worker does."""
    path = folder / "mine.py"
    path.write_text(text, encoding="utf-8")
    try:
        failure = record_file(path, function, "all", lambda *_: None, LATE_SECONDS).report.failure
    except TraceError as error:
        return reason(str(error), function, LATE_SECONDS)
    return reason(failure.message, function, LATE_SECONDS, failure.traceback)


@pytest.mark.parametrize(
    ("text", "function", "words", "code"),
    [
        (LOOP, "main", "**main** was still running after 1 s. Make its inputs smaller.", "while"),
        (TEXT, "absent", "There is no function **absent**. Write **main** into *Function to run*, or rename it.", None),
        ("print(1)", "main", "There is no function **main**. Write one that makes tensors and launches the", None),
        ("def main():\n    pass", "main", "**main** launched no Triton kernel", None),
        (TEXT, "double_kernel", "**double_kernel** is a kernel. A function must make its tensors", None),
        (TEXT.replace("BLOCK=4", "BLOCK=6"), "main", "The size of `tl.arange` must be a power of two", "tl.arange"),
        (TEXT.replace(", mask=mask)\n    tl.", ")\n    tl."), "main", "reads x_ptr[10], but x_ptr ends", "tl.load"),
        (TEXT.replace("print(y)", "raise ValueError('late')"), "main", "ValueError: late.", "raise"),
        (TEXT.replace("def main():", "def main()"), "main", "SyntaxError: expected ':'.", "def main()"),
        (TEXT.replace("print(y)", "bytearray(1 << 60)"), "main", "needs more memory than the 1,500 MB", "bytearray"),
        ("def main():\n    bytearray(1 << 60)", "main", "**main** needs more memory than the", "bytearray"),
        ("def main():\n    open('/absent')", "main", "FileNotFoundError: ", "open"),
    ],
)
def test_a_reason_names_what_the_page_has(tmp_path, text, function, words, code):
    found = reason_of(tmp_path, text, function)
    assert words in found.words
    assert "--" not in found.words
    assert "mine.py" not in found.words
    line = text.splitlines()[found.line - 1] if found.line else None
    assert (line is None) == (code is None)
    assert (code or "") in (line or "")
