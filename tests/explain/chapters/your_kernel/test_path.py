"""A file named by its path: what may be typed, what is refused in words, and a page that runs it as it is now."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from explain.chapters.write_it import checks
from explain.chapters.your_kernel import path, view
from explain.ui import address
from tests.pages import codes, page

TEXT = view.EXAMPLE.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("~/mine.py", (Path.home() / "mine.py", "")),
        (" /a/mine.py:main ", (Path("/a/mine.py"), "main")),
        ("/a:b/mine.py", (Path("/a:b/mine.py"), "")),
        ("mine.py:main", (Path.cwd() / "mine.py", "main")),
    ],
)
def test_a_path_may_name_a_function(given: str, expected: tuple[Path, str]) -> None:
    assert path.typed(given) == expected


def test_what_cannot_be_run_is_refused_in_a_sentence(tmp_path: Path) -> None:
    good = tmp_path / "good.py"
    good.write_text(TEXT)
    assert path.text_of(good) == TEXT
    (tmp_path / "binary.py").write_bytes(b"\xff\x00\xfe")
    (tmp_path / "null.py").write_bytes(b"x = 1\0")
    (tmp_path / "long.py").write_text("#" * (path.LONGEST + 1))
    (tmp_path / "notes.txt").write_text("words")
    with (tmp_path / "huge.py").open("wb") as huge:
        huge.truncate(10**10)  # of no blocks: it must not be read
    os.mkfifo(tmp_path / "pipe.py")  # to open it would wait for ever
    refused = {
        "absent.py": "There is no file",
        "": "is a folder",
        "pipe.py": "is not a file of text",
        "notes.txt": "must end in .py",
        "huge.py": "has 10,000,000,000 bytes: at most 200,000 characters",
        "long.py": "has 200,001 characters: at most 200,000",
        "binary.py": "UTF-8",
        "null.py": "null characters",
        "a" * 300 + ".py": "cannot be read",
        "good.py/x.py": "cannot be read",
        "zero\0.py": "null character",
    }
    for name, words in refused.items():
        with pytest.raises(path.PathError, match=words) as told:
            path.text_of(tmp_path / name)
        assert str(told.value).endswith(".")


def test_the_page_takes_a_path_on_the_readers_own_machine_only(tmp_path: Path, monkeypatch) -> None:
    file = tmp_path / "mine.py"
    file.write_text(TEXT)
    assert [one.label for one in page("your_kernel").text_input] == ["Function to run"]
    monkeypatch.setattr(address, "own_machine", lambda: True)
    asked: list[tuple[object, ...]] = []

    class Judge:
        def record(self, source: object, name: str, function: str, *_: object, **__: object) -> None:
            asked.append((source, function, path.text_of(file)))
            raise ValueError("seen")

    monkeypatch.setattr(checks, "judge", Judge)
    test = page("your_kernel")
    test.text_input[0].set_value(f"{tmp_path}").run()
    assert "is a folder" in test.error[0].value
    test.text_input[0].set_value(f"{file}:go").run()
    assert TEXT.strip() in codes(test)
    file.write_text(f"{TEXT}# edited\n")
    test.button[0].click().run()
    assert asked == [(file, "go", f"{TEXT}# edited\n")]
    file.unlink()
    test.button[0].click().run()
    assert len(asked) == 1
    assert "There is no file" in test.error[0].value
