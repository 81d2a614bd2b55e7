"""Runs a test as pytest does: with its `conftest.py`, its fixtures and its parameters. Imports pytest."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from explain.trace.errors import BadTarget, TraceError

OPTIONS = ("-x", "-s", "-o", "addopts=")  # what a project adds may need plugins that are not here
WITHOUT = (
    "cacheprovider",  # writes files
    "rerunfailures",  # opens a socket, which a locked process may not
    "logging",  # opens /dev/null, which a locked process may not
    "terminal",  # prints
    "skipping",  # who names a test wants it run; most are skipped for want of a GPU
    "warnings",  # may make errors of them
    "faulthandler",
    "unraisableexception",  # collects garbage five times
)
"""Pytest's own plugins that are left out."""
VALUES = 2
"""Of each parameter so many values are collected, since a test may skip itself at the first."""


def run_test(path: Path, function: str, arguments: Mapping[str, object], parameters: dict[str, object]) -> None:
    """Imports the file and runs this test of it, with the first of its parameters at which it does not skip itself.

    `arguments` replace fixtures and parameters of these names. `parameters` is filled with those that ran.

    Raises what the test raises, or its fixtures, or the import; BadTarget if there is no such test or argument;
    TraceError if it skips itself.
    """
    first = _First(arguments, parameters)
    without = [f"-pno:{name}" for name in WITHOUT]
    with suppress(PermissionError):  # of a locked process: at the end pytest goes back to the folder where it began
        pytest.main([*OPTIONS, *without, f"{path}::{function}"], plugins=[first])
    if isinstance(first.error, pytest.FixtureLookupError):
        raise BadTarget(f"{path.name}:{function} needs arguments ({first.error.argname}), and no fixture gives them")
    if first.error is not None:
        raise first.error
    if not first.ran and first.skipped:
        raise TraceError(f"{path.name}:{function} skips itself: {first.skipped}")
    if not first.ran:
        raise BadTarget(f"pytest finds no test {function} in {path.name}, or cannot load its conftest.py")


class _First:
    """A plugin of pytest: of the tests that it collects, the first that does not skip itself runs."""

    def __init__(self, arguments: Mapping[str, object], parameters: dict[str, object]) -> None:
        self.arguments, self.parameters = arguments, parameters
        self.ran, self.skipped = False, ""
        self.error: BaseException | None = None

    def pytest_configure(self, config: pytest.Config) -> None:
        """The marks of `skipping`, which is left out: pytest warns of a mark that nobody declares."""
        for mark in ("skip", "skipif", "xfail"):
            config.addinivalue_line("markers", mark)

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        parametrize = metafunc.parametrize

        def few(argnames: Any, argvalues: Any, indirect: Any = False, ids: Any = None, **more: Any) -> None:
            parametrize(argnames, [*islice(argvalues, VALUES)], indirect=indirect, **more)  # the ids were for all

        metafunc.parametrize = few  # type: ignore[method-assign]

    def pytest_pyfunc_call(self, pyfuncitem: pytest.Function) -> bool:
        called = inspect.signature(pyfuncitem.obj).parameters
        if unknown := [name for name in self.arguments if name not in called]:
            raise BadTarget(f"the test {pyfuncitem.originalname} has no parameter {unknown[0]}")
        if callspec := getattr(pyfuncitem, "callspec", None):
            self.parameters |= callspec.params
        given = pyfuncitem.funcargs | dict(self.arguments)
        pyfuncitem.obj(**{name: value for name, value in given.items() if name in called})
        return True

    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[Any]) -> None:
        skipped = call.excinfo is not None and call.excinfo.errisinstance(pytest.skip.Exception)
        if call.when == "call" and not skipped:
            self.ran = True
            item.session.shouldstop = "one test has run"

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._note(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._note(report)

    def _note(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        if report.skipped and isinstance(report.longrepr, tuple):
            self.skipped = report.longrepr[2].removeprefix("Skipped: ")

    def pytest_exception_interact(self, call: pytest.CallInfo[Any]) -> None:
        assert call.excinfo is not None
        error = call.excinfo.value
        collecting = isinstance(error, pytest.Collector.CollectError) and error.__cause__ is not None
        self.error = self.error or (error.__cause__ if collecting else error)

    def pytest_internalerror(self, excinfo: pytest.ExceptionInfo[BaseException]) -> bool:
        self.error = self.error or excinfo.value  # such as a limit of time, reached between two hooks
        return True  # it is not printed
