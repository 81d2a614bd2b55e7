"""Landlock, a lock in Linux: the process can only read the given files. Newer versions forbid more.

The numbers are those of linux/landlock.h; the system calls have the same number on every architecture.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from explain.sandbox.system import little_endian, syscall

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
VERSION, PATH_BENEATH = 1, 1
READ_FILE, READ_DIR = 1 << 2, 1 << 3
FILE_RIGHTS = {1: 13, 2: 14, 3: 15, 5: 16}
"""The number of file rights that each version of Landlock knows. A version without an entry has those before it."""
TCP, ABSTRACT_SOCKETS_AND_SIGNALS = 0b11, 0b11
NET_SINCE, SCOPES_SINCE = 4, 6


def version() -> int:
    """The version of Landlock in this kernel; 0 if it has none."""
    if sys.platform != "linux":
        return 0
    try:
        return syscall(CREATE_RULESET, None, ctypes.c_size_t(0), VERSION)
    except OSError:
        return 0


def restrict(readable: Iterable[Path]) -> None:
    """Locks this process for good: it can open files below `readable`, for reading, and no others. Raises OSError.

    The process must have set no_new_privs. Versions that know TCP, abstract sockets and signals forbid them too.
    """
    known = version()
    files = (1 << max(count for since, count in FILE_RIGHTS.items() if since <= max(known, 1))) - 1
    fields = [(files, 8)]
    if known >= NET_SINCE:
        fields.append((TCP, 8))
    if known >= SCOPES_SINCE:
        fields.append((ABSTRACT_SOCKETS_AND_SIGNALS, 8))
    attributes = little_endian(fields)
    rules = syscall(CREATE_RULESET, attributes, ctypes.c_size_t(8 * len(fields)), 0)
    try:
        for path in readable:
            with suppress(FileNotFoundError):
                _allow(rules, path)
        syscall(RESTRICT_SELF, rules, 0)
    finally:
        os.close(rules)


def _allow(rules: int, path: Path) -> None:
    place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        rights = READ_FILE | READ_DIR if path.is_dir() else READ_FILE
        syscall(ADD_RULE, rules, PATH_BENEATH, little_endian([(rights, 8), (place, 4)]), 0)
    finally:
        os.close(place)
