"""Turns: so many threads at once, and never one that waits for ever."""

import threading
import time

import pytest

from explain import turns
from explain.turns import Turns


def test_no_more_threads_than_turns_run_at_once():
    of_two, running, most = Turns(2), [0], [0]
    lock = threading.Lock()

    def script() -> None:
        with of_two.taken():
            with lock:
                running[0] += 1
                most[0] = max(most[0], running[0])
            time.sleep(0.02)
            with lock:
                running[0] -= 1

    threads = [threading.Thread(target=script) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert most[0] == 2


def test_who_waits_for_something_else_lends_the_turn_and_takes_it_back():
    of_one, entered, leave = Turns(1), threading.Event(), threading.Event()

    def other() -> None:
        with of_one.taken():
            entered.set()
            leave.wait(10)

    thread = threading.Thread(target=other)
    with of_one.taken():
        with of_one.lent():
            thread.start()
            assert entered.wait(10)
            leave.set()
        assert not of_one._free.acquire(blocking=False)
    thread.join(10)
    assert of_one._free.acquire(blocking=False)


def test_after_its_patience_a_script_runs_without_a_turn_and_gives_none_back(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(turns, "PATIENCE_S", 0.01)
    of_one = Turns(1)
    of_one._free.acquire()
    with of_one.taken():
        pass
    with of_one.taken(), of_one.lent():
        pass
    assert not of_one._free.acquire(blocking=False)


def test_a_turn_ends_when_a_script_fails():
    of_one = Turns(1)
    with pytest.raises(ValueError, match="no"), of_one.taken():
        raise ValueError("no")
    assert of_one._free.acquire(blocking=False)
