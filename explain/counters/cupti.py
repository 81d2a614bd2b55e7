"""A thin binding of CUPTI's Range Profiler (CUDA 12.6 and newer): it runs a launch and returns the values of metrics.

Source: NVIDIA, CUPTI documentation, "Range Profiling API". The library comes with torch, as the package
nvidia-cuda-cupti. A process may load only one libcupti, so torch's own is tried first. Imports no torch: the caller
synchronises.
"""

from __future__ import annotations

import ctypes
import importlib.util
from collections.abc import Callable, Mapping, Sequence
from ctypes import POINTER, c_char_p, c_double, c_int, c_size_t, c_uint8, c_uint16, c_uint32, c_void_p
from pathlib import Path
from typing import Any

from explain import data
from explain.counters import errors

USER_RANGE, USER_REPLAY = 2, 3
INVALID_METRIC = 17
MOST_PASSES = 64

_TYPES: Mapping[str, Any] = {
    "int": c_int, "size_t": c_size_t, "uint8": c_uint8, "uint16": c_uint16, "uint32": c_uint32, "void_p": c_void_p,
    "char_p": c_char_p, "names": POINTER(c_char_p), "doubles": POINTER(c_double),
}  # fmt: skip


def _fields(signature: str) -> tuple[tuple[str, Any], ...]:
    pairs = (field.split() for field in signature.split(", ") if field)
    return tuple((name, _TYPES[kind]) for kind, name in pairs)


SIGNATURES = {function: _fields(signature) for function, signature in data(__file__).items()}
"""The fields of each function's structure, after the two that all have: its size, and a pointer that stays null."""


class Cupti:
    """One libcupti. `functions` has CUPTI's functions as attributes, like `ctypes.CDLL`."""

    def __init__(self, functions: Any, path: str = "") -> None:
        self._functions, self.path = functions, path

    @classmethod
    def load(cls) -> Cupti:
        """The libcupti that torch uses, or the CUDA toolkit's. Raises CountersUnavailable."""
        for path in libraries():
            try:
                for beside in ("libnvperf_host.so", "libnvperf_target.so"):  # CUPTI loads them by name alone
                    ctypes.CDLL(str(path.parent / beside), mode=ctypes.RTLD_GLOBAL)
                return cls(ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL), str(path))
            except OSError:
                continue
        raise errors.no_library()

    def ask(self, function: str, **fields: Any) -> Any:
        """Calls a function; returns its structure with what CUPTI wrote into it. Raises CountersUnavailable."""
        code, answer = self.try_(function, **fields)
        if code:
            raise errors.of_code(code, function, self._name(code))
        return answer

    def try_(self, function: str, **fields: Any) -> tuple[int, Any]:
        """(CUPTI's error code or 0, the structure)."""
        try:
            call = getattr(self._functions, function)
        except AttributeError:
            raise errors.of_code(11, function, "not in this library") from None
        all_fields = [("structSize", c_size_t), ("pPriv", c_void_p), *SIGNATURES[function]]
        structure = type(function, (ctypes.Structure,), {"_fields_": all_fields})
        last = getattr(structure, all_fields[-1][0])
        parameters = structure(structSize=last.offset + last.size, **fields)  # CUPTI's size has no padding at the end
        return int(call(ctypes.byref(parameters))), parameters

    def _name(self, code: int) -> str:
        text = c_char_p()
        self._functions.cuptiGetResultString(code, ctypes.byref(text))
        return text.value.decode() if text.value else "unknown"


def libraries() -> list[Path]:
    """The paths of every libcupti that has libnvperf_host beside it, torch's own first."""
    spec = importlib.util.find_spec("nvidia")
    folders = [Path(place) for place in (spec.submodule_search_locations or ())] if spec else []
    found = [path for folder in folders for path in sorted(folder.glob("*/lib/libcupti.so.*"), reverse=True)]
    for folder in ("extras/CUPTI/lib64", "lib64", "lib"):
        found += sorted(Path("/usr/local/cuda", folder).glob("libcupti.so.1?"), reverse=True)
    return [path for path in found if (path.parent / "libnvperf_host.so").exists()]


def current_context() -> int:
    """The CUDA context of this thread. Raises CountersUnavailable if there is none."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        raise errors.no_driver() from None
    context = c_void_p()
    if driver.cuCtxGetCurrent(ctypes.byref(context)) or not context.value:
        raise errors.no_context()
    return context.value


class RangeProfiler:
    """Counts metrics over ranges of GPU work. `metrics` are the wanted ones that this chip has, by what they count."""

    method = "CUPTI Range Profiler, in this process"

    def __init__(
        self,
        cupti: Cupti,
        wanted: Mapping[str, Sequence[str]],
        context: int,
        synchronize: Callable[[], object],
        chip: str = "",
    ) -> None:
        """`wanted`: what to count -> names of its metric; the first on this chip is used. `chip`: "" is this GPU."""
        self._cupti, self._context, self._synchronize = cupti, context, synchronize
        if not chip:
            cupti.ask("cuptiProfilerInitialize")
            chip = cupti.ask("cuptiDeviceGetChipName", deviceIndex=0).pChipName.decode()
        self.chip = chip
        self._host = cupti.ask("cuptiProfilerHostInitialize", pChipName=chip.encode()).pHostObject
        self.metrics = {
            what: next(name for name in names if self._has(name))
            for what, names in wanted.items()
            if any(self._has(name) for name in names)
        }
        self.lacking = tuple(what for what in wanted if what not in self.metrics)
        names = [name.encode() for name in self.metrics.values()]
        self._names = (c_char_p * len(names))(*names)
        counted = {"ppMetricNames": self._names, "numMetrics": len(names)}
        cupti.ask("cuptiProfilerHostConfigAddMetrics", pHostObject=self._host, **counted)
        size = cupti.ask("cuptiProfilerHostGetConfigImageSize", pHostObject=self._host).configImageSize
        self._config = ctypes.create_string_buffer(size)
        image = {"configImageSize": size, "pConfigImage": ctypes.addressof(self._config)}
        cupti.ask("cuptiProfilerHostGetConfigImage", pHostObject=self._host, **image)
        self.passes = int(cupti.ask("cuptiProfilerHostGetNumOfPasses", **image).numOfPasses)

    def _has(self, metric: str) -> bool:
        function = "cuptiProfilerHostGetMetricProperties"
        code, _ = self._cupti.try_(function, pHostObject=self._host, pMetricName=metric.encode())
        if code not in (0, INVALID_METRIC):
            raise errors.of_code(code, function, metric)
        return code == 0

    def count(self, prepare: Callable[[], object], *ranges: Callable[[], object]) -> list[dict[str, float]]:
        """What each range counted, by name; NaN if the GPU gave no value.

        In each pass `prepare` runs uncounted, then every range runs once. The GPU's counters are released in any case.
        Raises CountersUnavailable, and whatever a range raises.
        """
        ask = self._cupti.ask
        self._synchronize()
        profiler = ask("cuptiRangeProfilerEnable", ctx=self._context).pRangeProfilerObject
        mine = {"pRangeProfilerObject": profiler}
        try:
            size = ask(
                "cuptiRangeProfilerGetCounterDataSize",
                **mine,
                pMetricNames=self._names,
                numMetrics=len(self._names),
                maxNumOfRanges=len(ranges),
                maxNumRangeTreeNodes=len(ranges),
            ).counterDataSize
            image = ctypes.create_string_buffer(size)
            address = ctypes.addressof(image)
            ask("cuptiRangeProfilerCounterDataImageInitialize", **mine, counterDataSize=size, pCounterData=address)
            ask(
                "cuptiRangeProfilerSetConfig",
                **mine,
                configSize=len(self._config),
                pConfig=ctypes.addressof(self._config),
                counterDataImageSize=size,
                pCounterDataImage=address,
                range=USER_RANGE,
                replayMode=USER_REPLAY,
                maxRangesPerPass=len(ranges),
                numNestingLevels=1,
                minNestingLevel=1,
                targetNestingLevel=1,
            )
            for _ in range(MOST_PASSES):
                ask("cuptiRangeProfilerStart", **mine)
                prepare()  # after the start, which writes megabytes that must not leave L2 within a range
                self._synchronize()
                for number, work in enumerate(ranges):
                    ask("cuptiRangeProfilerPushRange", **mine, pRangeName=str(number).encode())
                    work()
                    self._synchronize()
                    ask("cuptiRangeProfilerPopRange", **mine)
                if ask("cuptiRangeProfilerStop", **mine).isAllPassSubmitted:
                    break
            ask("cuptiRangeProfilerDecodeData", **mine)
            return [self._values(address, size, number) for number in range(len(ranges))]
        finally:
            self._cupti.try_("cuptiRangeProfilerDisable", **mine)

    def _values(self, image: int, size: int, number: int) -> dict[str, float]:
        values = (c_double * len(self.metrics))()
        self._cupti.ask(
            "cuptiProfilerHostEvaluateToGpuValues",
            pHostObject=self._host,
            pCounterDataImage=image,
            counterDataImageSize=size,
            rangeIndex=number,
            ppMetricNames=self._names,
            numMetrics=len(self._names),
            pMetricValues=values,
        )
        return dict(zip(self.metrics, values, strict=True))
