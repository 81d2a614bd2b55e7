"""A libcupti with no GPU behind it: answers as told, and keeps what it was asked."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any


class FakeCupti:
    """`codes`: function -> the error it answers. `lacks`: metrics the chip does not have. `values`: of every metric, a
    list a range.
    """

    def __init__(
        self, codes: dict[str, int] | None = None, lacks: tuple[str, ...] = (), values: Any = None, passes: int = 1
    ) -> None:
        self.codes, self.lacks, self.values, self.passes = codes or {}, lacks, values or [[1.0]], passes
        self.asked: list[str] = []
        self._left = passes

    def __getattr__(self, name: str) -> Callable[..., int]:
        if not name.startswith("cupti"):
            raise AttributeError(name)
        return lambda *arguments: self._answer(name, *arguments)

    def _answer(self, name: str, *arguments: Any) -> int:
        if name == "cuptiGetResultString":
            arguments[1]._obj.value = b"CUPTI_ERROR_OF_THE_TEST"
            return 0
        self.asked.append(name)
        if code := self.codes.get(name):
            return code
        p = arguments[0]._obj
        match name:
            case "cuptiDeviceGetChipName":
                p.pChipName = b"GH100"
            case "cuptiProfilerHostGetMetricProperties":
                return 17 if p.pMetricName.decode() in self.lacks else 0
            case "cuptiProfilerHostGetConfigImageSize":
                p.configImageSize = 64
            case "cuptiProfilerHostGetNumOfPasses":
                p.numOfPasses = self.passes
            case "cuptiRangeProfilerEnable":
                p.pRangeProfilerObject = 7
            case "cuptiRangeProfilerGetCounterDataSize":
                p.counterDataSize = 64
            case "cuptiRangeProfilerStop":
                self._left -= 1
                p.isAllPassSubmitted = self._left <= 0
            case "cuptiProfilerHostEvaluateToGpuValues":
                for number in range(p.numMetrics):
                    p.pMetricValues[number] = self.values[p.rangeIndex][number % len(self.values[p.rangeIndex])]
        assert p.structSize <= ctypes.sizeof(p)
        return 0
