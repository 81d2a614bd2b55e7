"""The player: a Streamlit component that steps through recorded runs in the browser, line by line.

Python sends the whole traces once; the browser draws every step, and Python never hears of one. A packet of bytes:

    u32, the header's length, little-endian · the header, UTF-8 JSON · the trace files, one after the other

    {"id": …, "place": …, "step": first step, "depth": "idea" | "code" | null, "query": …, "height": …,
     "watch": "loads of k" (optional),
     "glossary": {name: its meaning},
     "runs": [{"view": …, "offset": …, "bytes": …, "error": … | null,
               "sources": [{"first_line": 41, "lines": [[token, …], …], "equations": {"57": {variable, plain, numbers}},
                            "alive": {"57": [name, …]}}]}]}

`offset` counts from the end of the header. Steps count from 0, here, in the address and on screen. `place` names a
start: the browser remembers the step reached from it and goes on there when the reader returns; a new place is shown
at once. Without a step, the player goes to the tile and line that it showed last, if it showed the same kernels.
Without a depth, it takes the address's, Code for an address with a step only, or the one that the reader chose last. A
token is a text, or [class, text] with class k(eyword), s(tring), n(umber), c(omment), f(unction's name) or
v(ariable). Equations are those of `explain.source.equations`; `alive` has the variables that a later line still reads
(`explain.source.liveness`); `glossary` explains the variables of the catalog's kernels. `explain.player.export` makes
a page without a server from the same packet and files.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

import streamlit as st
from pygments.lexers.python import PythonLexer
from pygments.token import Comment, Keyword, Name, Number, Operator, String

from explain.glossary import definitions
from explain.player import files
from explain.source.equations import equations
from explain.source.liveness import alive
from explain.trace.file import TraceFile, TraceFileError
from explain.ui import address

_SEQUENCE = (list, tuple)
_VIEW: Mapping[str, tuple[type, ...]] = {
    "title": (str,),
    "badge": (str,),
    "kernel": (str,),
    "roles": (Mapping,),
    "beats": _SEQUENCE,
    "score_shape": _SEQUENCE,
    "row_labels": (*_SEQUENCE, type(None)),
    "col_labels": (*_SEQUENCE, type(None)),
    "axes": _SEQUENCE,
    "pick_program": (str,),
    "program_names": (Mapping,),
    "invariant": (bool,),
    "chip": (Mapping,),
}
_REQUIRED = ("title", "badge")

_TOKEN_CLASSES = (
    (Comment, "c"),
    (String, "s"),
    (Number, "n"),
    (Keyword, "k"),
    (Operator.Word, "k"),
    (Name.Function, "f"),
    (Name, "v"),
)


@dataclass(frozen=True)
class Run:
    """One recorded run and how to look at it.

    trace: a trace file (docs/trace-format.md).
    view: what the trace does not contain, as JSON. Required: `title`, and `badge`, the source of the run. Optional:
        `kernel`, its name in the catalog; `roles`, the variables that are its scores, exponentials, output,
        running_max, new_max, running_sum, new_sum, rescale, accumulator, rows and cols; `beats`, the fields of each
        `explain.beats.Beat`, in order; `score_shape`, the rows and columns of the map that has rows and cols as
        coordinates; `axes`, the names of these ("queries", "keys"); `row_labels` and `col_labels`, its tokens;
        `pick_program`, what one program owns ("query tile"); `program_names`, by program as "x,y,z"; `invariant`,
        whether m and ℓ are checked at every step against the elements seen; `chip`, the GPU to compare the tiles
        with: its name, the shared_bytes of a program and the register_bytes of an SM.
    """

    trace: TraceFile
    view: Mapping[str, Any]


def player(
    runs: Sequence[Run],
    *,
    key: str,
    step: int | None = None,
    request: int = 0,
    height: int | None = None,
    query: str | None = "step",
    worked: bool = False,
    watch: str | None = None,
) -> None:
    """Show one run, or two side by side and stepped together.

    The player starts at `step`, counted from 0, and goes there again when `step` or `request` (a count) changes.
    Without `step` it starts at the address's step; `query` names that parameter, None for none. Without either it
    starts at step 0 or, `worked`, at a step that shows something: the first rescale of one run, the first
    difference of two; after a change of the runs' parameters, at the tile and line shown before. After Back or
    Forward the address comes first. `watch` is marked on the timeline: a variable ("m_i") or a buffer's accesses
    ("loads of k"). `height` is in CSS pixels; by default it follows the window.

    Raises:
        ValueError: no run or more than two, or a view with a missing, unknown or invalid part.
    """
    body = body_of(runs)
    first, count = _start(key, (body.id, step, request), query, None if worked else 0)
    marks = {"watch": watch} if watch else {}
    place = f"{key} {count}"
    _COMPONENT(key=key, data=body.packet(place=place, step=first, depth=None, query=query, height=height, **marks))


def body_of(runs: Sequence[Run]) -> Body:
    """The runs as the player and its export show them, checked. Raises ValueError."""
    if not 1 <= len(runs) <= 2:
        raise ValueError(f"runs: the player shows one run or two, not {len(runs)}")
    for run in runs:
        _check(run.view)
    views = json.dumps([dict(run.view) for run in runs], allow_nan=False)
    return _body(tuple(run.trace for run in runs), views)


_COMPONENT = st.components.v2.component("tilescope_player", js=files.script())


@dataclass(frozen=True)
class Body:
    """The part of a packet that does not change while the same runs are shown."""

    id: str
    head: str
    traces: bytes

    def packet(self, **head: int | str | None) -> bytes:
        # Written as the browser's JSON.stringify writes it, so that a page exported there is the one exported here.
        text = f"{_compact({'id': self.id, **head})[:-1]},{self.head[1:]}".encode()
        return struct.pack("<I", len(text)) + text + self.traces


@lru_cache(maxsize=32)
def _body(traces: tuple[TraceFile, ...], views: str) -> Body:
    described, offset = [], 0
    for trace, view in zip(traces, json.loads(views), strict=True):
        described.append({"view": view, "offset": offset, "bytes": len(trace.data), **_described(trace)})
        offset += len(trace.data)
    head, data = (
        _compact({"glossary": _glossary(described), "runs": described}),
        b"".join(trace.data for trace in traces),
    )
    return Body(hashlib.sha256(head.encode() + data).hexdigest()[:16], head, data)


def _glossary(described: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """What the names in the catalog's kernels mean; in another kernel the same name may mean anything."""
    sources = [source for run in described if "kernel" in run["view"] for source in run["sources"]]
    names = {token[1] for source in sources for line in source["lines"] for token in line if token[0] == "v"}
    return {name: text for name, text in definitions().items() if name in names}


def _compact(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def _described(trace: TraceFile) -> dict[str, Any]:
    try:
        sources = trace.trace.sources
    except TraceFileError as error:
        return {"error": str(error), "sources": []}
    return {"error": None, "sources": [_source(source.text, source.first_line) for source in sources]}


@lru_cache(maxsize=64)
def _source(text: str, first_line: int) -> dict[str, Any]:
    """A function's source as the player shows it: worked out once, however many of its runs are shown."""
    return {
        "first_line": first_line,
        "lines": [list(line) for line in token_lines(text)],
        "equations": {line: asdict(made) for line, made in sorted(equations(text, first_line).items())},
        "alive": alive(text, first_line),
    }


def token_lines(text: str) -> Iterator[list[str | tuple[str, str]]]:
    """Python source as lines of tokens: a text, or (class, text)."""
    line: list[str | tuple[str, str]] = []
    for kind, token in PythonLexer(stripnl=False, ensurenl=False).get_tokens(text.rstrip()):
        name = next((name for parent, name in _TOKEN_CLASSES if kind in parent), "")
        for i, part in enumerate(token.split("\n")):
            if i:
                yield line
                line = []
            if part:
                line.append((name, part) if name else part)
    yield line


def _start(
    key: str, wanted: tuple[str, int | None, int], query: str | None, otherwise: int | None
) -> tuple[int | None, int]:
    """The first step and the number of this start in the session; both are kept until something else is wanted."""
    kept: tuple[tuple[str, int | None, int], int | None, int] | None = st.session_state.get(f"{key}:start")
    returned = _address_step(query) if address.returned() else None
    if kept and kept[0] == wanted and returned is None:
        return kept[1:]
    asked = wanted[1] if wanted[1] is not None else _asked(query, otherwise)
    first, count = returned if returned is not None else asked, kept[2] + 1 if kept else 1
    st.session_state[f"{key}:start"] = (wanted, first, count)
    return first, count


def _asked(query: str | None, otherwise: int | None) -> int | None:
    """The address's step. It counts once, for the link that was opened, not for runs chosen later."""
    if query is None or f"?{query}" in st.session_state:
        return otherwise
    asked = _address_step(query)
    st.session_state[f"?{query}"] = True
    return otherwise if asked is None else asked


def _address_step(query: str | None) -> int | None:
    text = "" if query is None else st.query_params.get(query, "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else None


def _check(view: Mapping[str, Any]) -> None:
    for part in _REQUIRED:
        if part not in view:
            raise ValueError(f"view: {part!r} is missing")
    for part, value in view.items():
        if part not in _VIEW:
            raise ValueError(f"view[{part!r}]: unknown; allowed are {', '.join(_VIEW)}")
        if not isinstance(value, _VIEW[part]):
            allowed = " or ".join(kind.__name__ for kind in _VIEW[part])
            raise ValueError(f"view[{part!r}]={value!r} must be {allowed}")
    shape = view.get("score_shape")
    if shape is not None and (len(shape) != 2 or not all(isinstance(side, int) and side > 0 for side in shape)):
        raise ValueError(f"view['score_shape']={shape!r} must be two positive integers")
    chip = view.get("chip")
    if chip is not None and set(chip) != {"name", "shared_bytes", "register_bytes"}:
        raise ValueError(f"view['chip']={chip!r} must have name, shared_bytes and register_bytes")
    for part, side in (("row_labels", 0), ("col_labels", 1)):
        labels = view.get(part)
        if labels is not None and shape is not None and len(labels) != shape[side]:
            raise ValueError(f"view[{part!r}] has {len(labels)} labels; score_shape {tuple(shape)} needs {shape[side]}")
