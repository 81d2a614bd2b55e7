"""Tours: captions that lead through a recorded run. docs/tours.md describes the file.

A chapter's tours are the files in its room's folder `tours`. A player shows the tour of its runs. A caption names its
step by what happens there ("first rescale of row 15"), so a tour stays right when a kernel's lines move. Imports no
streamlit.
"""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from explain import given as own_files
from explain import plain
from explain.beats import check_event, step_of
from explain.experiment import Experiment, ParameterError
from explain.figures.labels import unbroken
from explain.figures.numbers import number
from explain.glossary import words_in
from explain.plain import Kinds, short
from explain.trace.model import Affine, Tile, Trace, numbers

ROOMS = Path(__file__).parent / "chapters"
DEPTHS = ("idea", "code")
SIDES = ("left", "right")
PANELS = (
    "source", "equation", "invariant", "map", "zoom", "strip", "rows", "kept", "pairs", "output", "variables", "hbm",
    "sram", "counters",
)  # fmt: skip
"""The player's panels, by the names that presenter.js gives them."""
MOST_WORDS = 25
MOST_CAPTIONS = 20
MOST_MINUTES = 60
MOST_FAULTS = 20
"""Faults of one file that are told one by one."""

DIGITS = 4
"""Of a number in a caption, as in the player's texts."""

_NUMBER = re.compile(r"\{(?:(sum|min|max) )?(\w+)( before)?\}")
_TOUR: Kinds = {"title": str, "chapter": str, "run": list, "caption": list}
_CAPTION: Kinds = {
    "at": str, "text": str, "say": str, "answer": str, "minutes": (int, float), "depth": str, "panels": list,
    "row": int, "column": int, "watch": str, "side": str,
}  # fmt: skip


class TourError(ValueError):
    """A tour file cannot be used: each of its faults names the caption and what is allowed; the message has them all,
    a line each, with the file.
    """

    def __init__(self, file: str, *faults: str) -> None:
        super().__init__(file, *faults)
        self.file = file
        self.faults = faults

    def __str__(self) -> str:
        return "\n".join(f"{self.file}: {fault}" for fault in self.faults)


class _FaultError(ValueError):
    """A fault of a tour file; the message is one of TourError's faults."""


class _Faults:
    """The faults of a file that are found so far, so that its author reads all of them at once."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.found: list[str] = []

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Keeps the fault that ends its block."""
        try:
            yield
        except _FaultError as fault:
            self.found.append(str(fault))

    def refuse(self) -> None:
        """Raises TourError if a fault was found."""
        if self.found:
            more = len(self.found) - MOST_FAULTS
            raise TourError(self.file, *self.found[:MOST_FAULTS], *[f"{more} more"] * (more > 0))


@dataclass(frozen=True)
class Caption:
    """One caption: the event that it stands at, how the player looks there, its words, and the lecturer's."""

    at: str
    text: str
    say: str
    minutes: float
    depth: str = "code"
    panels: tuple[str, ...] = ()
    """The panels to show; all if empty."""
    row: int | None = None
    """The followed row of the matrix."""
    column: int | None = None
    """The followed column of the matrix."""
    watch: str = ""
    answer: str = ""
    """To the question that `say` asks."""
    side: str = "left"
    """Which of two runs the event is in."""


@dataclass(frozen=True)
class Tour:
    """A tour through one run, or through two side by side."""

    file: str
    title: str
    chapter: str
    runs: tuple[Experiment, ...]
    captions: tuple[Caption, ...]

    @property
    def minutes(self) -> float:
        """How long a lecture spends on it."""
        return sum(caption.minutes for caption in self.captions)


def read(path: Path) -> Tour:
    """The tour in a file. Raises TourError."""
    try:
        return parse(path.read_text(encoding="utf-8"), path.name)
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not UTF-8"
        raise TourError(str(path), f"cannot be read: {why}") from None


@functools.cache
def files() -> Mapping[str, Path]:
    """Every chapter's tour files by name, such as "softmax/1_naive_and_safe"; a chapter opens on its first."""
    return {f"{path.parts[-3]}/{path.stem}": path for path in sorted(ROOMS.glob("*/tours/*.toml"))}


@functools.cache
def shipped() -> tuple[Tour, ...]:
    """Every chapter's own tours, in the order of their names."""
    return tuple(map(read, files().values()))


def of(chapter: str) -> tuple[Tour, ...]:
    """A chapter's own tours, in order; none if its room has none."""
    return tuple(tour for tour in shipped() if tour.chapter == chapter)


def through(experiments: Sequence[Experiment], chapter: str) -> Tour | None:
    """The tour through these runs: the chapter's own, else another chapter's; None without one."""
    found = _by_runs().get(tuple(experiments), ())
    return min(found, key=lambda tour: tour.chapter != chapter, default=None)


@functools.cache
def _by_runs() -> Mapping[tuple[Experiment, ...], list[Tour]]:
    """The shipped tours through the same runs."""
    found: dict[tuple[Experiment, ...], list[Tour]] = {}
    for tour in shipped():
        found.setdefault(tour.runs, []).append(tour)
    return found


def named(target: str) -> Tour:
    """The tour with a name of `files`, the first of a chapter, or that of a file. Raises TourError."""
    for tour, (name, path) in zip(shipped(), files().items(), strict=True):
        if target in (name, path.parts[-3]):
            return tour
    return read(Path(target))


def given() -> Tour | None:
    """The tour that the app was started with, `streamlit run app.py -- --tour FILE`; None without one.

    Raises TourError.
    """
    try:
        files = own_files.files("tour")
    except ValueError as error:
        raise TourError(*str(error).split(": ", 1)) from None
    return read(files[-1]) if files else None


def parse(text: str, file: str) -> Tour:
    """The tour in the text of a file. Raises TourError with every fault that needs no run to be found."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise TourError(file, f"is not TOML: {error}") from None
    faults = _Faults(file)
    wrong = plain.faults(data, _TOUR, ("title", "chapter", "run", "caption"))
    faults.found += wrong.values()
    runs, captions = ([] if name in wrong else data[name] for name in ("run", "caption"))
    if "run" not in wrong and not 1 <= len(runs) <= 2:
        faults.found.append(f"has {len(runs)} runs; the player shows one, or two side by side")
    if "caption" not in wrong and not 1 <= len(captions) <= MOST_CAPTIONS:
        faults.found.append(f"has {len(captions)} captions; from 1 to {MOST_CAPTIONS} are allowed")
    experiments, made = [], []
    for i, run in enumerate(runs, 1):
        with faults.noted():
            experiments.append(_run(run, f"run {i}"))
    sides = SIDES[: len(runs)] or SIDES
    for i, one in enumerate(captions[:MOST_CAPTIONS], 1):
        where = f"caption {i}"
        if not isinstance(one, dict):
            faults.found.append(f"{where}: must be a table with at, text, say and minutes")
        elif found := _faults_of(one, sides):
            faults.found += (f"{where}: {fault}" for fault in found)
        else:
            made.append(_caption(one))
    faults.refuse()
    return Tour(file, data["title"], data["chapter"], tuple(experiments), tuple(made))


def _run(given: object, where: str) -> Experiment:
    if not isinstance(given, dict) or "kernel" not in given:
        raise _FaultError(f"{where}: must be a table with kernel, and its parameters, inputs and seed")
    values = {name: value for name, value in given.items() if name not in ("kernel", "inputs", "seed")}
    try:
        return Experiment.of(given["kernel"], values, given.get("inputs"), given.get("seed", 0))
    except ParameterError as error:
        raise _FaultError(f"{where}: {error}") from None


def _faults_of(given: Mapping[str, Any], sides: Sequence[str]) -> list[str]:
    """What is wrong with a caption's table."""
    wrong = plain.faults(given, _CAPTION, ("at", "text", "say", "minutes"))
    found, right = list(wrong.values()), {name: value for name, value in given.items() if name not in wrong}
    if "at" in right:
        try:
            check_event(_spaced(right["at"]))
        except ValueError as error:
            found.append(f"at: {error}")
    for name, allowed in (("depth", DEPTHS), ("side", sides), ("panels", PANELS)):
        value = right.get(name, [])
        for one in value if isinstance(value, list) else [value]:
            if one not in allowed:
                found.append(f"{name}={short(repr(one))}: must be one of {', '.join(allowed)}")
    if "text" in right and (words := len(right["text"].split())) not in range(1, MOST_WORDS + 1):
        found.append(f"text has {words} words; from 1 to {MOST_WORDS} are allowed")
    if "minutes" in right and not 0 <= right["minutes"] <= MOST_MINUTES:
        found.append(f"minutes={right['minutes']}: must be from 0 to {MOST_MINUTES}")
    return found


def _caption(given: Mapping[str, Any]) -> Caption:
    """The caption of a table without faults."""
    values: dict[str, Any] = {
        name: _spaced(value) if isinstance(value, str) else value for name, value in given.items()
    }
    return Caption(**{**values, "panels": tuple(values.get("panels", ()))})


def _spaced(text: str) -> str:
    """The text with one space between words."""
    return " ".join(text.split())


def resolved(tour: Tour, traces: Sequence[Trace]) -> dict[str, Any]:
    """The tour as the player takes it, as JSON: {chapter, title, captions: [{run, step, row, column, …}]}.

    `step` counts in its own run; `row` and `column` are places in that step's tile; `terms` has the definitions of the
    text's terms.

    Raises TourError with each event, row, column, number and variable that its run does not have.
    """
    faults = _Faults(tour.file)
    captions = [_resolved(tour, traces, caption, f"caption {i}", faults) for i, caption in enumerate(tour.captions, 1)]
    faults.refuse()
    return {"chapter": tour.chapter, "title": tour.title, "captions": captions}


def _resolved(tour: Tour, traces: Sequence[Trace], caption: Caption, where: str, faults: _Faults) -> dict[str, Any]:
    """A caption as the player takes it; without the fields that have a fault."""
    run = SIDES.index(caption.side)
    found: dict[str, Any] = {
        "run": run,
        "depth": caption.depth,
        "panels": list(caption.panels),
        "say": caption.say,
        "answer": caption.answer,
        "minutes": caption.minutes,
    }
    with faults.noted():
        found["watch"] = _watched(traces, caption, where)
    with faults.noted():
        step = found["step"] = _step(tour, traces, caption, where)
        for axis in ("row", "column"):
            with faults.noted():
                found[axis] = _place(tour, traces, caption, step, axis, where)
        text = found["text"] = _filled(caption.text, traces[run], step, found.get("row") or 0, where)
        found["terms"] = words_in(text)
    return found


def _step(tour: Tour, traces: Sequence[Trace], caption: Caption, where: str) -> int:
    run = SIDES.index(caption.side)
    try:
        other = traces[1 - run] if len(traces) == 2 else None
        return step_of(traces[run], tour.runs[run].entry.roles, caption.at, other)
    except ValueError as error:
        raise _FaultError(f"{where}: at: {error}") from None


def _place(
    tour: Tour, traces: Sequence[Trace], caption: Caption, step: int, axis: Literal["row", "column"], where: str
) -> int | None:
    """The place of the followed row or column in the tile of a step."""
    wanted = caption.row if axis == "row" else caption.column
    if wanted is None:
        return None
    run = SIDES.index(caption.side)
    experiment, state = tour.runs[run], traces[run].state(step)
    size = experiment.entry.score_shape(experiment.values)[axis == "column"]
    if not 0 <= wanted < size:
        raise _FaultError(f"{where}: {axis}={wanted}: must be from 0 to {size - 1}")
    held = state.get(experiment.entry.roles.get("rows" if axis == "row" else "cols", ""))
    tile = numbers(held).reshape(-1).tolist() if held is not None else [wanted]
    if wanted not in tile:
        raise _FaultError(f"{where}: {axis}={wanted}: this step's tile has {axis}s {tile[0]} to {tile[-1]}")
    return int(tile.index(wanted))


def _filled(text: str, trace: Trace, step: int, row: int, where: str) -> str:
    """The text with its numbers, such as {l_i}, {l_i before}, {sum p}, {min o} and {max s}: the followed row's at this
    step. Its equations do not break.
    """

    def number_of(place: re.Match[str]) -> str:
        how, name, before = place.groups()
        value = trace.state(step - bool(before)).get(name)
        if not isinstance(value, Tile | Affine):
            raise _FaultError(f"{where}: text: {place[0]}: no variable of numbers has this name at this step")
        held = value.numpy().astype(np.float64)
        line = held[row] if held.ndim == 2 else held.reshape(-1)
        if how:
            return number(float(getattr(line, how)()), DIGITS)
        if held.ndim > 1 and line.size > 1:
            raise _FaultError(
                f"{where}: text: {place[0]}: is a tile; write {{sum {name}}}, {{min {name}}} or {{max {name}}}"
            )
        return number(float(line[row] if line.size > 1 else line[0]), DIGITS)

    return unbroken(_NUMBER.sub(number_of, text))


def _watched(traces: Sequence[Trace], caption: Caption, where: str) -> str:
    known = {name for trace in traces for _, name in trace.names}
    moved = {
        f"{way} of {buffer.removesuffix('_ptr')}"
        for trace in traces
        for launch in trace.launches
        for way, counts in (("loads", launch.read_bytes), ("stores", launch.written_bytes))
        for buffer, count in counts.items()
        if count
    }
    if caption.watch and caption.watch not in known | moved:
        raise _FaultError(
            f"{where}: watch={caption.watch!r}: must be a variable of the kernel, such as "
            f"{', '.join(sorted(known)[:5])}, or one of {', '.join(sorted(moved))}"
        )
    return caption.watch
