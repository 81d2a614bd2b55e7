"""A rehearsal records what readers will choose, and what they then choose is recorded no more."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from explain import app_process, contents, rehearsal
from explain.cli import main
from explain.tab import Tab, open_socket

PAGE = "first_kernel"


@pytest.fixture
def cache(monkeypatch, tmp_path):
    monkeypatch.setenv("TILESCOPE_CACHE", str(tmp_path))
    monkeypatch.setattr(contents, "pages", lambda: [SimpleNamespace(kind="chapter", stem=PAGE)])
    return tmp_path / "traces"


async def choose_all(url):
    """How many choices the page has, each made from the page's own."""
    made = 0
    async with open_socket(url) as socket:
        tab = Tab(socket, PAGE)
        await tab.rerun()
        for name, control in list(tab.controls.items()):
            for state in control.states[1:]:
                if name in tab.controls:
                    await tab.move(state)
                    await tab.move(control.states[0])
                    made += 1
    return made


def apart(call, *values):
    """What the call returns or raises, in a thread of its own: a browser test leaves a loop in this one."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(call, *values).result()


class SweptError(Exception):
    """Each choice of the page was made: the test needs no random ones."""


def swept(page: str) -> None:
    assert page == PAGE
    raise SweptError


def test_a_reader_who_chooses_what_was_rehearsed_waits_for_no_run(cache):
    with pytest.raises(SweptError):
        apart(rehearsal.rehearse, 10, swept)
    recorded = {file.name: file.stat().st_ino for file in cache.iterdir()}
    with app_process.serving([], None, opens=False) as (page, _):
        made = apart(asyncio.run, choose_all(page.rpartition("/")[0]))
    assert 8 <= made <= len(recorded) + 1  # the page's own run ships with the app
    assert {file.name: file.stat().st_ino for file in cache.iterdir()} == recorded  # no file was written anew


def test_an_app_that_ends_ends_a_visit_and_not_the_rehearsal(cache, monkeypatch):
    class Gone(OSError):
        pass

    def refused(*_, **__):
        raise Gone

    monkeypatch.setattr(rehearsal, "open_socket", refused)
    said: list[str] = []
    apart(rehearsal.rehearse, 0.02, said.append)
    assert said == ["0 choices at random", f"0 runs recorded, 0 kept in {cache}"]


@pytest.mark.parametrize("minutes", ["0", "-1", "some"])
def test_minutes_are_a_whole_number_above_0(minutes, capsys):
    with pytest.raises(SystemExit) as stop:
        main(["rehearse", "--minutes", minutes])
    assert stop.value.code == 2
    assert "--minutes" in capsys.readouterr().err
