"""The app's server: what it does before a reader comes and beside Streamlit's own, so that a page opens sooner."""

from __future__ import annotations

import asyncio
import base64
import gc
import hashlib
import importlib
import re
import webbrowser
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import streamlit as st
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route
from streamlit.runtime import Runtime
from streamlit.runtime.app_session import AppSession
from streamlit.runtime.memory_session_storage import MemorySessionStorage
from streamlit.runtime.pages_manager import PagesManager
from streamlit.runtime.scriptrunner import script_runner

from explain import contents, door, lean, outbox, scripts
from explain.player import files
from explain.room import Room
from explain.turns import SCRIPTS

PARTS = ("BidiComponent", "recordbatch", "Html", "PageLink", "rehype-raw")
"""The files of Streamlit's for the parts that each page has. It would ask for them, and then for what they import, one
after another, as the parts of the page come."""
CONTROLS = ("LinkButton", "ButtonGroup", "Selectbox", "Checkbox")
"""The same for what chapters have beside them."""
PLAYER_AFTER_S = 2.0
"""The first page needs the cores until then."""
SESSIONS = 2000
"""Of readers without a connection, kept until it is back. Streamlit keeps 128, and forgets the others of a hall."""
MOVED = {"tour": "your_tour"}
"""Pages that had another address; its links still lead to them."""
COLLECT_AFTER = (50_000, 20, 50)
"""Objects made before Python looks for cycles among the newest; and before it looks among older ones, in turns of
that. By default it looks after 700 objects, and often at all that a class has in memory, which stops every reader."""
_LATER = ("explain.chapters.flash_attention.view", "pandas")
"""The player, and with it nearly all that a chapter imports; and what Plotly imports at a page's first plot. They come
before the other chapters."""
_IMPORTED = re.compile(r'(?:from|import)"\./([^"]+)"')
_BASE = """<script>
  const base = new URL(".", location).href;
  window.__streamlit = { BACKEND_BASE_URL: base, MAIN_PAGE_BASE_URL: base };
</script>"""
_STILL = "<style>[data-testid=stSkeleton] { animation: none !important }</style>"
"""Grey bars stand where parts of a page will come. They would pulse, and a browser that opens a page is busy enough."""


def routes() -> list[Route]:
    """A route for each page and each old address, and for the scripts. A page is Streamlit's own HTML, told where the
    server is, and which files it loads at once: those that it would ask for only when its parts come.

    Without being told, the browser looks for the server below the page's address first, logs two errors 404, and waits
    before it looks above.
    """
    static = Path(st.__file__).with_name("static")
    html = static.joinpath("index.html").read_text(encoding="utf-8")
    html = html.replace("<head>", f"<head>{_BASE}{_STILL}", 1)

    headers = {"Cache-Control": "no-cache", "Content-Security-Policy": _policy(html)}

    def page_of(script: Callable[[], str], *parts: str) -> Callable[[Request], Response]:
        preloads = "".join(map(_preload, _files(static / "static" / "js", parts, html)))
        if script is files.address:  # code is laid out anew, and the player drawn again, where its font comes late
            preloads += _preload_font(next((static / "static" / "media").glob("SourceCodeVF-Upright.*")).name)

        def page(_: Request) -> Response:
            return HTMLResponse(html.replace("</head>", f"{preloads}{_preload(script())}</head>", 1), headers=headers)

        return page

    def moved(request: Request) -> Response:
        new = MOVED[request.url.path.rpartition("/")[2]]
        return RedirectResponse(f"./{new}?{request.url.query}".rstrip("?"))

    other = page_of(files.address, *PARTS, *CONTROLS)
    shown = [Route(f"/{one.stem}", other) for one in contents.pages() if one.kind != "home"]
    home = Route("/", page_of(lambda: importlib.import_module("explain.chapters.home.view").SCRIPT, *PARTS))
    return [home, *shown, *(Route(f"/{old}", moved) for old in MOVED), scripts.route()]


def _files(folder: Path, parts: Iterable[str], known: str) -> list[str]:
    """The scripts of these parts, and all that they import, that the HTML does not name already."""
    found: list[str] = []
    waiting = [file.name for part in parts for file in folder.glob(f"{part}.*.js")]
    while waiting:
        if (name := waiting.pop()) not in known and (file := f"static/js/{name}") not in found:
            found.append(file)
            waiting += _IMPORTED.findall((folder / name).read_text(encoding="utf-8"))
    return found


def _preload(file: str) -> str:
    return f'<link rel="modulepreload" crossorigin href="./{file}">'


def _preload_font(name: str) -> str:
    return f'<link rel="preload" as="font" type="font/woff2" crossorigin href="./static/media/{name}">'


def _policy(html: str) -> str:
    """What the browser lets a page of the app do: its own files and its own server, the scripts in this HTML and no
    other text as a script. Streamlit makes a component's script a blob, styles elements as it draws them, and shows
    pictures from memory.
    """
    inline = re.findall(r"<script>(.*?)</script>", html, re.DOTALL)
    hashes = ("'sha256-" + base64.b64encode(hashlib.sha256(one.encode()).digest()).decode() + "'" for one in inline)
    return (
        f"default-src 'self'; script-src 'self' blob: {' '.join(hashes)}; "
        "style-src 'self' 'unsafe-inline' blob:; img-src 'self' data: blob:; media-src 'self' blob:; "
        "font-src 'self' data:; worker-src 'self' blob:; object-src 'none'; base-uri 'self'; frame-ancestors 'self'"
    )


@asynccontextmanager
async def started(_: st.App, room: Room | None = None) -> AsyncIterator[dict[str, Any] | None]:
    """The server's life. It keeps the sessions of a whole hall while the network is gone. Before it answers it imports
    the first page, which no reader then waits for. While the browser loads Streamlit, it prepares the opening. Later it
    prepares the chapters. It opens the reader's browser, as `streamlit run` does for other scripts. Of a room it prints
    address, code and QR code.
    """
    PagesManager.uses_pages_directory = False  # until st.navigation is first called, it would serve pages/ by itself
    _expect_a_hall()
    gc.set_threshold(*COLLECT_AFTER)
    loop = asyncio.get_running_loop()
    loop.run_in_executor(None, importlib.import_module("explain.chapters.home.view").ready)
    loop.call_later(PLAYER_AFTER_S, lambda: loop.run_in_executor(None, _prepare))
    if not st.get_option("server.headless"):
        address = f"http://{st.get_option('server.address')}:{st.get_option('server.port')}"
        loop.call_later(0.2, webbrowser.open, address)
    if room:
        loop.call_later(0.2, _invite, room)
    yield None


def _prepare() -> None:
    """Imports what the chapters need, and finds out which measurements are stale: the digests of the kernels' code.

    All that is there then stays as long as the server does: Python need not go through it at each full collection.
    """
    from explain.records import registry
    from explain.records.code import is_stale

    for module in (*_LATER, *(f"explain.chapters.{page.stem}.view" for page in contents.pages())):
        importlib.import_module(module)
    for record in registry.shipped():
        for point in record.points.values():
            is_stale(point)
    gc.collect()
    gc.freeze()


def _expect_a_hall() -> None:
    """Makes the server fit for a hall: cheap reruns, in turn; and the network may fail, whereupon all readers come back
    in the same second. Streamlit has no options for it.
    """
    kept = MemorySessionStorage(SESSIONS, st.get_option("server.disconnectedSessionTTL"))
    Runtime.instance()._session_mgr._session_storage = kept  # type: ignore[attr-defined]
    lean.lean()
    outbox.together()
    execute = script_runner.exec_func_with_error_handling  # type: ignore[attr-defined]
    script_runner.exec_func_with_error_handling = _in_turn(execute)  # type: ignore[attr-defined]
    AppSession._clear_queue = _keep_all  # type: ignore[method-assign, assignment]


def _keep_all(session: AppSession, _fragments: list[str] | None = None) -> None:
    """Sends what a run has drawn although the next one begins. Streamlit drops what it has not sent yet, as the next
    run draws all of the page; here it may draw some parts alone (`ui/rerun.py`). A part that the next run draws again
    comes after what says that it begins, and not in its old place: on another page that would be lost.
    """
    session._browser_queue._delta_index_map = {}


def _in_turn(execute: Callable[..., Any]) -> Callable[..., Any]:
    """Streamlit's function that runs a page's script, which now waits for its turn."""

    def once(*values: Any) -> Any:
        with SCRIPTS.taken():
            return execute(*values)

    return once


def _invite(room: Room) -> None:
    """Print how to enter the room; the page that is shown to it renews the code."""
    port = int(st.get_option("server.port"))
    room.qr(port).terminal(compact=True)
    print(f"  Room: http://{room.address}:{port}, code {room.code()}. Show it: http://localhost:{port}{door.SHOWN}\n")
