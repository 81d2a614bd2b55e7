"""What turns a kernel's run into something to look at: experiments, traces, traffic, measurements, the player."""

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
"""The repository."""
