"""Where the server's secrets name a provider of OpenID Connect, nobody reads without its word."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from explain.app_process import free_ports
from tests.e2e.conftest import PATIENCE_MS
from tests.e2e.provider import CLIENT, Provider, running_provider
from tests.e2e.server import Server, running_app


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    with running_provider() as provider:
        yield provider


@pytest.fixture(scope="module")
def closed(provider: Provider, cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    port = free_ports(1)[0]
    secrets = tmp_path_factory.mktemp("login") / "secrets.toml"
    secrets.write_text(f"""[auth]
redirect_uri = "http://127.0.0.1:{port}/oauth2callback"
cookie_secret = "of forty letters and more, as a hall has"
client_id = "{CLIENT}"
client_secret = "the provider knows it too"
server_metadata_url = "{provider.url}/.well-known/openid-configuration"
""")
    with running_app(cache=cache, options=["--secrets.files", str(secrets)], port=port) as server:
        yield server


def test_only_who_has_logged_in_reads(browser: Browser, closed: Server, provider: Provider) -> None:
    context = browser.new_context()
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    log_in, log_out = (page.get_by_role("button", name=name) for name in ("Log in", "Log out"))
    pages = page.get_by_role("navigation", name="Pages")

    page.goto(f"{closed.url}/softmax")
    expect(log_in).to_be_visible()
    provider.forges = True  # another's signature
    log_in.click()
    page.wait_for_url(f"{closed.url}/")
    expect(log_in).to_be_visible()
    expect(pages).to_have_count(0)
    assert "bad_signature" in closed.log.read_text()

    provider.forges = False
    log_in.click()
    expect(pages).to_be_visible()
    page.goto(f"{closed.url}/questions")  # a new session of the same browser
    expect(pages).to_be_visible()
    log_out.click()
    expect(log_in).to_be_visible()
    expect(pages).to_have_count(0)
    context.close()
