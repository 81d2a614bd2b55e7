"""Why counters cannot be read, and how to fix it."""

from __future__ import annotations

from explain import data


class CountersUnavailable(RuntimeError):
    """Counters cannot be read here: the `cause` and a `remedy`. The worker itself is fine."""

    def __init__(self, cause: str, remedy: str) -> None:
        super().__init__(f"{cause} {remedy}".strip())
        self.cause, self.remedy = cause, remedy


def no_driver() -> CountersUnavailable:
    """There is no libcuda."""
    return CountersUnavailable(
        "No NVIDIA driver was found, so no GPU counters can be read.",
        "Install the driver, or use the formula, the trace and recorded counters.",
    )


def no_context() -> CountersUnavailable:
    """There is a driver, but nothing has run on the GPU yet."""
    return CountersUnavailable("CUDA has not started in this process.", "Run a kernel on the GPU first, then count.")


def no_library() -> CountersUnavailable:
    """There is no libcupti that can be loaded."""
    return CountersUnavailable(
        "CUPTI, NVIDIA's library that reads the counters, was not found together with libnvperf_host.",
        "Run: pip install nvidia-cuda-cupti (for CUDA 12: nvidia-cuda-cupti-cu12).",
    )


PERMISSION = "ERR_NVGPUCTRPERM"
_CODES = {code: (one["cause"], one["remedy"]) for one in data(__file__)["error"] for code in one["codes"]}


def of_code(code: int, function: str, name: str) -> CountersUnavailable:
    """The error of a CUPTI function by its code, with CUPTI's own name for it."""
    cause, remedy = _CODES.get(code, ("CUPTI failed.", "Restart the app. If that does not help, update the driver."))
    return CountersUnavailable(cause, f"{remedy} ({function}: {name}, {code})")


def not_trusted(found: str) -> CountersUnavailable:
    """A copy of known size was counted wrong."""
    return CountersUnavailable(
        f"The counters are wrong: {found}.",
        "End other programs on this GPU and count again. Until then, trust the formula and the trace.",
    )
