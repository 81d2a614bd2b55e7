"""The page What breaks, part by part: an exhibit's changed line, its verdicts, its first difference, and the game."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from explain import glossary
from explain.chapters.what_breaks import exercises, figures
from explain.chapters.what_breaks.divergence import Divergence, compared, divergences, running_states
from explain.chapters.what_breaks.exhibits import WORDS
from explain.engine import engine, has_triton
from explain.experiment import Experiment, ParameterError
from explain.figures.numbers import count, fixed, number
from explain.figures.tables import markdown
from explain.trace.model import Trace
from explain.ui import layout, pictures
from explain.ui.address import returned
from explain.ui.controls import in_words
from explain.ui.exercises import ask
from explain.ui.stepper import stepper
from explain.workers import WorkerError
from kernels.catalog import KERNELS
from kernels.inputs import PRESETS
from kernels.museum import EXHIBITS, Exhibit
from kernels.recipes import HIDDEN, NANS, ORDERS, Recipe

GOAL = "see how one wrong line breaks a kernel, and why random numbers seldom show it."
OWN = "your own mix"
SCALES = (0.01, 0.1, 1.0, 3.0, 10.0, 30.0, 100.0, 1000.0, 10000.0)
OFFSETS = (-1e6, -80000.0, -50000.0, -16000.0, -10000.0, -1000.0, -200.0, -50.0, 0.0, 50.0, 200.0, 1000.0, 16000.0)
LENGTHS = (1, 4, 8, 16, 24, 32, 48, 64)
TILES = (4, 8, 16, 32, 64)
SHOWN_ATTEMPTS = 6
MOST_TIMES = 1_000_000
"""An error of more times its tolerance is only said to be larger."""
SEEDS = range(10)
NO_TRITON = "Triton runs on Linux only, so this machine makes no new runs. The recorded ones use the same kernels."

_CHOSEN, _GO, _PRESSED, _WATCHED = "exhibit chosen", "steps of exhibits", "steps pressed", "inputs of exhibits"
_LINKED, _REVEALED = "exhibit that a link led to", "times that inputs were watched"


class Trial(NamedTuple):
    """One run's verdict: the element with the largest error ÷ tolerance. Its error, its tolerance and its output."""

    error: float
    tolerance: float
    within_tolerance: bool
    output: str


def choose() -> Exhibit:
    """The exhibit that the reader chose. The address holds its name as `exhibit`; an unknown name is reported."""
    names = list(EXHIBITS)
    chosen = names[0] if returned() else st.session_state.get(_CHOSEN, names[0])
    asked = st.query_params.get("exhibit", chosen)
    if (wanted := asked if asked in names else chosen) != st.session_state.get("exhibit"):
        st.session_state["exhibit"] = wanted  # a link, or a reader who comes back: Streamlit forgets a page's controls
    # Streamlit's own binding would put the number and title into the address, not the name.
    name = st.segmented_control(
        "Exhibit",
        names,
        required=True,
        format_func=lambda name: _label(names.index(name) + 1, EXHIBITS[name]),
        key="exhibit",
        on_change=lambda: st.query_params.from_dict(
            {"exhibit": st.session_state["exhibit"]}
        ),  # the step belonged to another run
        wrap=True,
        label_visibility="collapsed",
    )
    if asked not in names:
        st.markdown(f":small[:red[**exhibit={asked}: must be one of {', '.join(names)}**]]")
    st.session_state[_CHOSEN] = str(name)
    return EXHIBITS[str(name)]


def _label(place: int, exhibit: Exhibit) -> str:
    return f"{place} · {WORDS[exhibit.name].short} :small[{WORDS[exhibit.name].symptom}]"


def plaque(exhibit: Exhibit) -> DeltaGenerator:
    """The bug in a sentence, and the input of the runs in the player; the changed line. Returns the place below it for
    how the difference spreads.
    """
    pair = _watched(exhibit)
    line, html = figures.changed_line(exhibit)
    origin = (
        f"from [{exhibit.source}]({exhibit.link})"
        if exhibit.link
        else "a change to try"
        if exhibit.harmless
        else "common in first versions"
    )
    said = pair[0].preset.help.replace("− −inf", "− (−∞)").replace("−inf", "−∞").rstrip(".")
    masked = ", under a causal mask" if pair[0].values.get("causal") else ""
    layout.introduce(
        f"**{WORDS[exhibit.name].bug}**\n\nInput: {said[0].lower()}{said[1:]}{masked}. [Find another ↓](#game)\n\n"
        f":small[{KERNELS[exhibit.base].module.replace('.', '/')}.py, line {line} · {origin}]"
    )
    st.markdown(html, unsafe_allow_html=True)
    return st.container(key="chain", horizontal=True, vertical_alignment="center", gap="small")


def verdicts(exhibit: Exhibit) -> None:
    """The bug's story; both kernels against float64, on the input that shows the bug and on normal numbers."""
    place = layout.part(
        "Which inputs show it",
        f"{WORDS[exhibit.name].story}\n\nThe table has the largest error of any element against float64, beside its "
        "tolerance; up to 100% passes. Both kernels ran in the interpreter.",
    )
    if not has_triton():
        st.info(NO_TRITON)
        return
    rows = []
    inputs = dict.fromkeys((exhibit.shown_by, "normal", exhibit.hidden_by))
    try:
        for name in inputs:
            right, broken = _pair(exhibit, name)
            rows.append((_input(right), *map(_cell, (right, broken))))
    except WorkerError as error:
        st.error(error.words, icon=":material/error:")
        return
    columns = ("input", *(name.lower() for name in figures.sides(exhibit)))
    with place, st.container(key="numbers of verdicts"):
        shown = st.expander("What three inputs say") if exhibit.harmless else st.container()  # it is the answer
        shown.markdown(markdown(columns, rows))


def run(exhibit: Exhibit, chain: DeltaGenerator) -> exercises.Shown | None:
    """The player, correct kernel beside broken, opened at the first difference; and how it spreads, in `chain`.

    Returns what the questions are about; None if the runs cannot be shown.
    """
    found: list[Divergence] = []
    pair = _watched(exhibit)
    linked = st.session_state.setdefault(_LINKED, exhibit.name if {"step", "caption"} & {*st.query_params} else "")

    def opening(traces: Sequence[Trace]) -> int | None:
        found.extend(divergences(*traces))
        asked: int | None = st.session_state.get(_GO, {}).get(pair[1].key)
        if asked is None and linked != exhibit.name:  # the player finds the step of a link
            return found[0].step if found else 0
        return asked

    if pair != compared(exhibit):
        with st.container(horizontal=True, vertical_alignment="center"):
            st.markdown(f"On your input: {_input(pair[0])}.")
            st.button("Back to the exhibit's input", on_click=_watch, args=(exhibit, None))
    traces = stepper(
        pair,
        key="what breaks",
        step=opening,
        titles=figures.titles(exhibit),
        request=st.session_state.get(_PRESSED, 0),
        reveal=st.session_state.get(_REVEALED, 0),
        chapter="what_breaks",
    )
    if not traces:
        return None
    with chain:
        _spread(exhibit, pair[1], found)
    _states(exhibit, traces)
    return exercises.Shown(tuple(zip(pair, traces, strict=True)), found)


def _states(exhibit: Exhibit, traces: Sequence[Trace]) -> None:
    """m and ℓ of one row after each tile, folded away."""
    right, broken = running_states(*traces)
    row = f": row {right[0].row} is the first in which they differ" if right != broken else ""
    with st.expander(f"m and ℓ after each tile{row}"):
        pictures.drawing(figures.states(exhibit, right, broken))


def _spread(exhibit: Exhibit, broken: Experiment, found: Sequence[Divergence]) -> None:
    """The first difference of each quantity as a chain: a button goes to its step."""
    if not found:
        layout.prose("**No difference** on this input.")
        return
    st.markdown("**What goes wrong, in order:**", width="content")
    first = {symbol: one for one in reversed(found) if (symbol := _symbol(one.variable))}  # m_new and m_i are both m
    for symbol, one in sorted(first.items(), key=lambda item: item[1].step):
        st.button(
            symbol,
            key=f"divergence {exhibit.name} {one.variable}",
            help=f"step {one.step}, line {one.line}, {one.place or 'one number'}: {number(one.right, 4)} in the "
            f"correct kernel, {number(one.broken, 4)} in the broken one; elements that differ: {count(one.elements)}",
            on_click=_go,
            args=(broken, one.step),
        )
    output = KERNELS[exhibit.base].roles["output"]
    if not any(one.variable == output for one in found):
        stored = _symbol(output) or output
        with st.popover(f"Does it reach {stored}?"):
            st.markdown(f"No. The stored {stored} is equal, bit for bit.")


def _symbol(variable: str) -> str:
    """A variable as the picture names it: “α” for alpha; "" for one that has no symbol, such as `m_safe`."""
    term = glossary.find(variable)
    return term.symbol if term else ""


def _go(broken: Experiment, step: int) -> None:
    st.session_state.setdefault(_GO, {})[broken.key] = step
    st.session_state[_PRESSED] = st.session_state.get(_PRESSED, 0) + 1


def _watch(exhibit: Exhibit, pair: tuple[Experiment, Experiment] | None) -> None:
    st.session_state.setdefault(_WATCHED, {})[exhibit.name] = pair
    st.session_state[_REVEALED] = st.session_state.get(_REVEALED, 0) + 1
    st.query_params.pop("step", None)


def _watched(exhibit: Exhibit) -> tuple[Experiment, Experiment]:
    """The runs in the player: on the input that the reader found in the game and watches, else on the exhibit's."""
    return st.session_state.get(_WATCHED, {}).get(exhibit.name) or compared(exhibit)


def _pair(exhibit: Exhibit, inputs: str) -> tuple[Experiment, Experiment]:
    """The correct kernel's experiment and the broken one's, on one of the exhibit's inputs."""
    return _both(exhibit, exhibit.sizes, inputs, 0)


def _both(exhibit: Exhibit, sizes: Mapping[str, object], inputs: str, seed: int) -> tuple[Experiment, Experiment]:
    right, broken = (Experiment.of(name, sizes, inputs, seed) for name in (exhibit.base, exhibit.kernel))
    return right, broken


@st.cache_data(max_entries=2000, show_spinner=False)
def trial(key: str) -> Trial:
    """One experiment's verdict, from a run in the interpreter; shared by all sessions. Raises WorkerError."""
    said = engine().check(Experiment.from_json(json.loads(key)))
    return Trial(float(said["error"]), float(said["tolerance"]), bool(said["within_tolerance"]), said["output"])


# The game


def game(exhibit: Exhibit) -> None:
    """The reader chooses an input, and a real run of both kernels says whether it breaks this one. Counts attempts."""
    st.header("The game: find an input that breaks it", anchor="game")
    layout.prose(
        "The same two kernels, on your input: score = scale × a random normal number + offset. "
        "First press **Try random normal numbers**. "
        + (
            "Then try to make the changed kernel fail."
            if exhibit.harmless
            else "Then change the input: the broken kernel must fail and the correct one pass. The input at the top "
            "breaks it. Find that one, or another."
        )
    )
    if not has_triton():
        st.info(NO_TRITON)
        return
    st.fragment(_game)(exhibit)  # an attempt reruns nothing else


def _game(exhibit: Exhibit) -> None:
    attempts: list[Attempt] = st.session_state.setdefault("attempts", {}).setdefault(exhibit.name, [])
    inputs, seed, sizes = _chosen(KERNELS[exhibit.base].family == "softmax")
    with st.container(horizontal=True, vertical_alignment="center"):
        asked = st.button("Does it break?", type="primary", key=f"ask {exhibit.name}")
        plain = st.button("Try random normal numbers", key=f"plain {exhibit.name}")
        many = st.button(f"Try {len(SEEDS)} seeds", key=f"seeds {exhibit.name}")
        if made := len(attempts) + (asked or plain):
            st.markdown(f"Attempts: **{made}**")
    if asked or plain or many:
        try:
            if many:
                _seeds(exhibit, [_attempt(exhibit, sizes, inputs, one) for one in SEEDS])
            else:
                attempts.append(_attempt(exhibit, sizes, "normal" if plain else inputs, seed))
        except ParameterError as error:
            st.error(in_words(error), icon=":material/error:")
        except WorkerError as error:
            st.error(error.words, icon=":material/error:")
    if attempts:
        last = attempts[-1]
        both = zip(figures.titles(exhibit), last.pair, (last.right, last.broken), strict=True)
        shown = tuple((name, _ratio_in_words(run, one), one.within_tolerance) for name, run, one in both)
        st.markdown(figures.verdicts(shown), unsafe_allow_html=True)
        with st.container(key="attempts"):
            for at in range(len(attempts), max(0, len(attempts) - SHOWN_ATTEMPTS), -1):
                _row(exhibit, at, attempts[at - 1])
    for title, hint in zip(("A hint", "The answer"), exhibit.hints, strict=True):
        with st.expander(title):
            layout.prose(hint)


class Attempt(NamedTuple):
    """One try of the game."""

    pair: tuple[Experiment, Experiment]
    right: Trial
    broken: Trial

    @property
    def breaks(self) -> bool:
        """Whether the correct kernel passes on this input and the broken one fails."""
        return self.right.within_tolerance and not self.broken.within_tolerance


def _attempt(exhibit: Exhibit, sizes: Mapping[str, object], inputs: str, seed: int) -> Attempt:
    pair = _both(exhibit, sizes, inputs, seed)
    return Attempt(pair, trial(pair[0].key), trial(pair[1].key))


def _seeds(exhibit: Exhibit, tried: Sequence[Attempt]) -> None:
    """On how many seeds each kernel fails."""
    runs = zip(*(one[1:] for one in tried), strict=True)
    right, broken = (sum(not one.within_tolerance for one in of_kernel) for of_kernel in runs)
    changed = figures.sides(exhibit)[1].lower()
    layout.prose(
        f"This input with {len(tried)} seeds: the {changed} kernel fails on **{broken}**, the correct one on "
        f"**{right}**."
    )


def _row(exhibit: Exhibit, at: int, attempt: Attempt) -> None:
    said = (
        ":red[**It breaks**]"
        if attempt.breaks
        else ":green[It passes]"
        if attempt.right.within_tolerance
        else "Both fail"
    )
    with st.container(horizontal=True, vertical_alignment="center"):
        experiment = attempt.pair[1]
        p = experiment.values
        size = (
            f"{p['cols']} elements, tiles of {p['block_n']}"
            if "cols" in p
            else (
                f"{p['seq_len']} × {p['kv_len']}, tiles {p['block_m']} × "
                f"{p['block_n']}{', causal' if p['causal'] else ''}"
            )
        )
        st.markdown(f"{at} · {said}: {_input(experiment)}, seed {experiment.seed}, {size}, {p['dtype']}")
        if st.button("Watch it", key=f"watch {exhibit.name} {at}", on_click=_watch, args=(exhibit, attempt.pair)):
            st.rerun()


def _chosen(softmax: bool) -> tuple[str, int, dict[str, object]]:
    """The input, its seed, and the sizes. What is rarely changed opens from a button at the end of the row."""
    presets = [name for name, preset in PRESETS.items() if not preset.sentence and preset.name != "notebook"]
    *columns, last = st.columns([4, 4, 4, 4, 4, 3], vertical_alignment="bottom")
    with last.popover("Sizes, seed", width="stretch"):
        inputs = st.selectbox(
            "Input", [OWN, *presets], key="game inputs", format_func=lambda name: name.replace("_", " "),
            help="\n".join(f"- **{name.replace('_', ' ')}**: {PRESETS[name].help}" for name in presets),
        )  # fmt: skip
        seed = st.number_input("Seed", min_value=0, max_value=2**31, value=0, step=1, key="game seed")
        sizes = _chosen_sizes(softmax)
    if inputs == OWN:
        inputs = Recipe(
            columns[0].select_slider("Scale", SCALES, 1.0, key="game scale", format_func=number),
            columns[1].select_slider("Offset", OFFSETS, 0.0, key="game offset", format_func=lambda x: fixed(x, 0)),
            columns[2].selectbox(
                "Order", ORDERS, key="game order", format_func=lambda x: "random" if x == "drawn" else x,
                help="Random, or sorted within each row.",
            ),
            columns[3].selectbox("Masked keys", HIDDEN, key="game hidden", format_func=lambda x: x.replace("_", " "),
            help="Their scores are −∞."),
            columns[4].selectbox("NaN score", NANS, key="game nan", help="Which score is NaN."),
        ).name  # fmt: skip
    else:
        columns[0].markdown(f"Input: *{str(inputs).replace('_', ' ')}*")
    return str(inputs), int(seed), sizes


def _chosen_sizes(softmax: bool) -> dict[str, object]:
    dtype = st.segmented_control("dtype", ("fp32", "fp16", "bf16"), default="fp32", required=True, key="game dtype")
    if softmax:
        return {
            "rows": 1,
            "cols": st.select_slider("Elements in the row", LENGTHS, 16, key="game cols"),
            "block_n": st.select_slider("Elements in a tile, BLOCK_N", TILES, 4, key="game row tile"),
            "dtype": dtype,
        }
    return {
        "seq_len": st.select_slider("Queries, N", LENGTHS, 32, key="game seq_len"),
        "kv_len": st.select_slider("Keys", LENGTHS, 32, key="game kv_len"),
        "head_dim": 16,
        "block_m": st.select_slider("BLOCK_M", TILES, 16, key="game block_m"),
        "block_n": st.select_slider("BLOCK_N", TILES, 16, key="game block_n"),
        "dtype": dtype,
        "causal": st.toggle("Causal", key="game causal"),
    }


def _input(experiment: Experiment) -> str:
    preset = experiment.preset
    return (
        "random normal numbers"
        if preset.name == "normal"
        else preset.help
        if ":" in preset.name
        else f"*{preset.name.replace('_', ' ')}*"
    )


def _cell(experiment: Experiment) -> str:
    one = trial(experiment.key)
    words = _ratio_in_words(experiment, one)
    return f":green[passes, {words}]" if one.within_tolerance else f":red[**fails: {words}**]"


def _ratio_in_words(experiment: Experiment, trial: Trial) -> str:
    """The largest error beside its tolerance; many times the tolerance is said in round numbers.

    An error is NaN where either the result or float64's is NaN. Only a NaN among the inputs makes float64's NaN.
    """
    if math.isnan(trial.error):
        return "a number where NaN is right, or NaN where a number is" if "nan=" in experiment.inputs else "NaN"
    if not math.isfinite(trial.error):
        return f"{_symbol(trial.output) or trial.output} is infinite"
    if not trial.tolerance:
        return "exact" if not trial.error else f"error {number(trial.error)}, tolerance 0"
    share = trial.error / trial.tolerance
    if share > MOST_TIMES:
        return f"more than {count(MOST_TIMES)} × the tolerance"
    return f"{number(share, 2)} × the tolerance" if share > 10 else f"{number(100 * share, 2)}% of the tolerance"


def closing(exhibit: Exhibit, shown: exercises.Shown | None) -> None:
    """Things to try, questions, sources."""
    if shown is not None:
        ask("what_breaks", exercises.QUESTIONS, shown, shown.runs[1][0].key)
    sources = (f"[{e.source}]({e.link})" for e in EXHIBITS.values() if e.link)
    layout.closing("what_breaks", *sources, exhibit=exhibit.name)
