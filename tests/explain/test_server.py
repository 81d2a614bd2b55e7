"""The server's own routes: each page but home gets Streamlit's HTML, told where the server is."""

import copy
import gc
import re
import subprocess
import sys
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import streamlit as st
from starlette.requests import Request
from streamlit import config
from streamlit.cursor import Cursor, LockedCursor, RunningCursor
from streamlit.proto.Element_pb2 import Element
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.proto.NewSession_pb2 import Config, CustomThemeConfig
from streamlit.runtime import app_session
from streamlit.runtime.forward_msg_queue import ForwardMsgQueue
from streamlit.runtime.scriptrunner import ScriptRunner, get_script_run_ctx
from streamlit.runtime.state import SafeSessionState, SessionState
from streamlit.testing.v1 import AppTest

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


@pytest.mark.parametrize(
    ("populate", "message", "section"),
    [
        (app_session._populate_config_msg, Config, ()),
        (app_session._populate_theme_msg, CustomThemeConfig, ()),
        (app_session._populate_theme_msg, CustomThemeConfig, ("theme.dark",)),
    ],
)
def test_settings_that_were_read_once_are_as_streamlit_reads_them(populate, message, section):
    populate(read := message(), *section)
    once = server._made_once(populate)
    for _ in range(2):
        once(found := message(), *section)
        assert found == read


def test_a_setting_is_read_without_waiting_for_other_threads():
    assert all(server._setting(key) == st.get_option(key) for key in config.get_config_options())
    key = "global.minCachedMessageSize"  # of each message
    with ThreadPoolExecutor() as threads, config._config_lock:
        assert threads.submit(server._setting, key).result(timeout=10) > 0


def test_a_control_finds_its_own_value_as_among_all_of_the_session(monkeypatch):
    state = SafeSessionState(SessionState(), lambda: None)
    state["cleared"], state["chosen"] = None, 3
    known = state.filtered_state
    monkeypatch.setattr(SafeSessionState, "filtered_state", property(server._State))
    monkeypatch.setattr(SessionState, "filtered_state", property(lambda _: pytest.fail("read all")))
    found = state.filtered_state
    assert {name: found[name] for name in known if name in found} == known
    assert "another" not in found


def test_all_values_of_a_session_are_still_to_be_had(monkeypatch):
    state = SafeSessionState(SessionState(), lambda: None)
    state["chosen"] = 3
    known = state.filtered_state
    monkeypatch.setattr(SafeSessionState, "filtered_state", property(server._State))
    assert dict(state.filtered_state) == known
    assert len(state.filtered_state) == 1


def test_what_a_session_has_is_found_by_name_and_by_id_as_streamlit_finds_it(monkeypatch):
    """A component's value, as a script sees it, is a class made anew each time: nobody makes it to look for it."""
    state = SessionState()
    state["named"] = 1
    state._new_widget_state.set_from_value("$$ID-1-keyed", {"pressed": 1})
    state._key_id_mapper["keyed"] = "$$ID-1-keyed"
    state._new_widget_state.set_from_value("$$ID-2-None", 2)
    names = ("named", "keyed", "$$ID-1-keyed", "$$ID-2-None", "other", "$$ID-3-None")
    streamlits = [name in state for name in names]
    assert streamlits == [True, True, True, True, False, False]
    monkeypatch.setattr(SessionState, "__getitem__", None)
    assert [server._has(state, name) for name in names] == streamlits


@pytest.mark.parametrize("kind", [RunningCursor, LockedCursor])
@pytest.mark.parametrize("shown", [(), (0, 2)])
def test_a_place_on_the_page_is_copied_as_streamlit_copies_it(monkeypatch, kind, shown):
    place = kind(0, (1, 2))
    for index in shown:
        place.transient_elements[index] = Element()
    known = copy.deepcopy(place)
    monkeypatch.setattr(Cursor, "__deepcopy__", server._copied, raising=False)
    copied = copy.deepcopy({"main": place})["main"]
    assert type(copied) is kind
    assert copied.delta_path == known.delta_path == place.delta_path
    assert list(copied.transient_elements) == list(known.transient_elements)
    copied.transient_elements[3] = Element()
    assert 3 not in place.transient_elements
    copied.lock_element()
    assert place.delta_path == known.delta_path


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


def test_a_run_that_has_ended_is_not_kept_until_python_looks_for_cycles(monkeypatch):
    """Neither by its thread, nor by its session's state, in which no value is left."""
    run, contexts, states = ScriptRunner._run_script_thread, [], []

    def noted(runner):
        run(runner)
        contexts.append(weakref.ref(get_script_run_ctx()))
        states.append(runner._session_state)

    monkeypatch.setattr(ScriptRunner, "_run_script_thread", server._forgotten(noted))
    gc.collect()
    gc.disable()
    try:
        app = AppTest.from_string("import streamlit as st; st.button('Press', key='pressed')").run()
        app.button[0].click().run()
        assert [context() for context in contexts] == [None, None]
    finally:
        gc.enable()
    assert not any(hasattr(state._yield_callback, "__self__") for state in states)
    assert "_yield_callback" not in app.session_state


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
