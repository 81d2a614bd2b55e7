"""Settings that every test shares: which Triton runs, which tests run where, how hypothesis searches."""

from __future__ import annotations

import gc
import os
import socket
import subprocess
import sys
from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import asdict, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from explain.compile.service import COMPILE_WORKER
from explain.workers import WorkerPool
from tests import gpu_result

# Triton reads this once, when it is first imported, so it is set before any test module is. A worker of
# pytest-xdist has another command line and inherits the answer.
if "PYTEST_XDIST_WORKER" not in os.environ:
    os.environ["TRITON_INTERPRET"] = "0" if "--gpu" in sys.argv else "1"

settings.register_profile(
    "tilescope",
    database=None,
    deadline=None,  # kernels run in an interpreter, on busy cores
    derandomize="CI" in os.environ,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("tilescope")


@pytest.fixture(scope="session")
def compile_workers() -> Iterator[WorkerPool]:
    """The workers of all tests that compile. In the app they step back; on busy cores a test would wait minutes."""
    spec = replace(COMPILE_WORKER, target="tests.compiling:handle", default_seconds=900, nice=0)
    with closing(WorkerPool(spec, size=2)) as pool:
        yield pool


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add --gpu and --result."""
    parser.addoption("--gpu", action="store_true", help="run the tests marked gpu, and only these")
    parser.addoption(
        "--result", type=Path, metavar="FILE", help="with --gpu: keep what passed, where and when, as JSON"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Refuse --gpu where no GPU is: tests that cannot run must not look as if they had."""
    if getattr(config.option, "numprocesses", None):
        # Workers would take all cores from each other. Set before they start: a plugin may import NumPy first.
        os.environ.setdefault("OMP_NUM_THREADS", "1")
    path = config.getoption("--result")
    if path and not config.getoption("--gpu"):
        raise pytest.UsageError(f"--result {path}: keeps a run on a GPU, so it goes with --gpu")
    if path and not path.absolute().parent.is_dir():
        raise pytest.UsageError(f"--result {path}: there is no folder {path.parent}")
    if config.getoption("--gpu") and not _has_cuda():
        raise pytest.UsageError("--gpu: PyTorch finds no CUDA GPU on this machine (see nvidia-smi)")


def pytest_sessionstart(session: pytest.Session) -> None:
    """A worker asks in two packets how often a test ran before; by Nagle's algorithm the second waits 40 ms."""
    asks = getattr(getattr(session.config, "failures_db", None), "sock", None)  # of pytest-rerunfailures 16.7
    if asks:
        asks.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, Any, Any]:
    """Half a million objects live from here to the end. The garbage collector does not look at them again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist reads the groups
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip gpu tests without --gpu; with it run nothing else: one process is compiled or interpreted.

    Tests that share what takes seconds to make run in one worker, which makes it once.
    """
    for item in items:
        if not item.get_closest_marker("xdist_group") and (group := _shares(item)):
            item.add_marker(pytest.mark.xdist_group(group))
    if config.getoption("--gpu"):
        others = [item for item in items if not item.get_closest_marker("gpu")]
        items[:] = [item for item in items if item.get_closest_marker("gpu")]
        config.hook.pytest_deselected(items=others)
        return
    for item in items:
        if item.get_closest_marker("gpu"):
            item.add_marker(pytest.mark.skip(reason="needs an NVIDIA GPU: run pytest --gpu on one"))


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    """PyTorch keeps the GPU memory that a test freed: six processes that each had a large test would fill an H200."""
    if item.get_closest_marker("gpu") and item.config.getoption("--gpu"):
        import torch

        torch.cuda.empty_cache()


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Keep the result of a run on a GPU, where --result asks for it."""
    path = config.getoption("--result")
    if path is None or not config.getoption("--gpu"):
        return
    from explain.device.handler import provenance
    from explain.records.code import commit

    where = {**asdict(provenance()), "commit": commit()}
    kept = gpu_result.write(path, gpu_result.outcomes(terminalreporter.stats), where)
    terminalreporter.write_line(f"{path}: {kept['passed']} passed, {kept['failed']} failed, {kept['skipped']} skipped")


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist sends the ids
def pytest_collection_finish(session: pytest.Session) -> None:
    """Give each test of a group its id with the group.

    pytest-xdist 3.8 writes it where pytest 9.2 no longer reads it: any worker would get any test.
    """
    if find_spec("_pytest.nodeid") is None:  # an older pytest, as a GPU machine may have, reads it
        return
    from _pytest.nodeid import coerce_node_id

    for item in session.items:
        if with_group := getattr(item, "_nodeid", None):
            item._id = coerce_node_id(with_group)


def _shares(item: pytest.Item) -> str:
    """The group of a test: that of all that compile, or its file's where it has a fixture of the module; else ""."""
    if "compile_workers" in getattr(item, "fixturenames", ()):
        return "compile"
    fixtures = item._fixtureinfo.name2fixturedefs.values() if isinstance(item, pytest.Function) else ()
    of_module = any(one.scope == "module" for definitions in fixtures for one in definitions)
    return item.nodeid.partition("::")[0] if of_module else ""


def _has_cuda() -> bool:
    # Asked of another process: a CUDA context opened here would be inherited by every worker the tests fork.
    question = "import sys, torch; sys.exit(not torch.cuda.is_available())"
    return subprocess.run([sys.executable, "-c", question], check=False).returncode == 0
