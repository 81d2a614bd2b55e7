"""The opening's values: what it draws, from the trace of `lessons.OPENING`, and the bytes of `kernels.traffic`."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from explain import glossary
from explain.beats import ORDINALS, beats, step_of
from explain.experiment import Experiment
from explain.figures.numbers import count, moved, percent, ratio
from explain.gpus import DEFAULT, GPUS
from explain.lessons import OPENING, STANDARD
from explain.trace.model import Trace, numbers
from kernels.inputs import labels
from kernels.parameters import ITEM_BYTES
from kernels.traffic import Traffic

Floats = NDArray[np.float32]

LENGTHS = tuple(2**power for power in range(6, 18))
"""N on the slider: this sentence's 64 tokens to 131,072."""
COMPUTED_DTYPE = "fp16"
"""The format of the formulas' numbers, for more tokens than the run has. The chapters have it too: `lessons.LONG` and
the bytes of S."""
SECONDS = {
    "sentence": 4.5, "scores": 3.5, "scale": 4.5, "trips": 4, "tile": 3.5, "row": 4, "larger": 4, "join": 6, "next": 8,
    "write": 6, "programs": 6, "bills": 9,
}  # fmt: skip
"""How long each scene plays. The insight, *larger*, comes within half a minute; a reader who wants longer pauses."""
LARGE = {"block_m": 128, "block_n": 128, "dtype": COMPUTED_DTYPE}
"""What the bytes at the largest N are computed for: the tiles that fast kernels have, in COMPUTED_DTYPE."""

SAID = {
    "token": ("token", "tokens"),
    "query": ("query", "queries", "Q"),
    "key": ("key", "keys", "K", "Kᵀ"),
    "value": ("value", "values", "V"),
    "scores": ("score", "scores", "S", "S = QKᵀ / √d", "S\xa0=\xa0QKᵀ\xa0/\xa0√d"),
    "weights": ("P",),
    "output": ("output", "O"),
    "accumulator": ("Õ",),
    "running max": ("m",),
    "running sum": ("ℓ",),
    "rescale factor": ("α",),
    "on chip": ("chip", "on chip"),
    "sequence length": ("N",),
    "standard attention": ("Standard attention", "standard attention"),
    **{name: (name,) for name in ("softmax", "HBM", "tile", "FlashAttention-2")},
    "program": ("programs",),
}
"""By term of the glossary: the words and symbols of the scenes that it explains."""


@dataclass(frozen=True)
class Run:
    """What the opening takes from a trace with `tiles` tiles of keys, all float32.

    q, o: (N, d). k, v: (N, d). s: (N, N), scaled scores. m, l, alpha, added: (tiles, N), the running max and sum after
    each tile, the rescale factor and the sum of the tile's exponentials. acc: (tiles, N, d), Õ after each tile. `row`
    is the row to follow: of those in the first tile that rescales one, the row that shrinks most.
    """

    q: Floats
    k: Floats
    v: Floats
    s: Floats
    m: Floats
    l: Floats  # noqa: E741
    alpha: Floats
    added: Floats
    acc: Floats
    o: Floats
    row: int


def run_of(trace: Trace, experiment: Experiment) -> Run:
    """The values of an attention run that keeps Õ on chip: a program per tile of queries, a visit per tile of keys.

    Raises ValueError if no row is rescaled.
    """
    p, roles = experiment.values, experiment.entry.roles
    rows, cols, dims, block_m, block_n = (p[name] for name in ("seq_len", "kv_len", "head_dim", "block_m", "block_n"))
    q, k, v, o = (np.zeros((side, dims), np.float32) for side in (rows, cols, cols, rows))
    s = np.zeros((rows, cols), np.float32)
    m, l, alpha, added = (np.zeros((-(-cols // block_n), rows), np.float32) for _ in range(4))  # noqa: E741
    acc = np.zeros((len(m), rows, dims), np.float32)
    ends = {(beat.program, beat.tile): beat.end for beat in beats(trace, roles)}
    for (program, tile), end in ends.items():
        mine, state = slice(program * block_m, (program + 1) * block_m), trace.state(end - 1)
        if tile < 0:
            q[mine], o[mine] = numbers(state["q"]), numbers(state[roles["output"]])
            continue
        keys = slice(tile * block_n, (tile + 1) * block_n)
        k[keys], v[keys], s[mine, keys] = (numbers(state[name]) for name in ("k", "v", roles["scores"]))
        for name, kept in (("running_max", m), ("running_sum", l), ("rescale", alpha), ("accumulator", acc)):
            kept[tile, mine] = numbers(state[roles[name]])
        added[tile, mine] = numbers(state[roles["exponentials"]]).sum(axis=1)
    shrunk = np.argwhere(alpha[1:] < 1)
    if not len(shrunk):
        raise ValueError("no row of this run is rescaled")
    tile, begin = int(shrunk[0][0]) + 1, int(shrunk[0][1]) // block_m * block_m
    return Run(q, k, v, s, m, l, alpha, added, acc, o, begin + int(alpha[tile, begin : begin + block_m].argmin()))


@dataclass(frozen=True)
class Scene:
    """One scene: what scenes.js draws, for how many seconds, its sentence, and the page, step and row of its line.

    `row` is counted in the tile.
    """

    name: str
    seconds: float
    sentence: str
    page: str
    step: int
    row: int

    @property
    def link(self) -> str:
        """The address of its line, in the player of its page."""
        return f"{self.page}?step={self.step}&row={self.row}#player"


def scenes(run: Run, flash: Trace, standard: Trace) -> tuple[Scene, ...]:
    """The scenes in order; each leads to the step of an event in the trace of OPENING or of STANDARD."""
    p, roles, row = OPENING.values, OPENING.entry.roles, run.row
    block_m, block_n = p["block_m"], p["block_n"]
    tile = int((run.alpha[1:, row] < 1).argmax()) + 1
    programs = -(-p["seq_len"] // block_m)
    dot = f"first set of {roles['scores']}"  # before the mask
    told: Sequence[tuple[str, Experiment, str, str]] = (
        ("sentence", OPENING, "first load of q",
         "Attention gives each token a query, key and value, in GPU memory."),
        ("scores", OPENING, dot, "Every query meets every key: S\xa0=\xa0QKᵀ\xa0/\xa0√d."),
        ("scale", STANDARD, "first write of s", "Twice the tokens, four times the scores. S outgrows the chip."),
        ("trips", STANDARD, "first load of p",
         "Standard attention writes S, reads it, writes P\xa0=\xa0softmax(S), reads it."),
        ("tile", OPENING, dot,
         f"Instead, keep {block_m} queries on chip. Bring {block_n} keys: one tile of S."),
        ("row", OPENING, f"first new maximum of row {row}",
         "Softmax needs two numbers per row: the maximum m and the sum ℓ."),
        ("larger", OPENING, f"{ORDINALS[tile]} set of {roles['rescale']}",
         "A larger score comes. The old sum used the old maximum: multiply it by α."),
        ("join", OPENING, f"first rescale of row {row}",
         "The old sum ℓ is multiplied by α, and the new terms join it."),
        ("next", OPENING, f"second drop of row {row}", "The tile is dropped. The next comes. m, ℓ and Õ stay."),
        ("write", OPENING, "first write of o",
         "After the last tile, O\xa0=\xa0Õ\xa0÷\xa0ℓ is written to HBM, once."),
        ("programs", OPENING, "last scores",
         f"The same run again, all {programs} programs at once: the whole S never exists."),
        ("bills", OPENING, "first write of o", "The same result, up to rounding. S never goes to HBM."),
    )  # fmt: skip
    traces = {OPENING: (flash, "flash_attention"), STANDARD: (standard, "memory_hierarchy")}

    def scene(name: str, experiment: Experiment, event: str, sentence: str) -> Scene:
        trace, page = traces[experiment]
        step = step_of(trace, experiment.entry.roles, event)
        own = trace.program(step).id[0] == row // block_m
        return Scene(name, SECONDS[name], sentence, page, step, row % block_m if own else 0)

    return tuple(scene(*one) for one in told)


def size(tokens: int) -> dict[str, Any]:
    """S of one head at N = `tokens` in COMPUTED_DTYPE: its bytes beside all shared memory, its four trips to HBM."""
    item, chip = ITEM_BYTES[COMPUTED_DTYPE], GPUS[DEFAULT].shared_bytes_all
    formula = _traffic(STANDARD, tokens, dtype=COMPUTED_DTYPE)
    trips = [term.bytes for term in formula.terms if term.buffer in ("s", "p")]
    whole = tokens * tokens * item
    return {
        "tokens": tokens,
        "n": count(tokens),
        "bytes": whole,
        "s": moved(whole),
        "chips": ratio(whole / chip),
        "trips": [moved(trip) for trip in trips],
        "all": moved(sum(trips)),
    }


def bill(experiment: Experiment, traffic: Traffic) -> dict[str, Any]:
    """The bytes of one kernel between HBM and the chip, buffer by buffer, in the order of the formula's terms.

    A part is (buffer, bytes, the bytes in words).
    """
    buffers: dict[str, int] = {}
    for term in traffic.terms:
        buffers[term.buffer] = buffers.get(term.buffer, 0) + term.bytes
    total = sum(buffers.values())
    parts = [(name, each, moved(each)) for name, each in buffers.items()]
    return {"name": experiment.entry.short, "total": moved(total), "bytes": total, "parts": parts}


def bills(tokens: int, **changed: Any) -> dict[str, Any]:
    """The bills of both kernels at N = `tokens`, with the run's other parameters where they are not `changed`."""
    each = [bill(one, _traffic(one, tokens, **changed)) for one in (STANDARD, OPENING)]
    standard, flash = (one["bytes"] for one in each)
    p = {**OPENING.values, **changed}
    return {
        "size": f"{count(tokens)} tokens, d = {p['head_dim']}, {p['dtype']}, tiles {p['block_m']} × {p['block_n']}",
        "each": each,
        "share": percent(flash / standard),
    }


def _traffic(experiment: Experiment, tokens: int, **changed: Any) -> Traffic:
    """The bytes and FLOPs of the same attention at another N, by formula; no inputs are made."""
    return experiment.entry.formula({**experiment.values, "seq_len": tokens, "kv_len": tokens, **changed})


def words() -> list[str]:
    """The tokens of the run."""
    named = labels(OPENING.preset, OPENING.values)
    return list(named[0] if named else map(str, range(OPENING.values["seq_len"])))


def packet(run: Run, flash: Trace, standard: Trace) -> str:
    """All that the opening draws, as JSON. Arrays are base64 of little-endian float32, row-major.

    run: `flash` as `run_of` reads it.  flash, standard: the traces of OPENING and STANDARD.
    """
    p = OPENING.values
    chip, told = GPUS[DEFAULT], scenes(run, flash, standard)
    written = next(scene.step for scene in told if scene.name == "write")
    drawn = ("q", "k", "v", "s", "m", "l", "alpha", "added", "acc", "o")
    shown = {
        "tokens": words(),
        "dims": p["head_dim"],
        "block": [p["block_m"], p["block_n"]],
        "row": run.row,
        "arrays": {name: _encoded(getattr(run, name)) for name in drawn},
        "sizes": [size(tokens) for tokens in LENGTHS],
        "chip": {
            "name": chip.name,
            "sms": chip.sms,
            "bytes": chip.shared_bytes_all,
            "text": moved(chip.shared_bytes_all),
        },
        "bills": [bills(p["seq_len"]), bills(LENGTHS[-1], **LARGE)],
        "formats": {"recorded": p["dtype"], "computed": COMPUTED_DTYPE},
        "item": ITEM_BYTES[COMPUTED_DTYPE],
        "written": f"{count(sum(access.bytes for access in flash.accesses(written)))} B",
        "scenes": [{**asdict(one), "link": one.link} for one in told],
        "terms": {word: _definition(term) for term, words in SAID.items() for word in words},
    }
    return json.dumps(shown, ensure_ascii=False, allow_nan=False)


def _definition(name: str) -> str:
    term = glossary.find(name)
    assert term, name
    return term.definition


def _encoded(values: Floats) -> str:
    return base64.b64encode(values.astype("<f4").tobytes()).decode()
