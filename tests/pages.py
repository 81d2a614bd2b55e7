"""Opens a page without a browser, and reads it."""

from __future__ import annotations

import re

from streamlit.testing.v1 import AppTest
from streamlit.testing.v1.element_tree import ButtonGroup

from explain import ROOT


def page(name: str, **query: str) -> AppTest:
    test = AppTest.from_file(str(ROOT / "pages" / f"{name}.py"), default_timeout=300)
    for key, value in query.items():
        test.query_params[key] = value
    test.run()
    assert not test.exception
    return test


def texts(test: AppTest) -> str:
    """What is written on the page; a term's definition is not."""
    written = "\n".join(str(element.value) for element in [*test.markdown, *test.caption, *test.error])
    return re.sub(r"<span[^>]*>(.*?)</span>", r"\1", written)


def measured_on(test: AppTest) -> ButtonGroup[str]:
    """The control that chooses the GPU records."""
    (control,) = (one for one in test.button_group if one.label == "Measured on")
    return control
