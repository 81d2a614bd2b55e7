"""A GPU's rates as this page uses them: measured where a record has them, else the datasheet's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from explain.chapters.decoding.programs import DTYPE
from explain.gpus import GPUS, Gpu, known_as
from explain.records.model import Record


def rated(gpu: Gpu, records: Sequence[Record]) -> Gpu:
    """The GPU with the rates of reading and of 16-bit matmuls of its first record that has both, and their source."""
    for record in records:
        read, matmul = (record.roofs.get(level) for level in ("hbm", f"matmul {DTYPE}"))
        if known_as(record.gpu) == gpu.name and read and matmul:
            return replace(
                gpu,
                hbm_bytes_per_second=read.per_second,
                tensor_flops_per_second=matmul.per_second,
                source=f"rates of reading and of {DTYPE} matmuls measured, {record.provenance.words}",
            )
    return gpu


def bandwidth(gpu: Gpu) -> str:
    """What its bandwidth is, in words."""
    same = gpu.hbm_bytes_per_second == GPUS[gpu.name].hbm_bytes_per_second
    return "the datasheet's bandwidth" if same else "the measured rate of reading"
