"""The player: a Streamlit component that steps through recorded runs in the browser, line by line.

Python sends the whole traces once; the browser draws every step, and Python never hears of one. A packet of bytes:

    u32, the header's length, little-endian · the header, UTF-8 JSON · the trace files, one after the other

    {"id": …, "place": …, "step": first step, "depth": "idea" | "code" | null, "query": …, "height": …,
     "watch": "loads of k" (optional),
     "tour": that of `explain.tours.resolved` (optional), "caption": its caption to begin at, from 1 (optional),
     "otherwise": the step to begin at where the reader has left the tour before (optional),
     "link": {"row": "15", "panels": "map,rows", …} (optional),
     "glossary": {name: its meaning}, "terms": {word: its definition},
     "runs": [{"view": …, "offset": …, "bytes": …, "error": … | null,
               "sources": [{"first_line": 41, "lines": [[token, …], …], "equations": {"57": {variable, plain, numbers}},
                            "alive": {"57": [name, …]}}]}]}

`offset` counts from the end of the header. Steps count from 0, here, in the address and on screen. `place` names a
start: the browser remembers the step reached from it and goes on there when the reader returns; a new place is shown
at once. Without a step, the player goes to the tile and line that it showed last, if it showed the same kernels.
`link` is what else the address holds of what is seen. Without a depth in link, caption or packet, an address with a
step opens Code, any other the depth that the reader chose last. A token is a text, or [class, text] with class
k(eyword), s(tring), n(umber), c(omment), f(unction's name) or v(ariable). Equations are those of
`explain.source.equations`; `alive` has the variables that a later line still reads (`explain.source.liveness`);
`glossary` explains the variables of the catalog's kernels, `terms` the words around the pictures.
`explain.player.export` makes a page without a server from the same packet and files.
"""

from __future__ import annotations

import ast
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

from explain import plain, scripts
from explain.figures.labels import begun
from explain.glossary import TERMS, words_in
from explain.kept import kept
from explain.player import files
from explain.source.equations import equations
from explain.source.liveness import alive
from explain.trace.file import TraceFile, TraceFileError
from explain.ui import address

SEEN = ("row", "panels", "depth", "watch")
"""What the address holds of what is seen, besides the step and the caption."""

_SEQUENCE = (list, tuple)
_VIEW: plain.Kinds = {
    "title": (str,),
    "badge": (str,),
    "kernel": (str,),
    "wrong": (bool,),
    "unlike": (bool,),
    "roles": (Mapping,),
    "also": (Mapping,),
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
        `kernel`, its name in the catalog; `wrong`, whether it is a broken copy of one; `unlike`, whether its inputs
        differ from those of the run beside it, so a first difference would say nothing; `roles`, the variables that are
        its scores, exponentials, output,
        running_max, new_max, running_sum, new_sum, rescale, accumulator, rows and cols; `also`, names that one launch
        has for what another calls otherwise; `beats`, the fields of each `explain.beats.Beat`, in order; `score_shape`,
        the rows and columns of the map that has rows and cols as coordinates; `axes`, the names of these ("queries",
        "keys"); `row_labels` and `col_labels`, its tokens; `pick_program`, what one program owns ("query tile");
        `program_names`, by program as "x,y,z"; `invariant`, whether m and ℓ are checked at every step against the
        elements seen; `chip`, the GPU to compare the tiles with: its name, the shared_bytes of a program and the
        register_bytes of an SM.
    """

    trace: TraceFile
    view: Mapping[str, Any]


@dataclass(frozen=True)
class Toured:
    """A tour as the player takes it, as JSON, and a name for its content."""

    json: str
    id: str

    @classmethod
    def of(cls, resolved: Mapping[str, Any]) -> Toured:
        """A tour with its events found (`explain.tours.resolved`)."""
        text = _compact(dict(resolved))
        return cls(text, hashlib.sha256(text.encode()).hexdigest())


def player(
    runs: Sequence[Run],
    *,
    key: str,
    step: int | None = None,
    request: int = 0,
    reveal: int = 0,
    height: int | None = None,
    query: str | None = "step",
    worked: bool = False,
    watch: str | None = None,
    tour: Toured | None = None,
) -> None:
    """Show one run, or two side by side and stepped together.

    The player starts at `step`, counted from 0, and goes there again when `step` or `request` (a count) changes.
    Without `step` it starts at the address's step; `query` names that parameter, None for none. Without either it
    starts at step 0 or, `worked`, at a step that shows something: the first rescale of one run, the first
    difference of two; after a change of the runs' parameters, at the tile and line shown before. After Back or
    Forward the address comes first. `watch` is marked on the timeline: a variable ("m_i") or a buffer's accesses
    ("loads of k"). `height` is in CSS pixels; by default it follows the window. A `tour` begins with the player, but
    for a link to a step and for a `request`. When `reveal`, a count, grows, the player comes into sight.

    Raises:
        ValueError: no run or more than two, or a view with a missing, unknown or invalid part.
    """
    body = body_of(runs)
    link, count = _start(key, (body.id, step, request, tour.id if tour else ""), query)
    more: dict[str, Any] = {"watch": watch} if watch else {}
    more |= {"reveal": reveal} if reveal else {}
    caption = None
    if tour:
        begins = "step" not in link and not request
        caption = _number(link, "caption") or (1 if begins else None)
        more |= {"caption": caption}
        more |= {"otherwise": step} if begins and step is not None else {}
    first = _number(link, "step")
    if first is None and caption is None:  # a caption has its own step
        first = step if step is not None or worked else 0
    if seen := {name: value for name, value in link.items() if name in SEEN}:
        more["link"] = seen
    place = f"{key} {count}"
    _COMPONENT(key=key, data=body.packet(tour, place=place, step=first, depth=None, query=query, height=height, **more))


def body_of(runs: Sequence[Run]) -> Body:
    """The runs as the player and its export show them, checked. Raises ValueError."""
    if not 1 <= len(runs) <= 2:
        raise ValueError(f"runs: the player shows one run or two, not {len(runs)}")
    return _body(tuple(run.trace for run in runs), tuple(_checked(run) for run in runs))


@dataclass(frozen=True)
class _View:
    """A run's view as JSON, the words of its title and badge, and whether its kernel is in the catalog."""

    json: str
    words: tuple[str, ...]
    known: bool


@kept
def _checked(run: Run) -> _View:
    """The run's view as the player takes it. Raises ValueError."""
    view = run.view
    _check(view)
    return _View(_compact(dict(view)), (view["title"], view["badge"]), "kernel" in view)


_COMPONENT = st.components.v2.component("tilescope_player", js=scripts.loader(files.address()))


@dataclass(frozen=True)
class Body:
    """The part of a packet that does not change while the same runs are shown."""

    id: str
    head: str
    traces: bytes

    def packet(self, tour: Toured | None = None, **head: Any) -> bytes:
        # Written as the browser's JSON.stringify writes it, so that a page exported there is the one exported here.
        toured = f',"tour":{tour.json}' if tour else ""
        text = f"{_compact({'id': self.id, **head})[:-1]}{toured},{self.head[1:]}".encode()
        return struct.pack("<I", len(text)) + text + self.traces


@lru_cache(maxsize=256)
def _body(traces: tuple[TraceFile, ...], views: tuple[_View, ...]) -> Body:
    described, runs, offset = list(map(_described, traces)), [], 0
    for trace, view, own in zip(traces, views, described, strict=True):
        rest = _compact({"offset": offset, "bytes": len(trace.data), **own})
        runs.append(f'{{"view":{view.json},{rest[1:]}')  # a long run's view is long: it is written once
        offset += len(trace.data)
    sources = [source for own, view in zip(described, views, strict=True) if view.known for source in own["sources"]]
    words = {"glossary": _glossary(sources), "terms": _terms(views)}
    head, data = f'{_compact(words)[:-1]},"runs":[{",".join(runs)}]}}', b"".join(trace.data for trace in traces)
    return Body(hashlib.sha256(head.encode() + data).hexdigest()[:16], head, data)


def _glossary(sources: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """What the names in the catalog's kernels mean; in another kernel the same name may mean anything."""
    names = {token[1] for source in sources for line in source["lines"] for token in line if token[0] == "v"}
    found = {name: term for term in TERMS for name in term.code if name in names}
    return {name: f"{begun(term.name)}. {term.plain}" for name, term in found.items()}


def _terms(views: Sequence[_View]) -> dict[str, str]:
    """The definitions of the glossary's words in the runs' titles and sources, and on the picture of a beat."""
    return words_in(" · ".join(["HBM, on chip", *(words for view in views for words in view.words)]))


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
    """Python source as lines of tokens: a text, or (class, text). A keyword of a call is text: it is not a variable."""
    line: list[str | tuple[str, str]] = []
    keywords, at, column = _keywords(text), 1, 0
    for kind, token in PythonLexer(stripnl=False, ensurenl=False).get_tokens(text.rstrip()):
        name = next((name for parent, name in _TOKEN_CLASSES if kind in parent), "")
        for i, part in enumerate(token.split("\n")):
            if i:
                yield line
                line, at, column = [], at + 1, 0
            if part:
                line.append((name, part) if name and (at, column) not in keywords else part)
                column += len(part.encode())
    yield line


def _keywords(text: str) -> set[tuple[int, int]]:
    """The line, from 1, and the column, in bytes, of each keyword of a call."""
    try:
        nodes = ast.walk(ast.parse(text))
    except SyntaxError:
        return set()
    return {(node.lineno, node.col_offset) for node in nodes if isinstance(node, ast.keyword)}


def _start(key: str, wanted: tuple[str, int | None, int, str], query: str | None) -> tuple[dict[str, str], int]:
    """The part of the address that counts for this start, and the start's number in the session; both are kept until
    something else is wanted.
    """
    kept: tuple[tuple[str, int | None, int, str], dict[str, str], int] | None = st.session_state.get(f"{key}:start")
    link = _linked(query) if address.returned() else {}
    if kept and kept[0] == wanted and not link:
        return kept[1:]
    if not link and wanted[1] is None and query is not None and f"?{query}" not in st.session_state:
        link = _linked(query)  # once: it is of the link that was opened, not of runs chosen later
        st.session_state[f"?{query}"] = True
    count = kept[2] + 1 if kept else 1
    st.session_state[f"{key}:start"] = (wanted, link, count)
    return link, count


def _linked(query: str | None) -> dict[str, str]:
    """What the address says about the player, if it names a step or a caption."""
    if query is None:
        return {}
    texts = {"step": st.query_params.get(query, ""), "caption": st.query_params.get("caption", "")}
    numbered = {name: text for name, text in texts.items() if text.isascii() and text.isdecimal() and len(text) < 10}
    seen = {name: text for name in SEEN if (text := st.query_params.get(name))}
    return {**seen, **numbered} if numbered else {}


def _number(link: Mapping[str, str], name: str) -> int | None:
    return int(link[name]) if name in link else None


def _check(view: Mapping[str, Any]) -> None:
    if wrong := plain.faults(view, _VIEW, ("title", "badge")):
        raise ValueError(f"view: {'; '.join(wrong.values())}")
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
