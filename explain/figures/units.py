"""Numbers with their unit, in words of three digits."""

from __future__ import annotations

PREFIXES = (
    (1e15, "P"),
    (1e12, "T"),
    (1e9, "G"),
    (1e6, "M"),
    (1e3, "k"),
    (1.0, ""),
    (1e-3, "m"),
    (1e-6, "µ"),
    (1e-9, "n"),
)


def si(value: float, unit: str) -> str:
    """ "4.26 TB/s", "310 µs"."""
    factor, prefix = next((pair for pair in PREFIXES if abs(value) >= 0.9995 * pair[0]), PREFIXES[-1])
    return f"{value / factor:.3g} {prefix}{unit}"
