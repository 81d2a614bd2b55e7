"""The server's own routes: each page but home gets Streamlit's HTML, told where the server is."""

import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import streamlit as st
from starlette.requests import Request
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.runtime.forward_msg_queue import ForwardMsgQueue

from explain import ROOT, contents, server


def test_every_pages_address_names_the_server_before_streamlits_script_runs():
    routes = {route.path: route for route in server.routes()}
    for page in contents.pages():
        if page.kind != "home":
            html = routes[f"/{page.stem}"].endpoint(None).body.decode()
            assert 0 < html.index("BACKEND_BASE_URL") < html.index('type="module"'), page.stem


def test_an_old_address_leads_to_its_page_with_its_query():
    routes = {route.path: route for route in server.routes()}
    for old, new in server.MOVED.items():
        assert f"/{new}" in routes
        request = Request({"type": "http", "path": f"/{old}", "query_string": b"caption=2", "headers": []})
        assert routes[f"/{old}"].endpoint(request).headers["location"] == f"./{new}?caption=2"


@pytest.mark.parametrize(("path", "parts"), [("/", server.PARTS), ("/softmax", (*server.PARTS, *server.CONTROLS))])
def test_a_page_asks_for_all_scripts_of_its_parts_at_once(path, parts):
    routes = {route.path: route for route in server.routes()}
    html = routes[path].endpoint(None).body.decode()
    scripts = Path(st.__file__).parent / "static" / "static" / "js"
    named = [file for file in scripts.glob("*.js") if file.name in html]
    assert {part for part in parts if any(file.name.startswith(f"{part}.") for file in named)} == set(parts)
    imported = {name for file in named for name in re.findall(r'from"\./([\w.-]+\.js)"', file.read_text("utf-8"))}
    assert not [name for name in imported if name not in html]
    assert len(re.findall(r"modulepreload", html)) < 0.4 * len(list(scripts.glob("*.js")))


def test_the_font_of_code_comes_with_every_page_that_shows_code():
    routes = {route.path: route for route in server.routes()}
    fonts = Path(st.__file__).parent / "static"
    for path in ("/", "/softmax", "/flash_attention"):
        html = routes[path].endpoint(None).body.decode()
        asked = re.findall(r'rel="preload"[^>]*href="\./(static/media/SourceCode[^"]+)"', html)
        assert len(asked) == (path != "/")
        assert all((fonts / file).is_file() for file in asked)


def test_what_chapters_need_is_there_before_readers_come_and_is_never_collected():
    said = """
import gc, sys
from explain import ROOT, contents, server
server._prepare()
wanted = {f"explain.chapters.{page.stem}.view" for page in contents.pages()}
heavy = {"torch", "triton"} & sys.modules.keys()
print(sorted(wanted - sys.modules.keys()), gc.get_freeze_count() > len(gc.get_objects()), heavy)
"""
    ended = subprocess.run([sys.executable, "-c", said], cwd=ROOT, capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == "[] True set()"


def test_what_is_drawn_again_is_sent_after_the_beginning_of_its_run():
    queue = ForwardMsgQueue()
    session: Any = SimpleNamespace(_browser_queue=queue)
    for text in ("old", "new"):
        if text == "new":
            server._keep_all(session)
            begins = ForwardMsg()
            begins.new_session.SetInParent()
            queue.enqueue(begins)
        drawn = ForwardMsg()
        drawn.metadata.delta_path[:] = [0, 7]
        drawn.delta.new_element.text.body = text
        queue.enqueue(drawn)
    sent = [one.delta.new_element.text.body or one.WhichOneof("type") for one in queue.flush()]
    assert sent == ["old", "new_session", "new"]
