"""Opens a page without a browser, and reads it."""

from __future__ import annotations

import re
from functools import cache
from html import unescape
from typing import Any

from streamlit.components.v2 import manifest_scanner
from streamlit.testing.v1 import AppTest
from streamlit.testing.v1.element_tree import ButtonGroup

from explain import ROOT

# For each test of a page Streamlit would look through all installed packages again.
manifest_scanner.scan_component_manifests = cache(manifest_scanner.scan_component_manifests)


def of(file: str) -> AppTest:
    """The page that this file of the project makes, not run yet."""
    return AppTest.from_file(str(ROOT / file), default_timeout=300)


def opened(file: str, **query: str) -> AppTest:
    """The page that this file of the project makes at an address. Neither now nor later may a run show an exception."""
    test = of(file)
    run = test._run

    def checked(*moved: Any, **limits: Any) -> AppTest:
        run(*moved, **limits)
        assert not test.exception
        return test

    test._run = checked  # type: ignore[method-assign]
    for name, value in query.items():
        test.query_params[name] = value
    return test.run()


def page(name: str, **query: str) -> AppTest:
    return opened(f"pages/{name}.py", **query)


def texts(test: AppTest) -> str:
    """What is written on the page; a term's definition is not."""
    written = "\n".join(str(element.value) for element in [*test.markdown, *test.caption, *test.error])
    return re.sub(r"<span[^>]*>(.*?)</span>", r"\1", written)


def codes(test: AppTest) -> list[str]:
    """Each text that the page shows as code, without line numbers."""
    written = "\n".join(element.value for element in test.markdown)
    blocks = re.findall(r'<div class="text" tabindex="0">(.*?)</div>', written, re.DOTALL)
    return [unescape(re.sub(r'<span class="linenos">.*?</span>|<[^>]+>', "", block)) for block in blocks]


def measured_on(test: AppTest) -> ButtonGroup[str]:
    """The control that chooses the GPU records."""
    (control,) = (one for one in test.button_group if one.label == "Measured on")
    return control
