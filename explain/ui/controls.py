"""Controls bound to the page's address that choose an Experiment."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from explain import data
from explain.experiment import Experiment, ParameterError
from explain.figures.labels import begun
from explain.ui import rerun
from explain.ui.address import here, query, returned
from explain.ui.repeat import repeated
from kernels.catalog import KERNELS, TAUGHT
from kernels.inputs import PRESETS
from kernels.parameters import Parameter
from kernels.recipes import preset_of
from kernels.traffic import tiles

T = TypeVar("T")
Moved = Callable[[], None] | None
"""What a control does when it was moved, before the page runs again."""
_DATA = data(__file__)
LABELS: Mapping[str, str] = _DATA["labels"]
ROW_LABELS: Mapping[str, str] = {**LABELS, **_DATA["row_labels"]}
_LABELS = {"attention": LABELS, "loss": {**LABELS, **_DATA["loss_labels"]}}
PRESET_TITLES: Mapping[str, str] = _DATA["presets"]
LARGEST_ON_SCREEN: Mapping[str, int] = _DATA["largest"]
"""The largest sizes that are readable in the player."""
_OF_SHARED_KEYS: Mapping[str, int] = {**LARGEST_ON_SCREEN, **_DATA["largest_of_shared_keys"]}
MOST_VISITS = 256
"""Tiles of scores of one run: more nobody steps through, and a class would wait while they are recorded."""

_BITING = tuple(preset.name for preset in PRESETS.values() if not preset.sentence and preset.name != "notebook")
ROW_PRESETS = ("notebook", "sentence_short", *_BITING)
ATTENTION_PRESETS = ("sentence", "sentence_short", "sentence_ragged", *_BITING)


def controls(
    default: Experiment,
    names: Sequence[str],
    presets: Sequence[str],
    *,
    prefix: str = "",
    a_row: int | None = None,
    folded: Sequence[str] = (),
    followed: bool = False,
) -> Experiment:
    """Draws a control for each name, bound to the page's address, and returns the chosen experiment.

    `prefix` goes before the names in the address, for pages with several experiments. `a_row` is the number of controls
    per row, by default all. The `folded` ones open from a button at the end of the row. A value that cannot be used
    (from the address, or in this combination) stays in its control, with the error below it; the last valid experiment
    is returned. Where the page shows it in `rerun.following` parts only, it is `followed`: a control that changes no
    other control then runs these parts alone.
    """
    address = _Address(default, prefix)
    state, labels = address.state, labels_of(default.kernel)
    keys = {name: address.key(name) for name in (*names, *folded)}
    current, error = _current(address, keys)
    parameters = {parameter.name: parameter for parameter in default.entry.parameters}
    widths = [5 if name == "inputs" else 2.5 if parameters[name].kind == "flag" else 4 for name in names]
    row = a_row or [*widths, *[2.5] * bool(folded)]
    behind = f"folded {state}" if folded else ""
    moved = functools.partial(_moved, address, keys, presets) if followed else None
    columns = [column for _ in range(0, len(names), a_row or len(names)) for column in _row(row, behind)]
    places = dict(zip(names, columns, strict=False)) | dict.fromkeys(folded, columns[-1])
    for name, place in places.items():
        with place:
            if name == "inputs":
                _preset(current, presets, keys[name], moved)
            else:
                label = labels.get(name, name.replace("_", " ").capitalize())
                _control(parameters[name], label, keys[name], _largest(default), moved)
    if error is not None:
        words = in_words(error, labels, _largest(default))
        below = places.get(error.parameter)
        if below is not None and error.parameter in folded:  # it may be open, over the words below its button
            below.markdown(f":red[{words}]")
            below = columns[len(names)]
        refuse(words, state, below)
    return current


@repeated
def _row(widths: int | Sequence[float], folded: str) -> tuple[DeltaGenerator, ...]:
    """Places for controls in one row. With a key, the last of them has a button that opens one more place."""
    columns = st.columns(widths)
    if not folded:
        return tuple(columns)
    with columns[-1], st.container(key=folded):
        return (*columns, st.popover("More", width="stretch"))


def _current(address: _Address, keys: Mapping[str, str]) -> tuple[Experiment, ParameterError | None]:
    """The experiment to show, and why what its controls say cannot be used; the controls then say the experiment.

    A control's value is known before the control is drawn, so a page that shows it runs once.
    """
    current, error = address.current()
    memory, shown = address.memory, f"{address.state}: shown"
    chosen = {name: st.session_state.get(key, ...) for name, key in keys.items()}
    known = ... not in chosen.values()
    if known and memory.get(shown) == current and not chosen.items() <= _choices(current).items():
        try:
            current, error = _fits_screen(_changed(current, chosen)), None
            address.choose(current)
        except ParameterError as refused:
            memory[address.state], error = (current, None), refused
    if not known or memory.get(shown) != current:
        choices = _choices(current)
        st.session_state.update({key: choices[name] for name, key in keys.items()})
        memory[shown] = current
    return current, error


def _moved(address: _Address, keys: Mapping[str, str], presets: Sequence[str]) -> None:
    """A control was moved: if it changes no other control, the `following` parts run alone."""
    before, refused = address.memory[address.state]
    chosen = {name: st.session_state[key] for name, key in keys.items()}
    try:
        after = _fits_screen(_changed(before, chosen))
    except ParameterError:
        return
    if refused is None and before.inputs in presets and chosen.items() <= _choices(after).items():
        address.choose(after)
        address.memory[f"{address.state}: shown"] = after
        rerun.follow()


def chosen(default: Experiment, prefix: str = "") -> Experiment:
    """The experiment of the `controls` with this default and prefix, once they are drawn."""
    address = _Address(default, prefix)
    experiment: Experiment = address.memory[address.state][0]
    return experiment


def labels_of(kernel: str) -> Mapping[str, str]:
    """What the controls of a kernel's parameters are called."""
    return _LABELS.get(KERNELS[kernel].family, ROW_LABELS)


def in_words(
    error: ParameterError, labels: Mapping[str, str] = LABELS, largest: Mapping[str, int] = LARGEST_ON_SCREEN
) -> str:
    """The error in the words of the controls: "Queries, N: 100. The text of *paragraph, 64 tokens* has 64; …"."""

    def named(found: re.Match[str]) -> str:
        name, value = found.groups()
        if name == "inputs":
            return f"*{_title(value)}*"
        return f"{labels[name]} {value}" if name in labels else found[0]

    told = re.sub(r"\b(\w+)=(\w+)", named, error.allowed)
    if most := largest.get(error.parameter):
        told = re.sub(r"(whole number from \d+ to) .*", rf"\1 {most}", told)
    label = labels.get(error.parameter, error.parameter)
    return f"**{label}: {error.value}.** {begun(told)}."


def refuse(words: str, key: str, place: DeltaGenerator | None = None) -> None:
    """Shows below a control why its value cannot be used. It lies over the page, so nothing below it moves."""
    with (place or st).container(key=f"refused {key}"):
        st.markdown(f":red[{words}]")


def kernel(label: str, default: str, name: str, among: Iterable[str] = TAUGHT) -> str:
    """A choice among kernels, by default all, kept in the address under `name`. An unknown one is reported."""
    titles = {kernel: TAUGHT[kernel].title for kernel in among}
    return option(label, titles, name, default)


def option(label: str, options: Mapping[str, str], name: str, default: str, *, labelled: bool = True) -> str:
    """A choice among `options` (value -> words), kept in the address under `name`. An unknown one is reported. Unless
    `labelled`, only screen readers get the label.
    """
    asked = st.query_params.get(name, default)
    st.session_state[name] = asked if asked in options else default

    def chosen() -> None:
        st.query_params[name] = st.session_state[name]

    st.selectbox(
        label, list(options), key=name, format_func=options.__getitem__, on_change=chosen,
        label_visibility="visible" if labelled else "collapsed",
    )  # fmt: skip
    if asked not in options:
        refuse(in_words(ParameterError(name, asked, f"must be one of {', '.join(options)}"), {name: label}), name)
    return str(st.session_state[name])


def _choices(experiment: Experiment) -> dict[str, object]:
    return {**experiment.values, "inputs": experiment.inputs}


def _changed(current: Experiment, chosen: Mapping[str, object]) -> Experiment:
    """The experiment of the controls; a preset with sizes of its own brings them. Raises ParameterError."""
    parameters = {name: value for name, value in chosen.items() if name != "inputs"}
    inputs = str(chosen.get("inputs", current.inputs))
    if inputs != current.inputs and preset_of(inputs).defaults:
        parameters = {name: parameters.get(name, value) for name, value in current.values.items() if name not in _SIZES}
        return Experiment.of(current.kernel, parameters, inputs, current.seed)
    return Experiment.of(current.kernel, {**current.values, **parameters}, inputs, current.seed)


_SIZES = ("cols", "n", "seq_len", "kv_len", "head_dim", "tokens", "vocab", "dim")


@dataclass(frozen=True)
class _Address:
    """The place of an experiment of `default`'s kernel in the page's address and in the session."""

    default: Experiment
    prefix: str = ""

    @property
    def state(self) -> str:
        return f"{self.prefix}experiment of {self.default.kernel}"

    @property
    def memory(self) -> dict[str, Any]:
        """What the session keeps of its experiments: one entry, since Streamlit reads them all for each control."""
        found: dict[str, Any] = st.session_state.setdefault("experiments", {})
        return found

    def key(self, name: str) -> str:
        """The key of the control for a value."""
        return f"{self.state}: {name} {here()}"

    def current(self) -> tuple[Experiment, ParameterError | None]:
        """The session's experiment, or the address's if that has changed (a link, Back); and the address's error."""
        found = query()
        own = {name: found[key] for name in self.default.to_query() if (key := f"{self.prefix}{name}") in found}
        given = {name: value for name, value in own.items() if (name, value) != ("kernel", self.default.kernel)}
        state, memory = self.state, self.memory
        # Streamlit forgets controls and address when the page changes.
        arrived = self.key("inputs") not in st.session_state
        if state in memory and arrived and not given and not returned():
            self.choose(memory[state][0])
        elif state not in memory or given != memory[f"{state}: address"]:
            memory[state], memory[f"{state}: address"] = self._parse(own), given
        experiment, error = memory[state]
        return experiment, error

    def choose(self, experiment: Experiment) -> None:
        """Sets this experiment in the session and in the page's address."""
        _write(self.take(experiment))

    def take(self, experiment: Experiment) -> dict[str, str]:
        """Sets this experiment in the session; returns its part of the page's address.

        That is each value that differs from `default` or is in the address already; all values for another preset,
        which has its own defaults.
        """
        own, known, there = experiment.to_query(), self.default.to_query(), query()
        preset = experiment.inputs != self.default.inputs
        kept = {
            name: value
            for name, value in own.items()
            if f"{self.prefix}{name}" in there
            or (bool(self.prefix) if name == "kernel" else preset or value != known[name])
        }
        self.memory[self.state] = experiment, None
        self.memory[f"{self.state}: address"] = {
            name: value for name, value in kept.items() if (name, value) != ("kernel", self.default.kernel)
        }
        return {f"{self.prefix}{name}": value for name, value in kept.items()}

    def _parse(self, asked: Mapping[str, str]) -> tuple[Experiment, ParameterError | None]:
        default = self.default
        another = asked.get("kernel", default.kernel) != default.kernel
        own = {} if another else {n: v for n, v in default.to_query().items() if n not in (*_SIZES, "inputs", "seed")}
        try:
            experiment = Experiment.from_query({**own, **asked}, default)
            if experiment.kernel != default.kernel:
                raise ParameterError("kernel", experiment.kernel, f"this page shows {default.kernel}")
            return _fits_screen(experiment), None
        except ParameterError as error:
            return default, error


def choose(experiments: Mapping[str, Experiment], default: Callable[[str], Experiment]) -> None:
    """Sets the `controls` of each prefix to an experiment, as a reader would; `default` is by kernel. For callbacks."""
    chosen: dict[str, str] = {}
    for prefix, experiment in experiments.items():
        chosen |= _Address(default(experiment.kernel), prefix).take(experiment)
    _write(chosen)


def _write(chosen: Mapping[str, str]) -> None:
    """Writes the page's address at once, so Back undoes it at once, without the old run's step and caption."""
    there = st.query_params.to_dict()
    if not chosen.items() <= there.items():
        old = dict.fromkeys({"step", "caption"} & there.keys(), "")
        st.query_params.update(dict(chosen) | old)


def _largest(experiment: Experiment) -> Mapping[str, int]:
    return _OF_SHARED_KEYS if experiment.entry.shares_keys else LARGEST_ON_SCREEN


def _fits_screen(experiment: Experiment) -> Experiment:
    for name, most in _largest(experiment).items():
        if (value := experiment.values.get(name, 0)) > most:
            raise ParameterError(name, value, f"this page takes at most {most}; the command line takes more")
    p = experiment.values
    rows, cols = experiment.entry.score_shape(p)
    visits = tiles(rows, p.get("block_m", 1)) * tiles(cols, p["block_n"])
    if visits > MOST_VISITS:
        words = (
            f"that makes {visits:,} tiles to step through; this page takes {MOST_VISITS} at most: choose larger ones"
        )
        raise ParameterError("block_n", p["block_n"], words)
    return experiment


def _preset(current: Experiment, presets: Sequence[str], key: str, moved: Moved) -> None:
    options = list(presets) if current.inputs in presets else [current.inputs, *presets]
    told = _told(tuple(options))
    st.selectbox(LABELS["inputs"], options, key=key, format_func=_title, help=told, on_change=moved)


@functools.lru_cache
def _told(presets: Sequence[str]) -> str:
    """What each of them is, as a list."""
    return "\n".join(f"- **{_title(name)}**: {preset_of(name).help}" for name in presets)


def _title(preset: str) -> str:
    return PRESET_TITLES.get(preset, preset.replace("_", " "))


def _control(parameter: Parameter, label: str, key: str, largest: Mapping[str, int], moved: Moved) -> None:
    most = min(parameter.maximum, largest.get(parameter.name, parameter.maximum))
    words = f"{begun(parameter.help)}."
    match parameter.kind:
        case "flag":
            st.toggle(label, key=key, help=words, on_change=moved)
        case "choice":
            st.selectbox(label, parameter.choices, key=key, help=words, on_change=moved)
        case "tile":
            sides = [side for side in (1 << bit for bit in range(17)) if parameter.minimum <= side <= most]
            st.selectbox(label, sides, key=key, help=f"{words} A power of two.", on_change=moved)
        case _:
            # No bounds: the browser would silently refuse what `controls` refuses in words.
            st.number_input(label, step=1, key=key, help=f"{words} Up to {most} on this page.", on_change=moved)


def view(*names: str) -> str:
    """Which of a page's views is shown, the first unless the reader chose another; kept in the page's address."""
    return pick("View", names, "view", wrap=True, label_visibility="collapsed")


def pick(
    label: str, options: Iterable[T], key: str, default: T | None = None, place: Any = st, **more: Any
) -> T:  # fmt: skip
    """One of the options, as buttons, by default the first; kept in the address under `key`. `more` is Streamlit's."""
    every = list(options)
    start = every[0] if default is None else default
    asked = {"default": start, "required": True, "key": key, "bind": "query-params", **more}
    chosen: T | None = place.segmented_control(label, every, **asked)
    return start if chosen is None else chosen  # an address may hold the name without a value
