"""What a hall refuses to be served with. Serving one is in tests/e2e."""

from __future__ import annotations

import socket

import pytest

from explain.cli import main
from explain.nginx import nginx


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["hall.example; return 200"], "is not a host's name"),
        (["localhost", "--key", "key.pem"], "a certificate needs its key"),
        (["localhost", "--certificate", "none.pem", "--key", "none.pem"], "none.pem is not a file"),
        (["localhost", "--certificate", "README.md", "--key", "README.md"], "nginx cannot serve this"),
        (["localhost", "--address", "127.0.0.1", "--port", "{taken}"], "nginx cannot listen at 127.0.0.1"),
    ],
)
def test_what_cannot_be_served_is_said_before_a_process_starts(
    capfd: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    if said.startswith("nginx") and nginx() is None:
        pytest.skip("nginx is not on this machine (Debian: sudo apt install nginx)")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert main(["hall", *(word.format(taken=port) for word in words)]) == 3
    assert said in capfd.readouterr().err


def test_without_nginx_it_is_said_where_to_get_it(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("explain.hall.nginx", lambda: None)
    assert main(["hall", "localhost"]) == 3
    assert "sudo apt install nginx" in capfd.readouterr().err
