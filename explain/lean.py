"""Streamlit's reruns at less cost: what it works out anew for each of them is worked out once.

One core serves a whole class, so a rerun must cost only a few milliseconds. Each function here takes the place of one
of Streamlit's. What this app asks of it, it answers as Streamlit's does; tests compare the two.
"""

from __future__ import annotations

import copy
import functools
import hashlib
import textwrap
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext, suppress
from types import SimpleNamespace
from typing import Any

import streamlit as st
from streamlit import config, cursor, string_util, util
from streamlit.components.v2.bidi_component import main as bidi_component
from streamlit.elements import html
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.runtime import app_session, parallel_coordinator
from streamlit.runtime.app_session import AppSession
from streamlit.runtime.scriptrunner import ScriptRunner, script_runner
from streamlit.runtime.scriptrunner_utils.script_run_context_attr import SCRIPT_RUN_CONTEXT_ATTR_NAME
from streamlit.runtime.state import SafeSessionState, SessionState, query_params

TEXTS = 1024
"""Texts and addresses that are remembered; a page has some tens of texts."""


def lean() -> None:
    """Makes reruns cheap, from now on. Streamlit has no options for it."""
    hasher = functools.partial(hashlib.sha1, usedforsecurity=False)
    dedent = functools.lru_cache(TEXTS)(textwrap.dedent)
    replaced: tuple[tuple[object, str, object], ...] = (
        (config, "get_option", _setting),
        (util, "create_fast_hasher", hasher),
        (string_util, "textwrap", SimpleNamespace(dedent=dedent)),
        (html, "_html_only_style_tags", functools.lru_cache(TEXTS)(html._html_only_style_tags)),
        (query_params, "_parse_query_string", _parsed_once(query_params._parse_query_string)),
        (bidi_component, "make_bidi_component_presenter", _presenter),
        (parallel_coordinator, "ThreadPoolExecutor", _OnDemand),
        (app_session, "_populate_theme_msg", _made_once(app_session._populate_theme_msg)),
        (app_session, "_populate_config_msg", _made_once(app_session._populate_config_msg)),
        (AppSession, "_compute_skills_nudge_state", _no_advice),
        (AppSession, "_create_new_session_message", _begun(AppSession._create_new_session_message)),
        (SafeSessionState, "filtered_state", property(_State)),
        (SessionState, "__contains__", _has),
        (script_runner, "modified_sys_path", nullcontext),
        (cursor.Cursor, "__deepcopy__", _copied),
        (ScriptRunner, "_run_script_thread", _forgotten(ScriptRunner._run_script_thread)),
    )
    for where, name, ours in replaced:
        setattr(where, name, ours)
    if st.get_option("server.fileWatcherType") == "none":  # it looks at all modules for each reader who is back: 90 ms
        AppSession.register_file_watchers = _do_nothing  # type: ignore[method-assign, assignment]


def _setting(key: str) -> Any:
    """The value of one of Streamlit's settings, without the lock that its own function takes. Each message asks for
    settings, so the threads of a class would wait for each other.
    """
    return config.get_config_options()[key].value


class _State(Mapping[str, Any]):
    """A session's values, each read when it is asked for. Streamlit reads all of them for each control that is drawn,
    to look for the control's own.
    """

    def __init__(self, state: SafeSessionState) -> None:
        self._state = state

    def __getitem__(self, name: str) -> Any:
        return self._state[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._state._state.filtered_state)

    def __len__(self) -> int:
        return len(self._state._state.filtered_state)


def _has(state: SessionState, name: str) -> bool:
    """Whether a session has a value, by its name or its control's id. To find out, Streamlit builds the value that a
    script would see; for a component that includes a new class.
    """
    id, names = state._get_widget_id(name), state._key_id_mapper.id_key_mapping
    try:
        state._getitem(id, names[id] if id == name and id in names else name)
    except KeyError:
        return False
    return True


def _made_once(populate: Callable[..., None]) -> Callable[..., None]:
    """Some of Streamlit's settings, read once. Each answer has them, and its theme took a fifth of a class's reruns."""
    made: dict[tuple[str, ...], Any] = {}

    def once(message: Any, *section: str) -> None:
        if section not in made:
            populate(settings := type(message)(), *section)
            made[section] = settings
        if made[section].ByteSize():  # a section without settings stays unset
            message.MergeFrom(made[section])

    return once


def _copied(place: cursor.Cursor, memo: dict[int, Any]) -> cursor.Cursor:
    """A place on the page, copied at once. Streamlit copies those around each fragment, by looking at each of their
    attributes.
    """
    copied, shown = object.__new__(type(place)), place._transient_elements
    copied.__dict__ = {**place.__dict__, "_transient_elements": copy.deepcopy(shown, memo) if shown else type(shown)()}
    return copied


def _begun(create: Callable[..., ForwardMsg]) -> Callable[..., ForwardMsg]:
    """Streamlit's function that makes the message with which a run begins: all pages, all settings, the theme. It is
    always the same, but for the names of session, page and run.
    """
    made: dict[tuple[Any, ...], ForwardMsg] = {}

    def once(session: AppSession, page: str, run: Any, pages: dict[str, Any] | None = None) -> ForwardMsg:
        all_of_them = pages or session._pages_manager.get_pages()
        key = session._state, *all_of_them
        if key not in made:
            made[key] = create(session, page, run, all_of_them)
        message = ForwardMsg()
        message.CopyFrom(made[key])
        message.new_session.page_script_hash = page
        message.new_session.initialize.session_id = session.id
        message.metadata.run.Clear()
        app_session._set_run_identity(message, run)
        return message

    return once


def _no_advice(_: AppSession) -> tuple[bool, str]:
    """Streamlit may advise a developer to install help for an AI agent. A reader is not asked."""
    return False, ""


def _parsed_once(parse: Callable[[str], dict[str, list[str]]]) -> Callable[[str], dict[str, list[str]]]:
    """Streamlit's function that reads an address, twice for each rerun."""
    known = functools.lru_cache(TEXTS)(parse)
    return lambda text: {name: [*values] for name, values in known(text).items()}


class _Values(dict[str, Any]):
    """A component's values: `values["pressed"]`, or `values.pressed`."""

    __getattr__ = dict.get


def _presenter(events: str, *_: object) -> Callable[[object, SessionState], object]:
    """What a script sees as the value of a component: its values, and what happened to it since the last run. Streamlit
    makes a class for each reading, so that a script may also change the values; no script here does.
    """

    def present(values: object, state: SessionState) -> object:
        known = state._new_widget_state.widget_metadata.get(events)
        if not isinstance(values, dict) or known is None or known.value_type != "json_trigger_value":
            return values
        try:
            happened = state._new_widget_state[events] or []
        except KeyError:
            happened = []
        each = happened if isinstance(happened, list) else [happened]
        named = (one for one in each if isinstance(one, dict) and isinstance(one.get("event"), str))
        return _Values({one["event"]: one.get("value") for one in named} | values)

    return present


class _OnDemand:
    """Threads for parts of a page that run side by side, made for the first of them. No page here has any, and
    Streamlit makes them for each run.
    """

    def __init__(self, max_workers: int | None = None) -> None:
        self._most = max_workers

    @functools.cached_property
    def _threads(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(self._most)

    def submit(self, call: Callable[..., Any], *values: Any) -> Future[Any]:
        """As of a `ThreadPoolExecutor`."""
        return self._threads.submit(call, *values)

    def shutdown(self, **how: bool) -> None:
        """As of a `ThreadPoolExecutor`."""
        if "_threads" in self.__dict__:
            self._threads.shutdown(**how)


def _forgotten(run: Callable[[ScriptRunner], None]) -> Callable[[ScriptRunner], None]:
    """Streamlit's function that a run's thread executes, which now lets the run go as it ends. A run, its thread and
    its session's state would keep each other until Python looks for cycles, and a class's runs fill memory until then.
    """

    def once(runner: ScriptRunner) -> None:
        try:
            run(runner)
        finally:
            object.__setattr__(runner._session_state, "_yield_callback", _do_nothing)  # its own would set a value
            with suppress(AttributeError):
                delattr(threading.current_thread(), SCRIPT_RUN_CONTEXT_ATTR_NAME)

    return once


def _do_nothing(*_: Any) -> None:
    return
