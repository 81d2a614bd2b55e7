"""Who sits at the server."""

import pytest
from starlette.requests import HTTPConnection

from explain.door import is_desk


@pytest.mark.parametrize(
    ("sender", "headers", "desk"),
    [
        ("127.0.0.1", {"host": "localhost:8501"}, True),
        ("::1", {"host": "[::1]:8501"}, True),
        ("192.168.1.7", {"host": "localhost:8501"}, False),
        ("127.0.0.1", {"host": "evil.example:8501"}, False),  # a name that leads to this machine
        ("127.0.0.1", {"host": "localhost:8501", "x-forwarded-for": "127.0.0.1"}, False),  # through a proxy
        ("127.0.0.1", {}, False),
    ],
)
def test_the_desk_is_this_machine_asked_by_its_own_name_and_directly(sender, headers, desk) -> None:
    raw = [(name.encode(), value.encode()) for name, value in headers.items()]
    assert is_desk(HTTPConnection({"type": "http", "client": (sender, 50000), "headers": raw})) == desk
