"""Workers answer, or end in time with the right words; nothing outlives them and nothing leaks."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from explain import ROOT, workers
from explain.workers import (
    WorkerCancelled,
    WorkerDied,
    WorkerFailed,
    WorkerOutOfMemory,
    WorkerPool,
    WorkerSpec,
    WorkerTimeout,
    WorkerUnavailable,
)

SPEC = WorkerSpec(
    "test",
    "worker_handlers:handle",
    env=(("PYTHONPATH", str(Path(__file__).parent)), ("WORKER_TEST", "set"), ("PYTHONUNBUFFERED", "")),
    default_seconds=60,
    default_megabytes=300,
)


@pytest.fixture(scope="module")
def pool() -> Iterator[WorkerPool]:
    with WorkerPool(SPEC) as pool:
        yield pool


@pytest.fixture(scope="module")
def watched() -> Iterator[WorkerPool]:
    """As for CUDA: memory is watched, addresses are not limited."""
    with WorkerPool(replace(SPEC, address_space_limit=False)) as pool:
        yield pool


def pid_of(pool: WorkerPool) -> int:
    return int(pool.call({"do": "echo"})["pid"])


def alive(pid: int) -> bool:
    return psutil.pid_exists(pid) and bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)


def eventually(condition: Callable[[], bool], seconds: float = 40.0) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def sleep(pool: WorkerPool) -> int:
    return int(pool.call({"do": "sleep", "seconds": 0.3})["pid"])


@pytest.mark.parametrize("value", [None, "m_i = −∞", [1.5, -2, True], {"deep": {"er": []}}, "x" * 3_000_000])
def test_answers_with_what_it_was_given(pool: WorkerPool, value: object) -> None:
    assert pool.call({"do": "echo", "value": value})["value"] == value


def test_infinities_pass(pool: WorkerPool) -> None:
    assert pool.call({"do": "echo", "value": [float("-inf")]})["value"] == [float("-inf")]


def test_one_process_serves_call_after_call(pool: WorkerPool) -> None:
    assert pid_of(pool) == pid_of(pool) != os.getpid()


def test_the_environment_is_the_specs(pool: WorkerPool) -> None:
    assert pool.call({"do": "environment", "name": "WORKER_TEST"})["value"] == "set"
    assert "WORKER_TEST" not in os.environ


def test_progress_arrives_in_order(pool: WorkerPool) -> None:
    seen: list[tuple[str, float]] = []
    pool.call({"do": "count", "steps": 4}, progress=lambda *step: seen.append(step))
    assert seen == [("step 0", 0.0), ("step 1", 0.25), ("step 2", 0.5), ("step 3", 0.75)]


def test_progress_from_threads_does_not_mix(pool: WorkerPool) -> None:
    seen: list[str] = []
    request = {"do": "threads", "steps": 20, "padding": 500_000}  # more than a socket takes at once
    pool.call(request, progress=lambda text, _: seen.append(text.strip()))
    assert sorted(seen) == sorted([f"step {i}" for i in range(20)] * 2)


@pytest.mark.parametrize("wait", [True, False])
def test_a_copy_that_a_run_forks_answers_nothing(pool: WorkerPool, wait: bool) -> None:
    before = pid_of(pool)
    assert pool.call({"do": "fork", "wait": wait, "seconds": 0.1})["pid"] == before
    for value in range(3):
        assert pool.call({"do": "echo", "value": value}) == {"pid": before, "value": value}


def test_what_an_earlier_run_says_is_not_heard() -> None:
    with WorkerPool(SPEC) as pool:
        before = pool.call({"do": "keep_talking", "hidden": True})["pid"]
        heard: list[str] = []
        after = pool.call({"do": "sleep", "seconds": 0.2}, progress=lambda text, _: heard.append(text))
    assert after["pid"] == before  # so that the thread was there to be heard
    assert heard == ["sleeping"]


def test_a_worker_with_a_thread_left_in_it_is_replaced(pool: WorkerPool) -> None:
    before = pool.call({"do": "keep_talking", "hidden": False})["pid"]
    assert not alive(before)
    assert pid_of(pool) != before


@pytest.mark.parametrize("close", [False, True])
def test_lost_output_is_no_trouble(close: bool) -> None:
    with WorkerPool(SPEC) as pool:
        before = pid_of(pool)
        pool.call({"do": "lose_output", "close": False, "fail": False})
        with pytest.raises(WorkerFailed, match="said nowhere"):
            pool.call({"do": "lose_output", "close": close, "fail": True})
        assert pid_of(pool) == before


def test_a_library_refused_memory_without_a_word(pool: WorkerPool, watched: WorkerPool) -> None:
    with pytest.raises(WorkerOutOfMemory, match="limit of 300 MB"):
        pool.call({"do": "fail_without_a_word"})
    with pytest.raises(WorkerFailed, match="SystemError: error return"):
        watched.call({"do": "fail_without_a_word"})


def test_what_progress_raises_ends_the_run(pool: WorkerPool) -> None:
    class LeftThePage(BaseException):
        pass

    def leave(text: str, fraction: float) -> None:
        raise LeftThePage

    before = pid_of(pool)
    with pytest.raises(LeftThePage):
        pool.call({"do": "count", "steps": 1}, progress=leave)
    assert not alive(before)
    assert pid_of(pool) != before


def test_an_exception_names_its_place_and_keeps_the_worker(pool: WorkerPool) -> None:
    before = pid_of(pool)
    with pytest.raises(WorkerFailed, match="ZeroDivisionError: rows is 0") as caught:
        pool.call({"do": "fail"})
    error = caught.value
    assert (error.type, error.message) == ("ZeroDivisionError", "rows is 0")
    assert "worker_handlers.py:" in error.where
    assert error.where.endswith("in fail")
    assert "before the end" in error.output
    assert "Traceback" in error.output
    assert pid_of(pool) == before


def test_a_wrapped_exception_is_placed_at_its_cause(pool: WorkerPool) -> None:
    with pytest.raises(WorkerFailed) as caught:
        pool.call({"do": "fail_wrapped"})
    assert caught.value.type == "RuntimeError"
    assert caught.value.where.endswith("in fail")


def test_output_is_this_runs_alone(pool: WorkerPool) -> None:
    with pytest.raises(WorkerFailed):
        pool.call({"do": "fail"})
    with pytest.raises(WorkerFailed) as caught:
        pool.call({"do": "leave"})
    assert caught.value.type == "SystemExit"
    assert "before the end" not in caught.value.output


@pytest.mark.parametrize(("do", "words"), [("unsendable", "JSON serializable"), ("too_long", "at most 16777216")])
def test_an_answer_that_cannot_travel_is_an_error(pool: WorkerPool, do: str, words: str) -> None:
    before = pid_of(pool)
    with pytest.raises(WorkerFailed, match=words):
        pool.call({"do": do})
    assert pid_of(pool) == before


def test_a_poisoned_worker_is_replaced(pool: WorkerPool) -> None:
    before = pid_of(pool)
    with pytest.raises(WorkerFailed, match="Poisoned: illegal access"):
        pool.call({"do": "poison"})
    assert not alive(before)
    assert pid_of(pool) != before


def test_an_endless_loop_ends_in_time(pool: WorkerPool) -> None:
    before = pid_of(pool)
    start = time.monotonic()
    with pytest.raises(WorkerTimeout, match=r"limit of 0\.3 s") as caught:
        pool.call({"do": "loop"}, seconds=0.3)
    assert 0.3 <= time.monotonic() - start < 40
    assert caught.value.seconds == 0.3
    assert not alive(before)
    assert pid_of(pool) != before


@pytest.mark.parametrize(
    ("request_", "words", "signal_", "code"),
    [
        ({"do": "crash"}, r"segmentation fault.*\(SIGSEGV\)", signal.SIGSEGV, None),
        ({"do": "end", "code": 7}, "exit code 7", None, 7),
        ({"do": "end", "code": 0}, "exit code 0", None, 0),
        ({"do": "hang_up"}, "SIGKILL", signal.SIGKILL, None),
    ],
)
def test_a_death_is_named(
    pool: WorkerPool, request_: dict[str, Any], words: str, signal_: signal.Signals | None, code: int | None
) -> None:
    before = pid_of(pool)
    with pytest.raises(WorkerDied, match=words) as caught:
        pool.call(request_)
    assert (caught.value.signal, caught.value.code) == (signal_, code)
    assert pid_of(pool) != before


def test_a_crash_shows_what_was_printed_and_where_it_was(pool: WorkerPool) -> None:
    with pytest.raises(WorkerDied) as caught:
        pool.call({"do": "crash"})
    assert "about to crash" in caught.value.output
    assert "in crash" in caught.value.output


def test_a_worker_that_died_between_calls_is_not_noticed(pool: WorkerPool) -> None:
    before = pid_of(pool)
    os.kill(before, signal.SIGKILL)
    assert eventually(lambda: not alive(before))
    assert pid_of(pool) != before


def test_too_large_an_array_is_refused_and_the_worker_kept(pool: WorkerPool) -> None:
    before = pid_of(pool)
    with pytest.raises(WorkerOutOfMemory, match="limit of 300 MB"):
        pool.call({"do": "allocate", "megabytes": 320})
    assert pid_of(pool) == before
    assert pool.call({"do": "allocate", "megabytes": 320}, megabytes=400)["bytes"] == 320_000_000
    assert pool.call({"do": "allocate", "megabytes": 250})["pid"] == before


@pytest.mark.parametrize("do", ["grow", "grow_in_child"])
def test_a_memory_hog_is_stopped(watched: WorkerPool, do: str) -> None:
    before = pid_of(watched)
    with pytest.raises(WorkerOutOfMemory) as caught:
        watched.call({"do": do}, megabytes=100)
    assert caught.value.megabytes == 100
    assert not alive(before)
    assert pid_of(watched) != before


def test_a_run_leaves_no_memory_to_the_next(pool: WorkerPool) -> None:
    before = psutil.Process(pid_of(pool)).memory_info().rss
    pid = pool.call({"do": "keep_in_a_cycle", "megabytes": 100})["pid"]
    assert eventually(lambda: psutil.Process(pid).memory_info().rss < before + 50e6)


def test_memory_that_children_share_counts_once(watched: WorkerPool) -> None:
    assert watched.call({"do": "share_with_children"}, megabytes=150)["bytes"] == 60_000_000


@pytest.mark.parametrize(
    ("then", "error"), [("return", None), ("hang", WorkerTimeout), ("crash", WorkerDied), ("crash late", WorkerDied)]
)
def test_nothing_a_run_started_outlives_it(pool: WorkerPool, then: str, error: type[Exception] | None) -> None:
    seen: list[str] = []
    start = time.monotonic()
    if error is None:
        before = pid_of(pool)
        pool.call({"do": "orphan", "then": then}, progress=lambda text, _: seen.append(text))
        assert pid_of(pool) == before
    else:
        limit = 8 if then == "hang" else 50  # on busy cores it takes seconds to start another process
        with pytest.raises(error):
            pool.call({"do": "orphan", "then": then}, seconds=limit, progress=lambda t, _: seen.append(t))
    assert time.monotonic() - start < 55  # what it started would run for 60 s
    assert eventually(lambda: not alive(int(seen[0])))


def test_ten_megabytes_of_output_block_nothing(pool: WorkerPool) -> None:
    with pytest.raises(WorkerFailed) as caught:
        pool.call({"do": "print_much", "megabytes": 10})
    printed = caught.value.output
    assert len(printed) <= workers.OUTPUT_BYTES
    assert printed.index("the end") < printed.index("said by a child") < printed.index("ValueError")


def test_closed_output_is_no_trouble(pool: WorkerPool) -> None:
    spent = time.thread_time()
    pool.call({"do": "close_output", "seconds": 0.4})
    assert time.thread_time() - spent < 0.2  # else the parent polled a closed pipe all the while
    assert pool.call({"do": "echo", "value": 1})["value"] == 1
    with pytest.raises(WorkerTimeout):
        pool.call({"do": "loop"}, seconds=0.1)


def test_threads_are_served_first_come_first_served(pool: WorkerPool) -> None:
    order: list[int] = []

    def call(number: int) -> None:
        pool.call({"do": "echo"}, seconds=5)
        order.append(number)

    with ThreadPoolExecutor(8) as threads:
        # Longer than the limit of those that wait: waiting does not count.
        calls: list[Future[Any]] = [threads.submit(pool.call, {"do": "sleep", "seconds": 5.2})]
        assert eventually(lambda: pool._busy == 1)
        for number in range(6):
            calls.append(threads.submit(call, number))
            assert eventually(lambda: len(pool._waiting) == len(calls) - 1)
        for done in calls:
            done.result()
    assert order == list(range(6))


def test_a_quick_call_overtakes_longer_ones_and_a_long_one_leaves_a_worker_free() -> None:
    done: list[str] = []
    with WorkerPool(SPEC, size=2) as pool, ThreadPoolExecutor(5) as threads:
        pool.call({"do": "echo"})

        def call(name: str, expected: float, seconds: float) -> Future[None]:
            waiting = len(pool._waiting) + pool._busy

            def run() -> None:
                pool.call({"do": "sleep", "seconds": seconds}, expected=expected)
                done.append(name)

            started = threads.submit(run)
            assert eventually(lambda: len(pool._waiting) + pool._busy > waiting)
            return started

        calls = [call("long", 60.0, 3.0), call("second long", 60.0, 0.1)]
        assert pool._busy == 1  # the other worker is free
        calls += [call("holds it", 0.9, 1.0), call("later", 0.9, 0.1), call("quick", 0.0, 0.1)]
        for one in calls:
            one.result(timeout=60)
    assert done == ["holds it", "quick", "later", "long", "second long"]


def test_two_workers_work_at_once() -> None:
    with WorkerPool(SPEC, size=2) as pair, ThreadPoolExecutor(2) as threads:
        first, second = (threads.submit(sleep, pair) for _ in range(2))
        assert first.result() != second.result()


def test_a_spare_worker_takes_the_place_of_one_that_ended() -> None:
    with WorkerPool(SPEC, size=2, at_once=1) as pool:
        first = pid_of(pool)
        spare = pool._free[1]
        assert spare is not None
        with pytest.raises(WorkerDied):
            pool.call({"do": "crash"})
        assert pid_of(pool) == spare._popen.pid
        os.kill(spare._popen.pid, signal.SIGKILL)
        assert eventually(lambda: not alive(spare._popen.pid))
        third = pid_of(pool)
        assert third not in (first, spare._popen.pid)
        assert pid_of(pool) == third
        assert [worker is not None for worker in pool._free] == [True, True], "and there is another spare"


def test_two_workers_that_end_in_a_row_have_both_their_spare() -> None:
    with WorkerPool(SPEC, size=3, at_once=1) as pool:
        pid_of(pool)
        _, *spare = [worker._popen.pid for worker in pool._free if worker is not None]
        for pid in spare:
            with pytest.raises(WorkerDied):
                pool.call({"do": "crash"})
            assert pid_of(pool) == pid


def test_a_spare_worker_does_not_work_beside_the_other() -> None:
    with WorkerPool(SPEC, size=2, at_once=1) as pool, ThreadPoolExecutor(2) as threads:
        first, second = (threads.submit(sleep, pool) for _ in range(2))
        assert first.result() == second.result()


def test_cancel_ends_the_run(pool: WorkerPool) -> None:
    before = pid_of(pool)
    cancel = threading.Event()
    with pytest.raises(WorkerCancelled):
        pool.call({"do": "count", "steps": 10**9}, cancel=cancel, progress=lambda *_: cancel.set())
    assert not alive(before)
    assert pid_of(pool) != before


def test_cancel_ends_the_wait_and_not_the_run_before_it(pool: WorkerPool) -> None:
    cancel = threading.Event()
    with ThreadPoolExecutor(2) as threads:
        running = threads.submit(sleep, pool)
        assert eventually(lambda: pool._busy == 1)
        waiting = threads.submit(pool.call, {"do": "echo"}, cancel=cancel)
        assert eventually(lambda: len(pool._waiting) == 1)
        cancel.set()
        with pytest.raises(WorkerCancelled):
            waiting.result()
        assert not running.done()
        assert running.result() == pid_of(pool)


def test_cancel_while_warming_keeps_the_worker(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text("import time\ntime.sleep(0.5)\nfrom worker_handlers import handle\n")
    path = os.pathsep.join([str(tmp_path), str(Path(__file__).parent)])
    cancel = threading.Event()
    with WorkerPool(replace(SPEC, target="slow:handle", env=(("PYTHONPATH", path),))) as pool:
        warming = pool._free[0]
        threading.Timer(0.1, cancel.set).start()
        with pytest.raises(WorkerCancelled):
            pool.call({"do": "echo"}, cancel=cancel)
        assert pool._free[0] is warming
        assert pid_of(pool) == pid_of(pool)
        assert pool._free[0] is warming


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ("no_such_module:handle", "No module named 'no_such_module'"),
        ("worker_handlers:nothing", "no attribute 'nothing'"),
    ],
)
def test_what_cannot_be_imported_is_said(target: str, reason: str) -> None:
    with WorkerPool(replace(SPEC, target=target)) as broken:
        for _ in range(2):
            with pytest.raises(WorkerUnavailable, match=reason):
                broken.call({"do": "echo"})
            assert broken._free == [None]  # none is warming up in vain


def test_the_current_folder_stands_in_for_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "json.py").write_text("raise ImportError('not the standard library')")
    monkeypatch.chdir(tmp_path)
    with WorkerPool(SPEC) as pool:
        assert pool.call({"do": "echo", "value": 1})["value"] == 1


def test_a_death_while_warming_is_said(tmp_path: Path) -> None:
    (tmp_path / "dies.py").write_text("import os\nprint('no driver', flush=True)\nos._exit(4)\n")
    spec = replace(SPEC, target="dies:handle", env=(("PYTHONPATH", str(tmp_path)),))
    with WorkerPool(spec) as broken, pytest.raises(WorkerUnavailable, match=r"exit code 4\. no driver"):
        broken.call({})


def test_other_systems_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    with WorkerPool(SPEC) as broken, pytest.raises(WorkerUnavailable, match="need Linux, and this is darwin"):
        broken.call({})


def test_the_module_imports_where_unix_modules_are_missing() -> None:
    code = (
        "import sys, signal, psutil\n"
        "for name in ('resource', 'fcntl', 'pwd', 'grp', 'torch', 'triton'): sys.modules[name] = None\n"
        "for name in ('SIGKILL', 'SIGBUS'): delattr(signal, name)\n"
        "import explain.workers"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


@pytest.mark.parametrize("limit", [0, -1.0, float("nan"), float("inf")])
def test_limits_are_checked(pool: WorkerPool, limit: float) -> None:
    with pytest.raises(ValueError, match="seconds is"):
        pool.call({"do": "echo"}, seconds=limit)
    with pytest.raises(ValueError, match="megabytes is"):
        pool.call({"do": "echo"}, megabytes=limit)


def test_a_pool_needs_a_worker() -> None:
    with pytest.raises(ValueError, match="size is 0"):
        WorkerPool(SPEC, size=0)


def test_close_ends_busy_and_idle_workers() -> None:
    pool = WorkerPool(SPEC, size=2)
    pool.warm()
    idle = pid_of(pool)
    with ThreadPoolExecutor(1) as threads:
        seen: list[str] = []
        request = {"do": "orphan", "then": "hang"}
        running = threads.submit(pool.call, request, progress=lambda text, _: seen.append(text))
        assert eventually(lambda: bool(seen))
        pool.close()
        assert eventually(lambda: not alive(int(seen[0])))  # an orphan is reaped by its adopter, in its own time
        with pytest.raises(WorkerUnavailable, match="closed"):
            running.result()
    assert not alive(idle)
    pool.warm()
    assert pool._free == [None, None]
    with pytest.raises(WorkerUnavailable, match="closed"):
        pool.call({"do": "echo"})


def test_the_second_worker_starts_when_the_first_is_taken() -> None:
    with WorkerPool(SPEC, size=3) as pool:
        assert [worker is not None for worker in pool._free] == [True, False, False]
        pid_of(pool)
        assert [worker is not None for worker in pool._free] == [True, True, False]
        pid_of(pool)
        assert [worker is not None for worker in pool._free] == [True, True, False], "one is enough for one reader"


def test_nothing_leaks() -> None:
    def held() -> tuple[int, set[int]]:
        children = {p.pid for p in psutil.Process().children(recursive=True)}
        return len(os.listdir("/proc/self/fd")), children

    before = held()
    with WorkerPool(SPEC) as pool:
        for do in ("crash", "poison", "crash"):
            with pytest.raises((WorkerDied, WorkerFailed)):
                pool.call({"do": do})
    with WorkerPool(replace(SPEC, target="nowhere:handle")) as pool, pytest.raises(WorkerUnavailable):
        pool.call({})
    assert held() == before


def test_a_worker_holds_no_other_workers_files(pool: WorkerPool, watched: WorkerPool) -> None:
    # 0 to 2, its two sockets, and the listing itself: the second worker was started while the first had its own
    assert len(watched.call({"do": "files"})["value"]) == 6


@pytest.mark.parametrize("do", ["loop_in_c", "sleep"])
def test_a_worker_ends_with_its_parent(do: str) -> None:
    code = f"""if True:
        from explain.workers import WorkerPool, WorkerSpec
        pool = WorkerPool(WorkerSpec("test", "worker_handlers:handle"))
        print(pool.call({{"do": "echo"}})["pid"], flush=True)
        pool.call({{"do": "{do}", "seconds": 60}}, progress=lambda *_: print("busy", flush=True))
    """
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(Path(__file__).parent)])}
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=env) as parent:
        pid = int(parent.stdout.readline())
        assert parent.stdout.readline() == "busy\n"
        assert alive(pid)
        parent.kill()
    assert eventually(lambda: not alive(pid))


def test_an_idle_worker_ends_with_its_parent_and_never_reads_its_input() -> None:
    code = f"""if True:
        from explain.workers import WorkerPool, WorkerSpec
        pool = WorkerPool(WorkerSpec("test", "worker_handlers:handle", {SPEC.env!r}))
        answer = pool.call({{"do": "read_input"}})
        print(answer["pid"], repr(answer["value"]))
    """
    run = subprocess.run(
        [sys.executable, "-c", code], input="typed", capture_output=True, text=True, check=True, cwd=ROOT
    )
    pid, value = run.stdout.split()
    assert value == "''"
    assert eventually(lambda: not alive(int(pid)))


def test_a_worker_outlives_the_thread_that_started_it() -> None:
    with WorkerPool(SPEC) as pool, ThreadPoolExecutor(1) as threads:
        first = threads.submit(pid_of, pool).result()
        threads.shutdown()
        time.sleep(0.1)
        assert pid_of(pool) == first


def test_a_worker_may_step_back_behind_the_pages():
    with WorkerPool(replace(SPEC, nice=7)) as stepped_back, WorkerPool(SPEC) as beside:
        own = os.getpriority(os.PRIO_PROCESS, 0)
        assert os.getpriority(os.PRIO_PROCESS, pid_of(stepped_back)) == max(7, own)
        assert os.getpriority(os.PRIO_PROCESS, pid_of(beside)) == own
        shares = Path(f"/proc/{pid_of(stepped_back)}/autogroup")
        if shares.exists():
            assert shares.read_text().split()[-1] == "7"
