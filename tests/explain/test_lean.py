"""What Tilescope does once where Streamlit does it at each rerun: the answer is Streamlit's."""

import copy
import gc
import weakref
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest
import streamlit as st
from streamlit import config
from streamlit.components.v2.presentation import make_bidi_component_presenter
from streamlit.cursor import Cursor, LockedCursor, RunningCursor
from streamlit.proto.Element_pb2 import Element
from streamlit.proto.NewSession_pb2 import Config, CustomThemeConfig
from streamlit.runtime import app_session
from streamlit.runtime.app_session import AppSession, AppSessionState
from streamlit.runtime.scriptrunner import ScriptRunner, get_script_run_ctx
from streamlit.runtime.state import SafeSessionState, SessionState
from streamlit.runtime.state.common import WidgetMetadata
from streamlit.runtime.state.query_params import _parse_query_string
from streamlit.testing.v1 import AppTest

from explain import lean


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
    once = lean._made_once(populate)
    for _ in range(2):
        once(found := message(), *section)
        assert found == read


def test_a_setting_is_read_without_waiting_for_other_threads():
    assert all(lean._setting(key) == st.get_option(key) for key in config.get_config_options())
    key = "global.minCachedMessageSize"  # of each message
    with ThreadPoolExecutor() as threads, config._config_lock:
        assert threads.submit(lean._setting, key).result(timeout=10) > 0


def test_a_control_finds_its_own_value_as_among_all_of_the_session(monkeypatch):
    state = SafeSessionState(SessionState(), lambda: None)
    state["cleared"], state["chosen"] = None, 3
    known = state.filtered_state
    monkeypatch.setattr(SafeSessionState, "filtered_state", property(lean._State))
    monkeypatch.setattr(SessionState, "filtered_state", property(lambda _: pytest.fail("read all")))
    found = state.filtered_state
    assert {name: found[name] for name in known if name in found} == known
    assert "another" not in found


def test_all_values_of_a_session_are_still_to_be_had(monkeypatch):
    state = SafeSessionState(SessionState(), lambda: None)
    state["chosen"] = 3
    known = state.filtered_state
    monkeypatch.setattr(SafeSessionState, "filtered_state", property(lean._State))
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
    assert [lean._has(state, name) for name in names] == streamlits


@pytest.mark.parametrize("kind", [RunningCursor, LockedCursor])
@pytest.mark.parametrize("shown", [(), (0, 2)])
def test_a_place_on_the_page_is_copied_as_streamlit_copies_it(monkeypatch, kind, shown):
    place = kind(0, (1, 2))
    for index in shown:
        place.transient_elements[index] = Element()
    known = copy.deepcopy(place)
    monkeypatch.setattr(Cursor, "__deepcopy__", lean._copied, raising=False)
    copied = copy.deepcopy({"main": place})["main"]
    assert type(copied) is kind
    assert copied.delta_path == known.delta_path == place.delta_path
    assert list(copied.transient_elements) == list(known.transient_elements)
    copied.transient_elements[3] = Element()
    assert 3 not in place.transient_elements
    copied.lock_element()
    assert place.delta_path == known.delta_path


def test_a_run_that_has_ended_is_not_kept_until_python_looks_for_cycles(monkeypatch):
    """Neither by its thread, nor by its session's state, in which no value is left."""
    run, contexts, states = ScriptRunner._run_script_thread, [], []

    def noted(runner):
        run(runner)
        contexts.append(weakref.ref(get_script_run_ctx()))
        states.append(runner._session_state)

    monkeypatch.setattr(ScriptRunner, "_run_script_thread", lean._forgotten(noted))
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


def session_of(name: str) -> Any:
    """What Streamlit's message of a run that begins asks of a session."""
    pages = {
        f"{stem}'s hash": {"page_script_hash": f"{stem}'s hash", "page_name": stem, "icon": "", "script_path": ""}
        for stem in ("", "online_softmax")
    }
    session: Any = SimpleNamespace(
        id=name,
        _script_data=SimpleNamespace(name="main", is_hello=False, main_script_path="main.py"),
        _pages_manager=SimpleNamespace(main_script_path="main.py", main_script_hash="main", get_pages=lambda: pages),
        _run_on_save=False,
        _state=AppSessionState.APP_IS_RUNNING,
        _compute_skills_nudge_state=lambda: (False, ""),
    )
    session._populate_app_pages = lambda *values: AppSession._populate_app_pages(session, *values)
    return session


def test_a_run_begins_with_streamlits_message_whoever_reads_which_page_for_the_second_time():
    create = AppSession._create_new_session_message
    once = lean._begun(create)
    for run in (run_of("first"), run_of("second", "a part"), run_of("third")):
        for session in map(session_of, ("a reader", "another")):
            for page in ("'s hash", "online_softmax's hash"):
                for session._state in (AppSessionState.APP_IS_RUNNING, AppSessionState.APP_NOT_RUNNING):
                    assert once(session, page, run) == create(session, page, run)


def test_other_pages_are_not_those_of_before():
    once = lean._begun(AppSession._create_new_session_message)
    session = session_of("a reader")
    both = session._pages_manager.get_pages()
    for pages in (both, dict([*both.items()][:1]), None):
        assert len(once(session, "'s hash", run_of("first"), pages).new_session.app_pages) == len(pages or both)


def run_of(name: str, *parts: str) -> Any:
    return SimpleNamespace(script_run_id=name, fragment_ids=list(parts))


@pytest.mark.parametrize("values", [{"pressed": 3}, {}, {"answer": {"a": "1"}, "pressed": None}, None, "text"])
@pytest.mark.parametrize(
    "happened",
    [
        None,
        [],
        [{"event": "checked", "value": {"a": "1"}}, {"event": "pressed", "value": 4}],
        {"event": "checked", "value": 2},
        [{"value": 1}, {"event": "left"}],
        [1, None, {"event": 2, "value": 3}, ["event"]],
        "forged",
    ],
)
@pytest.mark.parametrize("kind", ["json_trigger_value", "json_value", None])
def test_a_components_value_is_what_streamlit_shows(values, happened, kind):
    state = SessionState()
    if kind:
        told: Any = WidgetMetadata("events", lambda value: value, lambda value: value, kind)
        state._new_widget_state.set_widget_metadata(told)
        state._new_widget_state.set_from_value("events", happened)
    known, found = (
        make("events", None, None)(values, state) for make in (make_bidi_component_presenter, lean._presenter)
    )
    assert found == known
    if isinstance(known, dict) and kind == "json_trigger_value":
        names = ("checked", "pressed", "answer", "left", "other")
        assert [getattr(found, name) for name in names] == [getattr(known, name) for name in names]


@pytest.mark.parametrize("text", ["", "step=3&caption=", "a=1&a=2&b", "view=The%20climb", "=&&=;", "a" * 70_000])
def test_an_address_is_read_as_streamlit_reads_it_and_each_reader_has_the_values_alone(text):
    once = lean._parsed_once(_parse_query_string)
    first = once(text)
    assert first == _parse_query_string(text)
    for values in first.values():
        values.append("more")
    first["other"] = []
    assert once(text) == _parse_query_string(text)


def test_threads_for_parts_of_a_page_are_there_once_one_is_asked_for():
    threads = lean._OnDemand(max_workers=1)
    threads.shutdown(wait=True, cancel_futures=True)
    assert "_threads" not in vars(threads)
    assert threads.submit(max, 1, 2).result(timeout=10) == 2
    threads.shutdown(wait=True)
    with pytest.raises(RuntimeError):
        threads.submit(max, 1, 2)
