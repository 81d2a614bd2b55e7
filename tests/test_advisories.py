"""Known advisories of the dependencies, asked of a server of OSV's protocol on this machine."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from explain import ROOT
from scripts.advisories import installed, main

PLANTED = {
    "id": "PYSEC-2099-1",
    "modified": "2026-01-01T00:00:00Z",
    "affected": [
        {
            "package": {"name": "jinja2", "ecosystem": "PyPI"},
            "ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "99.0"}]}],
        }
    ],
}


@pytest.fixture
def osv() -> Iterator[tuple[str, list[str]]]:
    """The address of a server that knows one advisory, and the packages it was asked about."""
    asked: list[str] = []

    class Answers(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            name = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["package"]["name"]
            asked.append(name)
            body = json.dumps({"vulns": [PLANTED]} if name == "jinja2" else {}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/v1/query", asked
    server.shutdown()
    server.server_close()


def test_an_advisory_of_what_a_dependency_needs_is_named_with_its_remedy(osv, capsys):
    url, asked = osv
    assert main(["--osv-url", url]) == 1
    assert set(asked) == set(installed((ROOT / "requirements.txt").read_text().splitlines()))
    assert {"streamlit", "torch", "jinja2"} <= set(asked)  # the last one is nobody's line in requirements.txt
    said = capsys.readouterr().out
    assert "jinja2" in said
    assert "PYSEC-2099-1" in said
    assert "99.0" in said


def test_without_a_connection_it_says_that_nothing_was_checked(capsys):
    assert main(["--osv-url", "http://127.0.0.1:9/"]) == 0
    assert "not checked" in capsys.readouterr().out
