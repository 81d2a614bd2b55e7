"""The app's server: what it does before a reader comes and beside Streamlit's own, so that a page opens sooner."""

from __future__ import annotations

import asyncio
import importlib
import webbrowser
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import streamlit as st
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route
from streamlit.runtime.pages_manager import PagesManager

from explain import contents

FIRST = ("home", "flash_attention")
"""The rooms of the first page and of the player: with them comes nearly all that a chapter imports."""
_BASE = """<script>
  const base = new URL(".", location).href;
  window.__streamlit = { BACKEND_BASE_URL: base, MAIN_PAGE_BASE_URL: base };
</script>"""


def routes() -> list[Route]:
    """A route for each page but home: Streamlit's own HTML, told where the server is.

    Without being told, the browser looks for the server below the page's address first, logs two errors 404, and waits
    before it looks above.
    """
    html = Path(st.__file__).with_name("static").joinpath("index.html").read_text(encoding="utf-8")
    html = html.replace("<head>", f"<head>{_BASE}", 1)

    def page(_: Request) -> Response:
        return HTMLResponse(html, headers={"Cache-Control": "no-cache"})

    return [Route(f"/{one.stem}", page) for one in contents.pages() if one.kind != "home"]


@asynccontextmanager
async def started(_: st.App) -> AsyncIterator[dict[str, Any] | None]:
    """The server's life. Before it answers it imports what FIRST names, which no reader then waits for. While the
    browser loads Streamlit, it prepares the opening. It opens the reader's browser, as `streamlit run` does for other
    scripts.
    """
    PagesManager.uses_pages_directory = False  # until st.navigation is first called, it would serve pages/ by itself
    views = [importlib.import_module(f"explain.chapters.{room}.view") for room in FIRST]
    asyncio.get_running_loop().run_in_executor(None, views[0].ready)
    if not st.get_option("server.headless"):
        address = f"http://{st.get_option('server.address')}:{st.get_option('server.port')}"
        asyncio.get_running_loop().call_later(0.2, webbrowser.open, address)
    yield None
