"""Why counters cannot be read, and what to do about it, in words."""

from __future__ import annotations


class CountersUnavailable(RuntimeError):
    """Counters cannot be read here. `cause` says why, `remedy` what to do; the worker is well."""

    def __init__(self, cause: str, remedy: str) -> None:
        super().__init__(f"{cause} {remedy}".strip())
        self.cause, self.remedy = cause, remedy


def no_driver() -> CountersUnavailable:
    """There is no libcuda to ask."""
    return CountersUnavailable(
        "No NVIDIA driver was found, so there is no GPU whose counters could be read.",
        "Install the driver, or go on with the formula, the trace and recorded counters.",
    )


def no_context() -> CountersUnavailable:
    """There is a driver, and nothing ran on it yet."""
    return CountersUnavailable("CUDA has not started in this process.", "Run a kernel on the GPU first, then count.")


def no_library() -> CountersUnavailable:
    """There is no libcupti, or none that can be loaded."""
    return CountersUnavailable(
        "CUPTI, NVIDIA's library that reads the counters, was not found together with libnvperf_host.",
        "Run: pip install nvidia-cuda-cupti (for CUDA 12: nvidia-cuda-cupti-cu12).",
    )


_PROFILER_OPEN = (
    "Another profiler has the counters.",
    "Close ncu, nsys, torch.profiler or a monitor such as DCGM on this GPU, then count again.",
)
PERMISSION = "ERR_NVGPUCTRPERM"
_PERMISSION = (
    f"This user may not read the GPU's counters ({PERMISSION}).",
    'As root, put the line "options nvidia NVreg_RestrictProfilingToAdminUsers=0" into /etc/modprobe.d/nvidia-counters.conf and restart the '
    "machine; or run as root; in a container, start it with --cap-add=SYS_ADMIN.",
)
_NOT_STARTED = (
    "CUDA had not started when the counters were opened, or CUPTI failed inside.",
    "Run a kernel on the GPU first, then count; if it stays so, restart the app.",
)
_TOO_OLD = (
    "This CUPTI cannot read counters of this GPU by ranges: that came with CUDA 12.6.",
    "Run: pip install --upgrade nvidia-cuda-cupti, in the version of the driver's CUDA.",
)
_CODES = {
    8: ("The GPU's memory is full.", "Choose smaller sizes, or end what else runs on it."),
    11: _TOO_OLD,
    14: _TOO_OLD,
    15: _NOT_STARTED,
    26: _PROFILER_OPEN,
    27: ("This GPU's counters cannot be read: it is older than Turing, or its driver is.", "Update the driver."),
    33: (
        "This is a virtual GPU whose host keeps the counters.",
        "Ask for a whole GPU, or for profiling to be allowed.",
    ),
    35: _PERMISSION,
    36: _PROFILER_OPEN,
    39: _PROFILER_OPEN,
    40: _PERMISSION,
    41: ("Confidential computing hides the counters.", "Count on a GPU that runs without it."),
    42: ("This is a mining GPU, which has no counters to read.", "Count on another GPU."),
    43: ("This is a slice of a GPU (MIG), whose memory is shared with others.", "Ask for a whole GPU."),
    44: ("The GPU is linked to another by SLI.", "Switch SLI off."),
    45: ("Windows keeps the counters from Linux (WSL).", "In NVIDIA's Control Panel, allow counters to all users."),
    46: ("This CUPTI is older than the GPU and does not know it.", "Run: pip install --upgrade nvidia-cuda-cupti."),
    999: _NOT_STARTED,
}


def of_code(code: int, function: str, name: str) -> CountersUnavailable:
    """CUPTI's error: what `function` answered, and CUPTI's own name for it."""
    cause, remedy = _CODES.get(code, ("CUPTI failed.", "Restart the app; if it stays so, update the driver."))
    return CountersUnavailable(cause, f"{remedy} ({function}: {name}, {code})")


def not_trusted(found: str) -> CountersUnavailable:
    """A copy of known size was counted wrongly."""
    return CountersUnavailable(
        f"Counters not trusted: {found}.",
        "End what else runs on this GPU and count again; until then believe the formula and the trace.",
    )
