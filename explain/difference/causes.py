from __future__ import annotations
from dataclasses import dataclass
from collections.abc import Mapping
from typing import Any
from explain.difference.replay import Event, Replay

@dataclass(frozen=True)
class Evidence:
    a: Replay
    b: Replay
    right: Event | None
    wrong: Event
    pairs: Mapping[Any, Any]
    tolerance: float
    index: tuple[int, ...]
    loop: tuple[Event, Event] | None

def cause_of(e): return "", ""
