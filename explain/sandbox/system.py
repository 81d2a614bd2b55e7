"""System calls of Linux that Python has no function for, made through the C library."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from typing import Any

PR_SET_PDEATHSIG, PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS = 1, 22, 38
CLONE_NEWIPC, CLONE_NEWUSER, CLONE_NEWNET = 0x08000000, 0x10000000, 0x40000000
_CAPABILITY_VERSION_3 = 0x20080522


def _library() -> Any:
    return ctypes.CDLL(None, use_errno=True)


def syscall(number: int, *arguments: Any) -> int:
    """Makes a system call and returns its result. Raises OSError."""
    return _checked(_library().syscall(number, *arguments))


def prctl(option: int, *arguments: Any) -> int:
    """Changes or reads a setting of this process (man 2 prctl) and returns the result. Raises OSError."""
    wide = [ctypes.c_ulong(value) if isinstance(value, int) else value for value in arguments]
    return _checked(_library().prctl(option, *wide, *[ctypes.c_ulong(0)] * (4 - len(wide))))


def unshare(flags: int) -> None:
    """Moves this process to new namespaces of the kinds in `flags` (CLONE_NEW…). Raises OSError."""
    _checked(_library().unshare(flags))


def drop_capabilities() -> None:
    """Gives up every capability of root. Raises OSError."""
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    nothing = (ctypes.c_uint32 * 6)()
    _checked(_library().capset(ctypes.byref(header), ctypes.byref(nothing)))


def little_endian(values: Sequence[tuple[int, int]]) -> Any:
    """A C structure's bytes, from pairs (value, size in bytes)."""
    return ctypes.create_string_buffer(b"".join(value.to_bytes(size, "little") for value, size in values))


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
