"""What a launch, and `kernel.warmup`, return: on a GPU the compiled kernel; here nothing was compiled."""

from __future__ import annotations

import inspect
from collections import defaultdict
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

ANSWERS: Mapping[str, Any] = {
    "n_regs": 32,
    "n_spills": 0,
    "n_max_threads": 1024,
    "metadata": SimpleNamespace(shared=1024, num_warps=4, num_stages=3, num_ctas=1, cluster_dims=(1, 1, 1)),
    "asm": defaultdict(str),
}
"""What a small kernel might need: a launcher makes its grid from it."""


class Compiled:
    """Stands for a compiled kernel: `compiled[grid](…)` launches it, and what it takes on a GPU is answered by ANSWERS.

    `constants`: the arguments by name that it would be compiled for. `note` gets a sentence when ANSWERS are asked for.
    """

    def __init__(self, kernel: Any, constants: Mapping[str, Any], note: Callable[[str], None]) -> None:
        self.kernel, self.constants, self.note = kernel, constants, note
        self.name = kernel.fn.__name__

    def __getattr__(self, name: str) -> Any:
        if name not in ANSWERS:
            raise AttributeError(f"{self.name} was interpreted, not compiled: it has no {name}")
        self.note(
            f"{self.name} was not compiled: of its registers, shared memory and code the file was told those of a "
            f"small kernel ({ANSWERS['n_regs']} registers, {ANSWERS['metadata'].shared:,} bytes)"
        )
        return ANSWERS[name]

    def _init_handles(self) -> None:
        """Loads it onto the GPU."""

    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        def launch(*args: Any, **kwargs: Any) -> Any:
            parameters = inspect.signature(self.kernel.fn).parameters.values()
            names = [one.name for one in parameters]
            if len(args) < len(names):  # Triton 3.1 and older: without the constants
                names = [one.name for one in parameters if "constexpr" not in str(one.annotation)]
            constants = {name: value for name, value in self.constants.items() if name not in names[: len(args)]}
            return self.kernel[grid](**{**constants, **dict(zip(names, args, strict=False))})

        return launch
