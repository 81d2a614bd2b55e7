"""The page Sweeps and roofline, part by part."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import plotly.graph_objects as go
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from explain.chapters.sweeps import exercises, figures, masking, roofline, sentences
from explain.chapters.sweeps.analysis import RooflinePoint, roofline_points
from explain.chapters.sweeps.mask_view import mask_cost
from explain.chapters.sweeps.model import AXES, LEVELS, READY, Reading, Sweep, predicted, recorded
from explain.chapters.sweeps.runner import State, runner
from explain.chapters.sweeps.steps import steps, unexplained
from explain.engine import engine
from explain.experiment import ParameterError
from explain.figures.numbers import fixed, percent
from explain.figures.plot import titled
from explain.gpus import Gpu, card, known_as
from explain.kept import kept
from explain.prediction import Model, fitted
from explain.records import registry
from explain.records.model import Roof
from explain.ui import layout
from explain.ui.charts import chart, csv_download, image_format, sourced
from explain.ui.controls import in_words, pick
from explain.ui.exercises import ask
from explain.ui.follow import follow, on_request
from explain.ui.gpu import gpu_choice
from explain.ui.records import another_record, opening, records_there
from explain.ui.repeat import repeated
from kernels.catalog import KERNELS, TAUGHT
from kernels.parameters import Value

OWN = "Your own"
CHOSEN = "sources of sweeps"
"""In the session: the source that the reader chose for ready-made sweeps (True), and for an own one (False)."""
OPEN = "source box open"
OPENED = 2
"""The paragraphs about bytes that are not folded away."""
WIDE = 1.6
"""Of a picture, in columns of words: a table of kernels needs room."""
FAMILIES: Mapping[str, tuple[tuple[str, ...], str, str]] = {
    "attention": (
        ("attention_standard", "flash_attention"), "128, 256, 512, 1024", "head_dim=32, block_m=64, block_n=64"
    ),
    "softmax": (("softmax_safe", "softmax_online"), "256, 512, 1024, 2048, 4096", "rows=16"),
    "loss": (
        ("cross_entropy_standard", "cross_entropy_fused"),
        "256, 512, 1024, 2048, 4096",
        "tokens=64, dim=32, block_m=64, block_n=64",
    ),
}  # fmt: skip
"""Defaults of the reader's own sweep: kernels, values and fixed parameters. The interpreter takes seconds for all of
them, and the second kernel moves clearly fewer bytes.
"""


@dataclass(frozen=True, eq=False)
class Shown:
    """What a page shows of a sweep: the readings so far of `total` points, their source, and that GPU's name and roofs.
    There is one for all readers (`_shown`), equal to itself alone: what is made of it is made once.

    `runs` is the witness that can be run here for more of them, empty for what was recorded.
    """

    sweep: Sweep
    readings: tuple[Reading, ...]
    total: int
    source: str
    runs: str = ""
    gpu: str = ""
    roofs: Mapping[str, Roof] = field(default_factory=dict)

    @property
    def card(self) -> Gpu | None:
        """That GPU's datasheet, if it is known."""
        return card(self.gpu)

    def csv(self) -> str:
        """The readings, one line each."""
        return figures.as_csv(self.sweep, self.readings)


_shown = kept(Shown)


def choices() -> tuple[Shown | None, str]:
    """Controls for the sweep, its source and the level of bytes. Returns what that source has, and the level."""
    which, bytes_at = st.columns([3, 2])
    sweep = sweep_choice(which)
    shown = sweep_readings(sweep) if sweep else None
    with bytes_at:
        return shown, level_choice(shown) if shown else ""


def sweep_choice(place: DeltaGenerator) -> Sweep | None:
    """A sweep: ready-made, chosen in `place`, or the reader's own. Of a wrong one it shows the error; then None."""
    chosen = place.selectbox("Sweep", [*READY, OWN], key="sweep", bind="query-params")
    if chosen != OWN:
        return READY[str(chosen)]
    which, among = st.columns([3, 5])
    with which:
        family = pick("Family", FAMILIES, "family")
    start, some_values, some_held = FAMILIES[family]
    with among:
        kernels = st.multiselect(
            "Kernels",
            [name for name, entry in TAUGHT.items() if entry.family == family],
            default=start,
            key=f"{family} kernels",
            bind="query-params",
            format_func=lambda name: KERNELS[name].title,
        )
    over, values, held = st.columns([1, 1, 2])
    known = [{parameter.name for parameter in KERNELS[kernel].parameters} for kernel in kernels]
    axes = [name for name in AXES if all(name in own for own in known)]
    with over:
        axis = st.selectbox("Over", axes, key=f"{family} over", bind="query-params", format_func=figures.axis_title)
    with values:
        listed = st.text_input("Values, separated by commas", some_values, key=f"{family} values", bind="query-params")
    with held:
        fixed = st.text_input(
            "Fixed parameters, as name=value",
            some_held,
            key=f"{family} held",
            bind="query-params",
            help="\n".join(f"- `{p.name}`: {p.help}; {p.allowed}" for p in KERNELS[kernels[0]].parameters)
            if kernels
            else None,
        )
    try:
        sweep = Sweep.from_query({"kernels": ",".join(kernels), "over": axis or "", "values": listed, "fixed": fixed})
    except ParameterError as error:
        place = {"kernels": among, "axis": over, axis: values}.get(error.parameter, held)
        names = {"kernels": "Kernels", "axis": "Over", **{name: symbol for name, (symbol, _) in AXES.items()}}
        place.markdown(f":red[{in_words(error, names, largest={})}]")
        kept: Sweep | None = st.session_state.get(f"{family}: last sweep")  # what is below stays
        return kept
    if sweep not in READY.values():  # a ready-made one says it below its charts
        for told in sentences.left_out(sweep):
            values.caption(f"{told} Choose other values, or leave this kernel out.")
    st.session_state[f"{family}: last sweep"] = sweep
    return sweep


def sweep_readings(sweep: Sweep) -> Shown:
    """The reader chooses a source; returns its readings so far. Missing points can be run, followed and cancelled here.

    Sources are "hardware", "formula", "trace", and each record by its key. The last choice for a ready-made sweep, and
    that for an own one, stay where another sweep lacks this source.
    """
    there = records_there()
    records = {key: one for key, one in there.items() if recorded(sweep, one.record)}
    status = engine().device_if_known()
    here = status.gpu if status else ""
    names = {
        **{key: one.label for key, one in records.items()},
        **({"hardware": f"{here}, this machine"} if here else {}),
        "formula": "Formula",
        "trace": "Trace, in this machine's interpreter",
        **({"predicted": "Predicted for a GPU you choose"} if _model() else {}),
    }
    ready = sweep in READY.values()
    if "witness" not in st.session_state:  # the page opens
        st.session_state[CHOSEN] = {ready: st.query_params.get("witness")}
        st.session_state[OPEN] = False
    before = st.session_state[CHOSEN].get(ready)
    st.session_state["witness"] = before if before in names else opening(records) if records else next(iter(names))
    with (
        st.expander(f"Source: {names[st.session_state['witness']]}", expanded=st.session_state[OPEN]),
        st.container(horizontal=True, vertical_alignment="bottom"),
    ):
        chosen = st.segmented_control(
            "Source",
            list(names),
            required=True,
            key="witness",
            on_change=lambda: _choose_another(ready),
            format_func=names.__getitem__,
            wrap=True,
            width="content",
        )
        another_record()
        image_format()
    witness = str(chosen)
    if st.query_params.get("witness") != witness:
        st.query_params["witness"] = witness
    if silent := ", ".join(one.label for key, one in there.items() if key not in records):
        st.caption(f"{silent}: no data for this sweep.")
    if witness in records:
        record = records[witness].record
        found, total = recorded(sweep, record), len(sweep.experiments)
        return _shown(sweep, found, total, records[witness].source, "", record.gpu, record.roofs)
    if witness == "predicted" and (model := _model()):
        return _predicted(sweep, model)
    if witness != "formula":
        follow(
            lambda: _progress(sweep, witness),
            lambda: bool(runner().look(sweep, witness).working),
            progress=lambda: len(runner().look(sweep, witness).readings),
        )
    state = runner().look(sweep, witness)  # after `follow`: what ends in between is then shown, not missed
    sources = " and ".join(dict.fromkeys(reading.source for reading in state.readings))
    if witness == "hardware":
        return _shown(sweep, state.readings, state.total, f"hardware · {sources}", witness, here, _roofs_kept())
    return _shown(sweep, state.readings, state.total, sources, witness)


def _choose_another(ready: bool) -> None:
    """Takes the source that the reader chose. Its box stays open: who compares sources chooses again."""
    choose_source(ready, st.session_state["witness"])
    st.session_state[OPEN] = True


def choose_source(ready: bool, key: str) -> None:
    """Sets the source of the `ready`-made sweeps, or of the reader's own."""
    st.session_state[CHOSEN][ready] = key


def _predicted(sweep: Sweep, model: Model) -> Shown:
    """Predicted times on the GPU that the reader chooses among those without a shipped record of the sweep; says why a
    time is missing.
    """
    measured = (known_as(record.gpu) for record in registry.shipped() if recorded(sweep, record))
    gpu = gpu_choice(without={model.gpu, *filter(None, measured)})
    for why in dict.fromkeys(model.refusal(one, gpu) for one in sweep.experiments):
        if why:
            st.info(f"{why} Choose another GPU or another sweep.", icon=":material/info:")
    found = predicted(sweep, model, gpu)
    if found:
        layout.prose(f"**Predicted, not measured.** {model.test(one.experiment for one in found).told}.")
    source = f"{gpu.name}, {next((one.source for one in found), '')}"
    return _shown(sweep, found, len(sweep.experiments), source, "", gpu.name)


def _model() -> Model | None:
    """The model that predicts times, fitted to the first shipped record; None if none is shipped."""
    return fitted(*registry.shipped())


def _progress(sweep: Sweep, witness: str) -> None:
    """The progress of a run, and the buttons that start and stop it."""
    state = runner().look(sweep, witness)
    have = f"{len(state.readings)} of {state.total} points"
    with st.container(horizontal=True, vertical_alignment="center"):
        if state.working:
            st.progress(len(state.readings) / state.total, f"{have} · {state.working} · {fixed(state.seconds, 0)} s")
            cancel = runner().cancel
            st.button("Cancel", icon=":material/stop:", key="cancel sweep", on_click=cancel, args=(sweep, witness))
            return
        _offer(sweep, witness, state, have)
    if state.error:
        st.error(state.error, icon=":material/error:")


def _offer(sweep: Sweep, witness: str, state: State, have: str) -> None:
    if not state.done:
        label = "Resume" if state.readings else f"Run {state.total} points"
        icon, start = ":material/play_arrow:", runner().start
        st.button(label, icon=icon, type="primary", key="run sweep", on_click=start, args=(sweep, witness))
    if state.readings:
        st.markdown(f"{have}, saved on this machine.")
        icon, again = ":material/replay:", runner().start_over
        st.button("Start over", icon=icon, type="tertiary", key="forget sweep", on_click=again, args=(sweep, witness))


def level_choice(shown: Shown) -> str:
    """The level at which bytes are shown, "" without bytes; a control if there are several."""
    levels = [level for level in LEVELS if any(level in reading.bytes for reading in shown.readings)]
    if len(levels) < 2:
        return "".join(levels)
    first = levels.index("hbm") if "hbm" in levels else 0
    name = LEVELS.__getitem__
    return str(st.selectbox("Bytes", levels, index=first, key="level", bind="query-params", format_func=name))


def sweep_growth(shown: Shown, level: str) -> None:
    """Bytes at this level and time over the axis: what they show in words, beside the curves and their growth."""
    sweep, readings = shown.sweep, shown.readings
    over = figures.over(sweep.axis)
    if level:
        words, picture = layout.sides(f"Bytes {over}", WIDE)
        _grows(shown, level, words, picture)
    if any(reading.seconds for reading in readings):
        words, picture = layout.sides(f"Time {over}", WIDE)
        _grows(shown, "seconds", words, picture)
        masked = _masked(readings) if sweep.axis == "causal" else ()
        with words:
            for told, _ in masked:
                layout.prose(told)
            if _quantity(shown, "seconds").bases:
                layout.chapter_link("speed", "Why exp2 gains less in the ladder of kernels on Speed →")
        for _, pair in masked:
            mask_cost("", pair)
    left_out = sentences.left_out(sweep) if sweep in READY.values() else []  # an own one says it at its controls
    if lines := [*left_out, *sentences.missing(sweep, readings)]:
        with st.expander("1 point is missing" if len(lines) == 1 else f"{len(lines)} points are missing or incomplete"):
            st.markdown("\n".join(f"- {line}" for line in lines))
    sourced(_source(shown))


@dataclass(frozen=True, eq=False)
class Quantity:
    """One quantity of a sweep: its chart; what is said of it, folded away (`more`), and of exp2 and exp (`bases`); the
    tables of its growth and of its steps, and the steps that this one does not explain; the note below, and where its
    theory comes from.
    """

    chart: go.Figure
    said: Sequence[str]
    more: Sequence[str]
    bases: Sequence[str]
    growth: str
    steps: str
    unexplained: Sequence[str]
    note: str
    origin: str


@kept
def _quantity(shown: Shown, what: str) -> Quantity:
    sweep, readings, gpu = shown.sweep, shown.readings, shown.card
    bases: Sequence[str] = ()
    said = list(sentences.crossings(sweep, readings, [what]))
    same = sentences.covered(sweep, readings, what)
    if what == "seconds":
        bases = sentences.base_2(sweep, readings)
        said += [*same, *sentences.fastest_told(sweep, readings), *sentences.idle(sweep, readings, gpu), *bases]
    elif what == "hbm":
        said += [*sentences.again(sweep, readings), *sentences.spills(sweep, readings), *same,
            *sentences.jumps(sweep, readings, gpu), *sentences.served_by_l2(sweep, readings)]  # fmt: skip
    else:
        said += [*sentences.spills(sweep, readings), *same]
    said = [sentences.begins(one) for one in said]
    opened = len(said) if what == "seconds" else OPENED
    stepped = what in ("seconds", "hbm")
    return Quantity(
        figures.growth(sweep, readings, what),
        said[:opened],
        said[opened:],
        bases,
        figures.slopes(sweep, readings, what) if sweep.numeric else "",
        steps(sweep, readings, what, gpu) if stepped else "",
        unexplained(sweep, readings, what, gpu) if stepped else (),
        sentences.slope_note(sweep, readings, what),
        sentences.origin(sweep, readings, what),
    )


def _grows(shown: Shown, what: str, words: DeltaGenerator, picture: DeltaGenerator) -> None:
    """One quantity: its sentences and its theory's source in `words`; its curves, their growth and their steps in
    `picture`."""
    of = _quantity(shown, what)
    with words:
        layout.prose("\n\n".join(of.said))
        if of.more:
            with st.expander("More about these bytes"):
                layout.prose("\n\n".join(of.more))
        if of.origin:
            with st.expander("Where the theory comes from"):
                layout.prose(f"Every element is read or written once per launch.\n\n{of.origin}")
    with picture:
        name = "time" if what == "seconds" else f"bytes {LEVELS[what]}"
        over = figures.axis_title(shown.sweep.axis)
        chart(of.chart, f"{name} over {shown.sweep.axis}", alt=f"{name} over {over}")
        _explained(of, what, shown.sweep.axis in figures.TILES)  # theory is flat there, so the steps are opened


@repeated
def _explained(of: Quantity, what: str, opened: bool) -> None:
    """How a quantity grows, and what changes at its steps."""
    if of.growth:
        with st.container(key=f"numbers of {what}"):
            st.markdown(of.growth, unsafe_allow_html=True)
        st.caption(of.note)
    if of.steps:
        steps_of = st.expander("What changes where the curve has a step", expanded=opened)
        with steps_of, st.container(key=f"numbers of steps, {what}"):
            st.markdown(of.steps, unsafe_allow_html=True)
            for told in of.unexplained:
                st.markdown(told)
            st.caption("Formula, the GPU's counters, and the compiler's registers and shared memory where known.")


def _masked(readings: Sequence[Reading]) -> list[tuple[str, tuple[masking.Compiled, masking.Compiled]]]:
    """What the causal mask costs each kernel with recorded instructions: its time per tile, and its compiled loops."""
    found = []
    measured = [one for one in readings if one.witness == "hardware" and one.seconds]
    for masked in (one.experiment for one in measured if one.experiment.values["causal"]):
        plain, p = masked.with_(causal=False), masked.values
        pair = masking.compiled(masked.kernel, {name: p[name] for name in masking.TILE})
        seconds = {one.experiment: one.seconds for one in measured}
        if pair and plain in seconds:
            told = masking.timed(pair, seconds[plain] or 0.0, seconds[masked] or 0.0, p["seq_len"])
            found.append((told, pair))
    return found


def sweep_roofline(shown: Shown) -> None:
    """The limit of each kernel at one value of the axis: a memory level, or arithmetic; or a way to one that has it."""
    if values := _values(shown):
        _roofline_of(shown, values)
        return
    layout.header("Roofline")
    layout.prose("A roofline needs times and counters from a GPU. The source chosen here has none.")
    for name, sweep in {"this sweep": shown.sweep, **dict([next(iter(READY.items()))])}.items():
        if key := _with_roofline(sweep):
            label = f"Show the record of {name}"
            st.button(label, icon=":material/table_chart:", key="show record", on_click=_show, args=(name, sweep, key))
            return


def _with_roofline(sweep: Sweep) -> str | None:
    """The key of the first record with times and counters of this sweep; None without one."""
    records = ((key, recorded(sweep, one.record)) for key, one in records_there().items())
    return next((key for key, found in records if any(one.seconds and one.bytes for one in found)), None)


def _show(name: str, sweep: Sweep, key: str) -> None:
    """Chooses this sweep and its record; `name` is that of a ready-made one, or of the one that is shown."""
    if name in READY:
        st.session_state["sweep"] = name
    choose_source(sweep in READY.values(), key)


EXPONENTIALS_ALONE = " The dashed line counts exponentials alone, and no percent is a share of it."


@st.fragment
def _roofline_of(shown: Shown, values: Sequence[Value]) -> None:
    softmax = any(one.experiment.entry.family == "softmax" for one in shown.readings)
    words, picture = layout.sides("Roofline", WIDE)
    with words:
        layout.prose(
            "A point is a kernel. It cannot lie above a roof. The flat roof is the highest rate of the arithmetic "
            "units. The slanted roof is the bandwidth of a level of memory × the **arithmetic intensity**, the FLOPs "
            "per byte that passes there. The percent of a kernel is its share of the lowest of these roofs. At another "
            "level the speed stays and the number of bytes changes, so the points move left or right."
            f"{EXPONENTIALS_ALONE if softmax else ''}\n\n"
            f"**Our rule**: a roof limits a kernel that reaches at least {percent(figures.MOSTLY)} of it, and partly "
            f"limits one from {percent(figures.PARTLY)} on. Under {percent(figures.PARTLY)} of every roof, something "
            "else limits it. It can be **latency**: warps wait for loads, for a barrier or for the step before. It can "
            f"be instructions other than {'these' if softmax else 'matmuls'}: this chart has no roof for them."
        )
        _roofline_at_a_value(shown, picture, values)


def _roofline_at_a_value(shown: Shown, picture: DeltaGenerator, values: Sequence[Value]) -> None:
    if shown.runs == "hardware" and not shown.roofs:
        _measure_roofs()
    value = values[-1]
    across, along = picture.columns([2, 3], gap="large")
    if len(values) > 1:
        value = along.select_slider(
            figures.axis_title(shown.sweep.axis),
            values,
            value=values[len(values) * 2 // 3],
            key=f"roofline of {shown.sweep.key}",
            format_func=functools.partial(figures.category, shown.sweep.axis),
        )
    points = _points(shown, value)
    if not points:
        st.info("No bytes were counted here, so the arithmetic intensity is unknown.")
        return
    there = {level for point in points if (level := point.level)}
    names = {name: level for level, name in roofline.LEVEL_NAMES.items() if level in there}
    level = names[pick("Bytes at", names, "roof", place=across)]
    of = _roofline(shown, value, level)
    layout.prose(of.nearest)
    layout.chapter_link("speed", "What the warps wait for, measured: Speed →")
    with picture:
        chart(of.chart, "roofline")
        _shares(of)
        sourced(f"{_source(shown)} · FLOPs: formula, softmax included; bytes: L2 cold; {of.source}")


@dataclass(frozen=True, eq=False)
class Roofline:
    """The roofline of a level at one value of the axis: its chart, the nearest roof of each kernel in words, the tables
    of the shares of each roof and of the roofs, and how both were measured.
    """

    chart: go.Figure
    nearest: str
    shares: str
    measured: str
    source: str


@kept
def _values(shown: Shown) -> Sequence[Value]:
    """The values of the axis that have a point in a roofline."""
    known = (reading for reading in shown.readings if reading.seconds and reading.bytes)
    return list(dict.fromkeys(reading.experiment.values[shown.sweep.axis] for reading in known))


@kept
def _points(shown: Shown, value: Value) -> Sequence[RooflinePoint]:
    readings = [one for one in shown.readings if one.experiment.values[shown.sweep.axis] == value]
    return roofline_points(readings, shown.roofs)


@kept
def _roofline(shown: Shown, value: Value, level: str) -> Roofline:
    every, roofs = _points(shown, value), shown.roofs
    points = [point for point in every if point.level == level]
    figure = roofline.roofline(points, roofs)
    titled(figure, roofline.takeaway(points))
    other = roofline.other_rate(every, roofs)
    return Roofline(
        figure,
        "\n".join(f"- {sentences.begins(one)}" for one in roofline.nearest(every, level)),
        roofline.roofline_table(every),
        roofline.roofs_table(roofs) if roofs else "",
        f"roofs: micro-benchmarks{other and f'; {other}'}",
    )


@repeated
def _shares(of: Roofline) -> None:
    with st.expander("Each kernel's share of each roof"), st.container(key="numbers of the roofline"):
        st.markdown(of.shares)
    if of.measured:
        with st.expander("How the roofs were measured"):
            st.markdown(of.measured)


def sweep_points(shown: Shown) -> None:
    """Every point as a table, and as CSV."""
    with st.expander(f"All {len(shown.readings)} points"), st.container(key="numbers of the sweep"):
        st.markdown(_points_table(shown))
    csv_download("All points as CSV", shown.csv, f"tilescope-sweep-{shown.sweep.axis}", key="csv of the sweep")


@kept
def _points_table(shown: Shown) -> str:
    return figures.points_table(shown.sweep, shown.readings)


def closing(shown: Shown | None) -> None:
    """Things to try, sources."""
    if shown and shown.readings:
        there = f"The questions compare two kernels: choose two, or open [{next(iter(READY))}](./sweeps)."
        ask(
            "sweeps",
            exercises.QUESTIONS,
            _about(shown),
            f"{shown.sweep.key} {shown.source} {len(shown.readings)}",
            there,
        )
    layout.closing("sweeps")


@kept
def _about(shown: Shown) -> exercises.Shown:
    return exercises.Shown(shown.sweep, shown.readings)


def _source(shown: Shown) -> str:
    """The source of the numbers, and the fixed parameters."""
    held = ", ".join(f"{name} = {figures.said(value)}" for name, value in shown.sweep.fixed)
    some = f" · {len(shown.readings)} of {shown.total} points" if len(shown.readings) < shown.total else ""
    return f"{shown.source}{some} · {held}"


def _measure_roofs() -> None:
    job = on_request(
        "Measure this GPU's roofs",
        "measure roofs",
        "measuring, about 10 seconds",
        lambda job: engine().roofs(cancel=job.cancel),
        ":material/roofing:",
    )
    if job and job.result and not _roofs_kept():
        _roofs_kept().update(job.result)
        st.rerun()


@st.cache_resource(show_spinner=False)
def _roofs_kept() -> dict[str, Roof]:
    """This machine's roofs, if they were measured."""
    return {}
