"""Linux by its C library: system calls that Python has no name for."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from typing import Any

PR_SET_PDEATHSIG, PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS, PR_CAPBSET_DROP = 1, 22, 38, 24
CLONE_NEWIPC, CLONE_NEWUSER, CLONE_NEWNET = 0x08000000, 0x10000000, 0x40000000
_CAPABILITY_VERSION_3 = 0x20080522


def _library() -> Any:
    return ctypes.CDLL(None, use_errno=True)


def syscall(number: int, *arguments: Any) -> int:
    """A system call's result. Raises OSError."""
    return _checked(_library().syscall(number, *arguments))


def prctl(option: int, *arguments: Any) -> int:
    """One setting of this process. Raises OSError."""
    wide = [ctypes.c_ulong(value) if isinstance(value, int) else value for value in arguments]
    return _checked(_library().prctl(option, *wide, *[ctypes.c_ulong(0)] * (4 - len(wide))))


def unshare(flags: int) -> None:
    """Leaves the namespaces of these flags for new ones. Raises OSError."""
    _checked(_library().unshare(flags))


def drop_capabilities() -> None:
    """Gives up every capability of root. Raises OSError."""
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    nothing = (ctypes.c_uint32 * 6)()
    _checked(_library().capset(ctypes.byref(header), ctypes.byref(nothing)))


def little_endian(values: Sequence[tuple[int, int]]) -> Any:
    """A structure's bytes, from (value, its size in bytes)."""
    return ctypes.create_string_buffer(b"".join(value.to_bytes(size, "little") for value, size in values))


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
