"""Numbers as the reader sees them: the one place where a number becomes text.

Three significant digits unless asked otherwise, a thousands separator, the real minus sign, a space before the unit.
NaN, ∞ and −∞ by name. Bytes that move are decimal (kB, MB, GB), like bandwidth and like a GPU's HBM. On-chip memory is
binary (KiB, MiB), like its hardware. A sentence or a table uses one of the two.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection
from decimal import ROUND_HALF_UP, Context, Decimal

NONE = "–"
"""Stands where there is no number."""

_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_EXACT = Context(prec=400, rounding=ROUND_HALF_UP)
"""Any float64 with its decimals fits."""
_PREFIXES = {"P": 1e15, "T": 1e12, "G": 1e9, "M": 1e6, "k": 1e3, "": 1.0, "m": 1e-3, "µ": 1e-6, "n": 1e-9}


def number(value: float, digits: int = 3, *, zeros: bool = False) -> str:
    """ "27.3", "3,480", "−0.5", and below 0.001 or from 1,000,000 on "7.1 × 10⁻⁴". Zeros at the end are dropped; with
    `zeros` they are kept, for numbers under each other.
    """
    if special := _special(value):
        return special
    if _is_readable(value):
        return _plain(value, digits, zeros)
    mantissa, exponent = _split(value, digits)
    return f"{_stripped(mantissa)} × {power(exponent)}"


def scientific(value: float, digits: int = 2) -> str:
    """ "2.7 × 10⁻⁴" whatever its size; 0 is "0"."""
    if (special := _special(value)) or not value:
        return special or "0"
    mantissa, exponent = _split(value, digits)
    return f"{mantissa} × {power(exponent)}"


def power(exponent: int, base: object = 10) -> str:
    """ "10⁻⁴"."""
    return f"{base}{str(exponent).translate(_RAISED)}"


def fixed(value: float, decimals: int) -> str:
    """With that many decimals: "−0.50", "1,234.0". For numbers under each other. A half is rounded away from 0, as a
    reader does and as the player's toFixed does: 6.25 is "6.3".
    """
    if special := _special(value):
        return special
    rounded = Decimal(float(value)).quantize(Decimal(1).scaleb(-decimals), context=_EXACT)
    return _minus(f"{rounded or abs(rounded):,f}")  # no negative zero


def count(value: int) -> str:
    """ "12,345"."""
    return _minus(f"{value:,}")


def ratio(value: float) -> str:
    """Three digits, zeros kept, at most two decimals: "1.10 ×", "32.0 ×", "1,235 ×", "0.31 ×"."""
    return f"{_special(value) or fixed(value, min(2, _decimals(value, 3)))} ×"


def ratios(values: Collection[float]) -> str:
    """The least and the largest of some ratios: "1.00 to 3.00 ×"."""
    least, most = ratio(min(values)), ratio(max(values))
    return most if least == most else f"{least.removesuffix(' ×')} to {most}"


def percent(share: float, digits: int = 0, *, signed: bool = False) -> str:
    """A share of 1: "42%", with `digits` decimals "42.1%", `signed` "+1.5%"."""
    sign = "+" if signed and round(100 * share, digits) > 0 else ""
    return f"{sign}{fixed(100 * share, digits)}%"


def si(value: float, unit: str, *, prefix: str | None = None, digits: int = 3, zeros: bool = False) -> str:
    """With the decimal prefix that fits, or with `prefix`: "4.26 TB/s", "659 TFLOP/s". With `zeros` those at the end of
    its decimals are kept.
    """
    if special := _special(value):
        return f"{special} {unit}"
    if prefix is None:
        rounded = abs(float(f"{value:.{digits - 1}e}"))
        fits = (name for name, factor in _PREFIXES.items() if rounded >= factor)
        prefix = next(fits, "n") if rounded else ""
    return f"{_plain(value / _PREFIXES[prefix], digits, zeros)} {prefix}{unit}"


def aligned(value: float, unit: str, prefix: str, decimals: int = 2) -> str:
    """One prefix and as many decimals for all numbers of a column: "25.20 GB", "0.54 GB"."""
    return f"{fixed(value / _PREFIXES[prefix], decimals)} {prefix}{unit}"


def grouped(words: str) -> str:
    """A measurement's recorded words, their whole numbers from 1,000 on with separators; dates stay."""
    return re.sub(r"(?<![\d.-])\d{4,}(?![\d.-])", lambda found: count(int(found[0])), words)


def moved(size: float) -> str:
    """Bytes that are moved or allocated in HBM, decimal: "512 B", "33.6 MB", "1.60 GB"."""
    return si(size, "B", zeros=size >= 1000)


def capacity(size: float) -> str:
    """Bytes of on-chip memory, binary: "227 KiB", "50 MiB". From 1 GB on, which is HBM, decimal: "141 GB"."""
    if size >= 10**9:
        return si(size, "B")
    factor, unit = next((pair for pair in ((2**20, "MiB"), (2**10, "KiB")) if size >= pair[0]), (1, "B"))
    return f"{_plain(size / factor, 3)} {unit}"


def duration(seconds: float, *, zeros: bool = True) -> str:
    """ "12.7 µs", "1.40 s", "2 min 51 s", "1 h 4 min". Without `zeros`, for an axis: "1.4 s"."""
    if not abs(seconds) >= 59.95:
        return si(seconds, "s", zeros=zeros)
    if special := _special(seconds):
        return f"{special} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours:,} h {minutes} min" if minutes else f"{hours:,} h"


def _special(value: float) -> str:
    """NaN, ∞ and −∞ by name; empty for a finite number."""
    if math.isnan(value):
        return "NaN"
    return "" if math.isfinite(value) else "∞" if value > 0 else "−∞"


def _is_readable(value: float) -> bool:
    return not value or 1e-3 <= abs(value) < 999_999.5


def _plain(value: float, digits: int, zeros: bool = False) -> str:
    """Significant digits without an exponent; `zeros` at the end of its decimals are kept, except those of 0."""
    words = fixed(value, _decimals(value, digits))
    return words if zeros and value else _stripped(words)


def _stripped(text: str) -> str:
    return text.rstrip("0").rstrip(".") if "." in text else text


def _decimals(value: float, digits: int) -> int:
    """How many decimals show that many significant digits."""
    return max(0, digits - 1 - int(f"{value:.{digits - 1}e}".partition("e")[2]))


def _split(value: float, digits: int) -> tuple[str, int]:
    mantissa, _, exponent = f"{value:.{digits - 1}e}".partition("e")
    return _minus(mantissa), int(exponent)


def _minus(text: str) -> str:
    return text.replace("-", "−")
