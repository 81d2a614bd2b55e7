"""What two runs beside each other are called, so that nobody has to remember which is which."""

from __future__ import annotations

from collections.abc import Sequence

from explain.experiment import Experiment
from explain.ui.controls import labels_of
from kernels.catalog import KERNELS


def titles(experiments: Sequence[Experiment]) -> list[str]:
    """Each run's title: its kernel's, and of two runs of the same kernel also the controls that differ."""
    names = [kernel_title(experiment.kernel) for experiment in experiments]
    if len(experiments) < 2 or len({experiment.kernel for experiment in experiments}) > 1:
        return names
    settings = [{"inputs": one.inputs, "seed": one.seed, **one.values} for one in experiments]
    told = [name for name in settings[0] if settings[0][name] != settings[1][name]]
    if not told:
        return names
    labels = [labels_of(experiments[0].kernel).get(name, name).split(",")[0] for name in told]
    called = [label[0].lower() + label[1:] for label in labels]
    values = [[str(setting[name]).replace("_", " ") for name in told] for setting in settings]
    said = [", ".join(map(" ".join, zip(called, own, strict=True))) for own in values]
    return [f"{title}, {words}" for title, words in zip(names, said, strict=True)]


def kernel_title(kernel: str) -> str:
    """The kernel's title; of one with a changed line after that of the kernel that it was made from."""
    entry = KERNELS[kernel]
    return f"{KERNELS[entry.base].title}, {entry.title}" if entry.edit else entry.title
