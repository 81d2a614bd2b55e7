"""Why counters cannot be read, and how to fix it."""

from __future__ import annotations


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


_PROFILER_OPEN = (
    "Another profiler is using the counters.",
    "Close ncu, nsys, torch.profiler or a monitor such as DCGM on this GPU, then count again.",
)
PERMISSION = "ERR_NVGPUCTRPERM"
_PERMISSION = (
    f"This user may not read the GPU's counters ({PERMISSION}).",
    'As root, put the line "options nvidia NVreg_RestrictProfilingToAdminUsers=0" into '
    "/etc/modprobe.d/nvidia-counters.conf and restart the machine; or run as root; in a container, start it with "
    "--cap-add=SYS_ADMIN.",
)
_NOT_STARTED = (
    "CUDA had not started when the counters were opened, or CUPTI has an internal error.",
    "Run a kernel on the GPU first, then count. If that does not help, restart the app.",
)
_TOO_OLD = (
    "This CUPTI cannot read this GPU's counters by ranges, which needs CUDA 12.6.",
    "Run: pip install --upgrade nvidia-cuda-cupti, in the version of the driver's CUDA.",
)
_CODES = {
    8: ("The GPU's memory is full.", "Choose smaller sizes, or end other programs on this GPU."),
    11: _TOO_OLD,
    14: _TOO_OLD,
    15: _NOT_STARTED,
    26: _PROFILER_OPEN,
    27: (
        "This GPU's counters cannot be read: the GPU is older than Turing, or its driver is too old.",
        "Update the driver.",
    ),
    33: (
        "This is a virtual GPU, and its host does not share the counters.",
        "Ask for a whole GPU, or ask the host's administrator to allow profiling.",
    ),
    35: _PERMISSION,
    36: _PROFILER_OPEN,
    39: _PROFILER_OPEN,
    40: _PERMISSION,
    41: ("Confidential computing hides the counters.", "Count on a GPU without it."),
    42: ("This is a mining GPU, which has no counters.", "Count on another GPU."),
    43: ("This is a slice of a GPU (MIG), which shares its memory with others.", "Ask for a whole GPU."),
    44: ("The GPU is linked to another by SLI.", "Switch SLI off."),
    45: (
        "Windows does not let Linux (WSL) read the counters.",
        "In NVIDIA's Control Panel, allow counters to all users.",
    ),
    46: ("This CUPTI is older than the GPU and does not know it.", "Run: pip install --upgrade nvidia-cuda-cupti."),
    999: _NOT_STARTED,
}


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
