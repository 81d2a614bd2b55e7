"""Random addresses, and random values of the controls that a page then has."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from streamlit.runtime.state.query_params import QueryParams
from streamlit.testing.v1 import AppTest

from explain import ROOT
from tests import pages
from tests.fuzz.found import Found

PAGES = sorted(path.stem for path in (ROOT / "pages").glob("*.py"))
ODD = (
    "", " ", "None", "nan", "-inf", "1e309", "-1", "0", "1", "2", "16", "64", "4096", "-0", "00", "1.5", "0x10", "true",
    "9" * 40, "9" * 5000, "a" * 20_000, "\x00", "\n", "💥" * 30, "٣", "𝟞", "é", "Ω≈ç√", "../../etc/passwd", "%00",
    "<script>alert(1)</script>", "[x](javascript:1)", "**", "$x$", ":red[", "{}", "[]", "null", "made:", "made:offset=",
    "made:offset=1e400,hidden=x", "softmax_online", "flash_attention~", "fp16", "causal", "sentence", "normal",
)  # fmt: skip
"""Values that mean nothing, or something elsewhere."""


@contextmanager
def without_triton() -> Iterator[None]:
    """In it a page says of a run that was not recorded that it cannot be shown."""
    with ExitStack() as stack:
        for module in ("engine", "chapters.home.view", "chapters.what_breaks.view", "chapters.sweeps.runner"):
            stack.enter_context(patch(f"explain.{module}.has_triton", lambda: False))
        yield


class Addresses:
    """What pages show at random addresses. All pages are opened once, for the names that they look for."""

    def __init__(self) -> None:
        self._names: dict[str, list[str]] = {}
        with _noted() as asked:
            for page in PAGES:
                asked.clear()
                _opened(page).run()
                self._names[page] = [*sorted(asked), "another"]

    def look(self, number: int) -> Found:
        """Opens a page at the address of this number, and then moves some of its controls."""
        rng, page = random.Random(number), PAGES[number % len(PAGES)]
        test, done, slowest = _opened(page), [page], 0.0
        for name in rng.sample(self._names[page], rng.randint(1, min(6, len(self._names[page])))):
            value = rng.choice(ODD)
            test.query_params[name] = [value, rng.choice(ODD)] if rng.random() < 0.1 else value
            done.append(f"{name}={value[:40]!r}")
        for moved in _moves(test, rng):
            done.append(moved)
            before = time.process_time()
            test.run()
            slowest = max(slowest, time.process_time() - before)
            if test.exception:
                return Found(f"{number}: {' '.join(done)}: {[one.message for one in test.exception]}", slowest)
        return Found("", slowest, " ".join(done))


@contextmanager
def _noted() -> Iterator[set[str]]:
    """The names that pages look for in the address, as they ask for them."""
    asked: set[str] = set()
    with ExitStack() as stack:
        for method in ("__getitem__", "get_initial_value"):
            plain = getattr(QueryParams, method)

            def noted(self: QueryParams, name: str, *more: object, plain: Any = plain) -> object:
                asked.add(name)
                return plain(self, name, *more)

            stack.enter_context(patch.object(QueryParams, method, noted))
        yield asked


def _opened(page: str) -> AppTest:
    return pages.of("main.py" if page == "home" else f"pages/{page}.py")  # home leads to others, by the navigation


def _moves(test: AppTest, rng: random.Random) -> Iterator[str]:
    """The address as it is, then some controls at random values, one after another; each in words."""
    yield ""
    for _ in range(rng.randint(0, 2)):
        controls = [*test.selectbox, *test.number_input, *test.text_input, *test.toggle, *test.segmented_control]
        if not controls:
            return
        control = rng.choice(controls)
        match control.type:
            case "number_input":
                value: object = rng.choice((-1, 0, 1, 3, 17, 10**6, -(2**53), 2**53))
            case "text_input":
                value = rng.choice(ODD)
            case "checkbox" | "toggle":
                value = not control.value
            case _:
                value = rng.choice(control.options)
        if control.type == "selectbox":
            control.select_index(control.options.index(value))
        else:
            control.set_value(value)
        yield f"{control.type} {control.label}={str(value)[:40]!r}"
