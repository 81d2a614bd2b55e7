"""Two runs beside each other: what each kernel opens on there, and what tells two runs apart."""

from __future__ import annotations

from collections.abc import Sequence

from explain import lessons
from explain.experiment import Experiment, ParameterError
from kernels.catalog import CATALOG


def opening(kernel: str) -> Experiment:
    """What a kernel opens on: the short sentence, or the notebook's row, so that any two of a family fit together."""
    like = lessons.ONLINE if CATALOG[kernel].family == "softmax" else lessons.SHORT
    own = {parameter.name for parameter in CATALOG[kernel].parameters}
    given = {name: value for name, value in like.values.items() if name in own}
    try:
        return Experiment.of(kernel, given, like.inputs)
    except ParameterError:  # a tile of its own kind, such as one that must hold the whole row
        return Experiment.of(kernel, {n: v for n, v in given.items() if not n.startswith("block_")}, like.inputs)


def controls_of(kernel: str) -> list[str]:
    """The parameters that the page lets one choose, in order."""
    wanted = ("seq_len", "kv_len", "cols", "block_m", "block_n", "dtype", "causal")
    own = {parameter.name for parameter in CATALOG[kernel].parameters}
    return ["inputs", *(name for name in wanted if name in own)]


def titles(experiments: Sequence[Experiment]) -> list[str]:
    """What each run is called: its kernel's title, and where that is the same, the parameters in which they differ."""
    left, right = experiments
    names = [experiment.entry.title for experiment in experiments]
    if left.kernel != right.kernel:
        return names
    settings = [{"inputs": one.inputs, "seed": one.seed, **one.values} for one in experiments]
    told = [name for name in settings[0] if settings[0][name] != settings[1][name]]
    if not told:
        return names
    said = [", ".join(f"{name} {str(setting[name]).replace('_', ' ')}" for name in told) for setting in settings]
    return [f"{title}, {words}" for title, words in zip(names, said, strict=True)]
