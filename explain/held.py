"""What one variable of a recorded run held after any step. `Trace.state` replays the call for all of its variables."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict

from explain.trace.model import Trace, Value


class Held:
    """The values of the variable `name`, in each function that has one."""

    def __init__(self, trace: Trace, name: str) -> None:
        self._trace = trace
        self._steps: dict[int, list[int]] = defaultdict(list)  # by function: the steps that set it
        self._values: dict[int, list[Value]] = defaultdict(list)
        for step, value in trace.history(name):
            function = int(trace.columns.source[step])
            self._steps[function].append(step)
            self._values[function].append(value)

    def after(self, step: int) -> Value | None:
        """The value in the function that runs at `step`; None if its program has not set one."""
        function = int(self._trace.columns.source[step])
        last = bisect_right(self._steps[function], step) - 1
        if last < 0 or self._steps[function][last] < self._trace.program(step).first_step:
            return None
        return self._values[function][last]
