"""For the tests of the page Measurements: no record of this machine."""

import pytest


@pytest.fixture(autouse=True)
def nothing_of_this_machine(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("TILESCOPE_CACHE", str(tmp_path))
