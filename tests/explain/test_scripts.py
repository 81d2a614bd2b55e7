"""Scripts of components: served at an address that names their content, and loaded from there."""

import gzip

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from explain import scripts, server
from explain.chapters.home import view as home
from explain.player import files

TEXT = "export default () => 'ᵀ';\n"


@pytest.fixture
def client() -> TestClient:
    return TestClient(Starlette(routes=[scripts.route()]))


def test_a_script_is_served_for_ever_at_an_address_that_changes_with_it(client):
    address, other = scripts.served("one", TEXT), scripts.served("one", TEXT + " ")
    assert address != other
    answer = client.get(address)
    assert answer.text == TEXT
    assert answer.headers["content-type"].startswith("text/javascript")
    assert "immutable" in answer.headers["cache-control"]
    assert client.get(other).text == TEXT + " "


def test_it_is_compressed_for_who_takes_that(client):
    address = scripts.served("large", TEXT * 1000)
    with client.stream("GET", address, headers={"accept-encoding": "gzip"}) as answer:
        raw = b"".join(answer.iter_raw())
    assert len(raw) < 1000
    assert gzip.decompress(raw).decode() == TEXT * 1000
    with client.stream("GET", address, headers={"accept-encoding": "identity"}) as answer:
        assert b"".join(answer.iter_raw()).decode() == TEXT * 1000


def test_what_is_not_there_is_not_found(client):
    assert client.get("/scripts/none.js").status_code == 404
    assert client.get("/scripts/..%2f..%2fapp.py").status_code == 404


def test_the_server_has_the_scripts_that_its_pages_load_at_once():
    routes = server.routes()
    client = TestClient(Starlette(routes=routes))
    for path, script in (("/", home.SCRIPT), ("/softmax", files.address()), ("/write_it", files.address())):
        assert f'<link rel="modulepreload" crossorigin href="./{script}">' in client.get(path).text
        assert client.get(f"/{script}").text.count("export default") == 1
