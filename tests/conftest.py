"""Settings that every test shares: which Triton runs, which tests run where, how hypothesis searches."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from hypothesis import HealthCheck, settings

# Triton reads this once, when it is first imported, so it is set before any test module is. A worker of
# pytest-xdist has another command line and inherits the answer.
if "PYTEST_XDIST_WORKER" not in os.environ:
    os.environ["TRITON_INTERPRET"] = "0" if "--gpu" in sys.argv else "1"

settings.register_profile(
    "tilescope",
    database=None,
    deadline=None,  # kernels run in an interpreter, on busy cores
    derandomize="CI" in os.environ,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("tilescope")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add --gpu."""
    parser.addoption("--gpu", action="store_true", help="run the tests marked gpu, and only these")


def pytest_configure(config: pytest.Config) -> None:
    """Refuse --gpu where no GPU is: tests that cannot run must not look as if they had."""
    if config.getoption("--gpu") and not _has_cuda():
        raise pytest.UsageError("--gpu: PyTorch finds no CUDA GPU on this machine (see nvidia-smi)")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip gpu tests without --gpu; with it run nothing else: one process is compiled or interpreted."""
    if config.getoption("--gpu"):
        others = [item for item in items if not item.get_closest_marker("gpu")]
        items[:] = [item for item in items if item.get_closest_marker("gpu")]
        config.hook.pytest_deselected(items=others)
        return
    for item in items:
        if item.get_closest_marker("gpu"):
            item.add_marker(pytest.mark.skip(reason="needs an NVIDIA GPU: run pytest --gpu on one"))


def _has_cuda() -> bool:
    # Asked of another process: a CUDA context opened here would be inherited by every worker the tests fork.
    question = "import sys, torch; sys.exit(not torch.cuda.is_available())"
    return subprocess.run([sys.executable, "-c", question], check=False).returncode == 0
