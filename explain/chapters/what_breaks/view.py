"""What breaks: an exhibit's plaque, its verdicts, where it parts from the truth, and the game of finding an input that shows it."""

from __future__ import annotations

import json
import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import streamlit as st

from explain import lessons
from explain.chapters.what_breaks.divergence import Parting, partings
from explain.engine import engine, has_triton
from explain.experiment import Experiment, ParameterError
from explain.trace.model import Trace
from explain.ui.address import returned
from explain.ui.layout import prose
from explain.ui.stepper import failure, stepper
from explain.workers import WorkerError
from kernels.edits import source_of
from kernels.inputs import PRESETS
from kernels.museum import EXHIBITS, Exhibit
from kernels.recipes import HIDDEN, NANS, ORDERS, Recipe

OWN = "your own mixture"
SCALES = (0.01, 0.1, 1.0, 3.0, 10.0, 30.0, 100.0, 1000.0, 10000.0)
OFFSETS = (-1e6, -80000.0, -50000.0, -16000.0, -10000.0, -1000.0, -200.0, -50.0, 0.0, 50.0, 200.0, 1000.0, 16000.0)
LENGTHS = (1, 4, 8, 16, 24, 32, 48, 64)
TILES = (4, 8, 16, 32, 64)
SHOWN_ATTEMPTS = 6
NO_TRITON = (
    "Triton runs on Linux only, so no new run can be made here. The recorded runs above are of the same kernels."
)

_CHOSEN, _GO, _PRESSED, _WATCHED = "exhibit chosen", "steps of exhibits", "steps pressed", "inputs of exhibits"
_LINKED = "exhibit that a link led to"


class Trial(NamedTuple):
    """One run's verdict: its largest error against its budget, and what was allowed there."""

    error: float
    budget: float
    within_budget: bool


def choose() -> Exhibit:
    """The picker; the address holds the choice as `exhibit`, by name. What is no exhibit's name is said."""
    names = list(EXHIBITS)
    chosen = names[0] if returned() else st.session_state.get(_CHOSEN, names[0])
    asked = st.query_params.get("exhibit", chosen)
    if asked in names and asked != st.session_state.get(_CHOSEN):
        st.session_state["exhibit"] = chosen = asked  # a link, or the browser's Back
    st.session_state.setdefault("exhibit", chosen)
    # Bound to the address by Streamlit itself, it would be there with its number and title.
    name = st.segmented_control(
        "Exhibit",
        names,
        required=True,
        format_func=lambda name: f"{names.index(name) + 1} · {EXHIBITS[name].title}",
        key="exhibit",
        on_change=lambda: st.query_params.from_dict(
            {"exhibit": st.session_state["exhibit"]}
        ),  # the step was another run's
        wrap=True,
    )
    if asked not in names:
        st.markdown(f":small[:red[**exhibit={asked}: must be one of {', '.join(names)}**]]")
    st.session_state[_CHOSEN] = str(name)
    return EXHIBITS[str(name)]


def plaque(exhibit: Exhibit) -> None:
    """The changed line, in its place, and the story of the bug."""
    module, edit = exhibit.kernel.module, exhibit.kernel.edit
    assert edit is not None
    source = source_of(module)
    changed = edit.diff(source)
    number = changed[0][1]
    above = source.splitlines()[number - 2]
    lines = [text for _, _, text in changed]
    block = textwrap.dedent("\n".join([above, *lines])).splitlines()
    marks = [" ", *(sign for sign, _, _ in changed)]
    st.code(
        "\n".join(f"{mark} {line}" for mark, line in zip(marks, block, strict=True)), language="diff", wrap_lines=True
    )
    origin = (
        f"from [{exhibit.source}]({exhibit.link})"
        if exhibit.link
        else "a trick question"
        if exhibit.harmless
        else "from many a first version"
    )
    st.caption(f"{module.replace('.', '/')}.py, line {number} · {origin}")
    prose(exhibit.story)


def verdicts(exhibit: Exhibit) -> None:
    """Right and broken kernel against float64, on the input that shows the bug and on plain normal numbers."""
    if not has_triton():
        st.info(NO_TRITON)
        return
    lines = ["| input | right kernel | this kernel |", "|---|---|---|"]
    inputs = dict.fromkeys((exhibit.shown_by, "normal", exhibit.hidden_by))
    try:
        for name in inputs:
            right, broken = _pair(exhibit, name)
            cells = [_cell(trial(one.key)) for one in (right, broken)]
            lines.append(f"| {_input(right)} | {cells[0]} | {cells[1]} |")
    except WorkerError as error:
        st.error(failure(error), icon=":material/error:")
        return
    with st.container(key="numbers of verdicts"):
        st.markdown("\n".join(lines))
    st.caption(
        "interpreter · the largest error against float64, as a multiple of what is allowed there: up to 1 passes"
    )


def run(exhibit: Exhibit) -> None:
    """The player, right kernel beside broken, opened where they part; how the difference spreads from there."""
    found: list[Parting] = []
    own = lessons.exhibit(exhibit)
    pair = st.session_state.get(_WATCHED, {}).get(exhibit.name) or own
    linked = st.session_state.setdefault(_LINKED, exhibit.name if "step" in st.query_params else "")

    def opening(traces: Sequence[Trace]) -> int | None:
        found.extend(partings(*traces))
        asked: int | None = st.session_state.get(_GO, {}).get(pair[1].key)
        if asked is None and linked != exhibit.name:  # a link's step is the player's to find
            return found[0].step if found else 0
        return asked

    if pair != own:
        with st.container(horizontal=True, vertical_alignment="center"):
            st.markdown(f"On an input of yours: {_input(pair[0])}.")
            st.button("The exhibit's own input again", on_click=_watch, args=(exhibit, None))
    if stepper(pair, key="what breaks", step=opening, request=st.session_state.get(_PRESSED, 0)):
        _spread(exhibit, pair[1], found)


def _spread(exhibit: Exhibit, broken: Experiment, found: Sequence[Parting]) -> None:
    """How the difference spreads from variable to variable, a button to go to each."""
    if not found:
        prose("**They never part**: on this input the two runs are the same to the bit.")
        return
    first, output = found[0], exhibit.kernel.roles["output"]
    where = f" at {first.place}" if first.place else ""
    prose(
        f"**They part at step {first.step + 1}**, line {first.line}: `{first.variable}`{where} is **{_number(first.right)}** in the right "
        f"kernel and **{_number(first.broken)}** in this one."
        + ("" if any(parting.variable == output for parting in found) else
           f" And they **meet again**: `{output}`, which is what is stored, is the same to the bit.")
    )  # fmt: skip
    with st.container(horizontal=True):
        for number, parting in enumerate(found):
            st.button(
                f"`{parting.variable}` · step {parting.step + 1}",
                key=f"part {exhibit.name} {parting.variable}",
                help=f"line {parting.line}, {parting.place or 'one number'}: {_number(parting.right)} in the right kernel, {_number(parting.broken)} in this one; "
                f"{parting.elements:,} of its elements differ",
                on_click=_go,
                args=(broken, parting.step),
                type="primary" if number == 0 else "secondary",
            )
    st.caption("Each variable's first difference, in order: a button goes to its step.")


def _go(broken: Experiment, step: int) -> None:
    st.session_state.setdefault(_GO, {})[broken.key] = step
    st.session_state[_PRESSED] = st.session_state.get(_PRESSED, 0) + 1


def _watch(exhibit: Exhibit, pair: tuple[Experiment, Experiment] | None) -> None:
    st.session_state.setdefault(_WATCHED, {})[exhibit.name] = pair
    st.query_params.pop("step", None)


def _pair(exhibit: Exhibit, inputs: str) -> tuple[Experiment, Experiment]:
    """The right kernel's experiment and the broken one's, on one of the exhibit's inputs."""
    return _both(exhibit, exhibit.sizes, inputs, 0)


def _both(exhibit: Exhibit, sizes: Mapping[str, object], inputs: str, seed: int) -> tuple[Experiment, Experiment]:
    right, broken = (Experiment.of(name, sizes, inputs, seed) for name in (exhibit.base, exhibit.kernel.name))
    return right, broken


@st.cache_data(max_entries=2000, show_spinner=False)
def trial(key: str) -> Trial:
    """One experiment's verdict, run in the interpreter; shared by all sessions. Raises WorkerError."""
    said = engine().check(Experiment.from_json(json.loads(key)))
    return Trial(float(said["error"]), float(said["budget"]), bool(said["within_budget"]))


# The game


def game(exhibit: Exhibit) -> None:
    """Choose an input and ask whether it breaks the kernel; a real run of both answers. Counts the attempts."""
    if not has_triton():
        st.info(NO_TRITON)
        return
    st.fragment(_game)(exhibit)  # an attempt runs nothing else


def _game(exhibit: Exhibit) -> None:
    attempts: list[Attempt] = st.session_state.setdefault("attempts", {}).setdefault(exhibit.name, [])
    softmax = exhibit.kernel.family == "softmax"
    inputs, seed = _chosen_inputs()
    sizes = _chosen_sizes(softmax)
    with st.container(horizontal=True, vertical_alignment="center"):
        asked = st.button("Does it break?", type="primary", key=f"ask {exhibit.name}")
        plain = st.button("Try plain normal numbers", key=f"plain {exhibit.name}")
        st.markdown(_score(attempts, asked or plain))
    if asked or plain:
        try:
            attempts.append(_attempt(exhibit, sizes, "normal" if plain else inputs, seed))
        except ParameterError as error:
            st.error(f"{error}", icon=":material/error:")
        except WorkerError as error:
            st.error(failure(error), icon=":material/error:")
    for number in range(len(attempts), max(0, len(attempts) - SHOWN_ATTEMPTS), -1):
        _row(exhibit, number, attempts[number - 1])
    for title, hint in zip(("A hint", "Another hint"), exhibit.hints, strict=True):
        with st.expander(title):
            prose(hint)


class Attempt(NamedTuple):
    """One try of the game."""

    pair: tuple[Experiment, Experiment]
    right: Trial
    broken: Trial

    @property
    def breaks(self) -> bool:
        """Whether the input tells the two kernels apart."""
        return self.right.within_budget and not self.broken.within_budget


def _attempt(exhibit: Exhibit, sizes: Mapping[str, object], inputs: str, seed: int) -> Attempt:
    pair = _both(exhibit, sizes, inputs, seed)
    return Attempt(pair, trial(pair[0].key), trial(pair[1].key))


def _score(attempts: Sequence[Attempt], one_more: bool) -> str:
    count = len(attempts) + one_more
    return f"Attempts: **{count}**" if count else "The same kernel as above, on an input of yours. No attempt yet."


def _row(exhibit: Exhibit, number: int, attempt: Attempt) -> None:
    said = (
        ":red[**It breaks.**]"
        if attempt.breaks
        else ":green[It holds.]"
        if attempt.right.within_budget
        else "Both miss."
    )
    with st.container(horizontal=True, vertical_alignment="center", border=True):
        experiment = attempt.pair[1]
        p = experiment.values
        size = (
            f"{p['cols']} elements, tiles of {p['block_n']}"
            if "cols" in p
            else f"{p['seq_len']} × {p['kv_len']}, tiles {p['block_m']} × {p['block_n']}{', causal' if p['causal'] else ''}"
        )
        st.markdown(
            f"{number} · {said} {_input(experiment)}, seed {experiment.seed}, {size}, {p['dtype']}: "
            f"this kernel {_cell(attempt.broken)}, the right one {_cell(attempt.right)}"
        )
        if st.button("Watch it", key=f"watch {exhibit.name} {number}", on_click=_watch, args=(exhibit, attempt.pair)):
            st.rerun()


def _chosen_inputs() -> tuple[str, int]:
    presets = [name for name, preset in PRESETS.items() if not preset.sentence and name != "notebook"]
    left, right = st.columns([3, 1])
    inputs = left.selectbox(
        "Input", [OWN, *presets], key="game inputs", format_func=lambda name: name.replace("_", " "),
        help="\n".join(f"- **{name.replace('_', ' ')}**: {PRESETS[name].help}" for name in presets),
    )  # fmt: skip
    seed = right.number_input("Seed", min_value=0, max_value=2**31, value=0, step=1, key="game seed")
    if inputs == OWN:
        columns = st.columns(5)
        inputs = Recipe(
            columns[0].select_slider("Scale", SCALES, 1.0, key="game scale", format_func=lambda x: f"{x:g}"),
            columns[1].select_slider("Offset", OFFSETS, 0.0, key="game offset", format_func=lambda x: f"{x:,.0f}".replace("-", "−")),
            columns[2].selectbox("Order", ORDERS, key="game order", help="As drawn, or sorted within each row."),
            columns[3].selectbox("Hidden keys", HIDDEN, key="game hidden", format_func=lambda x: x.replace("_", " "), help="Their scores are −∞."),
            columns[4].selectbox("A NaN", NANS, key="game nan", help="Which score is NaN."),
        ).name  # fmt: skip
    return str(inputs), int(seed)


def _chosen_sizes(softmax: bool) -> dict[str, object]:
    dtypes = ("fp32", "fp16", "bf16")
    if softmax:
        row = st.columns(3)
        return {
            "rows": 1,
            "cols": row[0].select_slider("Elements in the row", LENGTHS, 16, key="game cols"),
            "block_n": row[1].select_slider("Elements in a tile, BLOCK_N", TILES, 4, key="game row tile"),
            "dtype": row[2].selectbox("dtype", dtypes, key="game dtype"),
        }
    columns = st.columns(6, vertical_alignment="bottom")
    return {
        "seq_len": columns[0].select_slider("Queries, N", LENGTHS, 32, key="game seq_len"),
        "kv_len": columns[1].select_slider("Keys", LENGTHS, 32, key="game kv_len"),
        "head_dim": 16,
        "block_m": columns[2].select_slider("BLOCK_M", TILES, 16, key="game block_m"),
        "block_n": columns[3].select_slider("BLOCK_N", TILES, 16, key="game block_n"),
        "dtype": columns[4].selectbox("dtype", dtypes, key="game dtype"),
        "causal": columns[5].toggle("Causal", key="game causal"),
    }


def _input(experiment: Experiment) -> str:
    preset = experiment.preset
    return (
        "plain normal numbers"
        if preset.name == "normal"
        else preset.help
        if ":" in preset.name
        else f"*{preset.name.replace('_', ' ')}*"
    )


def _cell(trial: Trial) -> str:
    if not math.isfinite(trial.error):
        return f":red[✗ {_number(trial.error)}]"
    if not trial.budget:
        return ":green[✓ exact]" if not trial.error else f":red[✗ {trial.error:.2g}, where 0 is allowed]"
    ratio = trial.error / trial.budget
    return f":green[✓ {ratio:.2f}]" if trial.within_budget else f":red[✗ {ratio:,.0f}]"


def _number(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    size = abs(value)
    text = f"{value:,.2f}".rstrip("0").rstrip(".") if 1 <= size < 1e9 else f"{value:.3g}"
    return text.replace("-", "−")
