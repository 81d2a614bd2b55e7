"""Random addresses and random values of controls: a page shows no error of its own and is not slow.

    python -m pytest tests/test_addresses.py --addresses 5000

Without Triton, so a page says of a run that was not recorded that it cannot be shown.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator

import pytest
from streamlit.runtime.state.query_params import QueryParams
from streamlit.testing.v1 import AppTest

from explain import ROOT

PAGES = sorted(path.stem for path in (ROOT / "pages").glob("*.py"))
ODD = (
    "", " ", "None", "nan", "-inf", "1e309", "-1", "0", "1", "2", "16", "64", "4096", "-0", "00", "1.5", "0x10", "true",
    "9" * 40, "9" * 5000, "a" * 20_000, "\x00", "\n", "💥" * 30, "٣", "𝟞", "é", "Ω≈ç√", "../../etc/passwd", "%00",
    "<script>alert(1)</script>", "[x](javascript:1)", "**", "$x$", ":red[", "{}", "[]", "null", "made:", "made:offset=",
    "made:offset=1e400,hidden=x", "softmax_online", "flash_attention~", "fp16", "causal", "sentence", "normal",
)  # fmt: skip
"""Values that mean nothing, or something elsewhere."""
SLOW_S = 1.0
"""CPU seconds, so a busy machine is none of the page's."""


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The names that pages look for in the address, as they ask for them."""
    asked: set[str] = set()

    def listening(method: str) -> None:
        plain = getattr(QueryParams, method)

        def noted(self: QueryParams, name: str, *more: object) -> object:
            asked.add(name)
            return plain(self, name, *more)

        monkeypatch.setattr(QueryParams, method, noted)

    for method in ("__getitem__", "get_initial_value"):
        listening(method)
    return asked


def test_no_address_and_no_value_of_a_control_breaks_a_page(request, names, monkeypatch, tmp_path):
    for module in ("engine", "chapters.home.view", "chapters.what_breaks.view"):
        monkeypatch.setattr(f"explain.{module}.has_triton", lambda: False)
    for module in ("engine", "chapters.home.view", "chapters.what_breaks.view", "chapters.sweeps.runner"):
        monkeypatch.setattr(f"explain.{module}.has_triton", lambda: False)
    monkeypatch.setenv("TILESCOPE_CACHE", str(tmp_path))
    own = {}
    for name in PAGES:  # imports what it needs, and says which names it looks for
        names.clear()
        _opened(name).run()
        own[name] = [*sorted(names), "another"]
    broken = []
    for n in range(request.config.getoption("--addresses")):
        rng, name = random.Random(n), PAGES[n % len(PAGES)]
        test, done = _opened(name), [name]
        for one in rng.sample(own[name], rng.randint(1, min(6, len(own[name])))):
            value = rng.choice(ODD)
            test.query_params[one] = [value, rng.choice(ODD)] if rng.random() < 0.1 else value
            done.append(f"{one}={value[:40]!r}")
        for moved in _moves(test, rng):
            done.append(moved)
            before = time.process_time()
            test.run()
            seconds = time.process_time() - before
            if test.exception or seconds > SLOW_S:
                broken.append(f"{n}: {' '.join(done)}: {seconds:.1f} s {[one.message for one in test.exception]}")
                break
    assert not broken, "\n".join(broken)


def _opened(page: str) -> AppTest:
    file = "main.py" if page == "home" else f"pages/{page}.py"  # home leads to other pages, by the navigation
    return AppTest.from_file(str(ROOT / file), default_timeout=300)


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
