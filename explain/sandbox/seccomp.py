"""seccomp, a filter of system calls in Linux: the process can make the allowed ones; all others fail with EPERM.

Allowed: computing, reading files, mapping memory, starting threads. Forbidden: sockets, new processes and programs,
signals to other processes, their memory and limits, and changes of a file's name or rights. The filter is a program
in BPF.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
from dataclasses import dataclass

from explain.sandbox.system import PR_SET_SECCOMP, prctl

MODE_FILTER = 2
ALLOW, FAIL, KILL = 0x7FFF0000, 0x00050000, 0x80000000
LOAD, EQUAL, AT_LEAST, ANY_BIT, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
NUMBER_AT, ARCHITECTURE_AT, ARGUMENTS_AT = 0, 4, 16
X32 = 0x40000000  # x86-64's numbers from here on are those of another interface
CLONE_THREAD = 0x00010000

PLAIN = {
    "read": (0, 63), "write": (1, 64), "readv": (19, 65), "writev": (20, 66), "pread64": (17, 67), "close": (3, 57),
    "fstat": (5, 80), "newfstatat": (262, 79), "stat": (4, None), "lstat": (6, None), "statx": (332, 291),
    "lseek": (8, 62), "openat": (257, 56), "open": (2, None), "access": (21, None), "faccessat": (269, 48),
    "faccessat2": (439, 439), "readlink": (89, None), "readlinkat": (267, 78), "getdents64": (217, 61),
    "getcwd": (79, 17), "dup": (32, 23), "fadvise64": (221, 223), "poll": (7, None), "ppoll": (271, 73),
    "select": (23, None), "pselect6": (270, 72), "mmap": (9, 222), "mprotect": (10, 226), "munmap": (11, 215),
    "brk": (12, 214), "mremap": (25, 216), "madvise": (28, 233), "rt_sigaction": (13, 134),
    "rt_sigprocmask": (14, 135), "rt_sigreturn": (15, 139), "sigaltstack": (131, 132), "futex": (202, 98),
    "set_robust_list": (273, 99), "rseq": (334, 293), "set_tid_address": (218, 96), "membarrier": (324, 283),
    "sched_yield": (24, 124), "sched_getaffinity": (204, 123), "getcpu": (309, 168), "clock_gettime": (228, 113),
    "clock_getres": (229, 114), "clock_nanosleep": (230, 115), "nanosleep": (35, 101), "gettimeofday": (96, 169),
    "time": (201, None), "times": (100, 153), "getrusage": (98, 165), "sysinfo": (99, 179), "uname": (63, 160),
    "getpid": (39, 172), "getppid": (110, 173), "gettid": (186, 178), "getuid": (102, 174), "geteuid": (107, 175),
    "getgid": (104, 176), "getegid": (108, 177), "getrandom": (318, 278), "restart_syscall": (219, 128),
    "setitimer": (38, 103), "exit": (60, 93), "exit_group": (231, 94),
}  # fmt: skip
"""The calls that are allowed with any arguments: their numbers on x86-64 and on AArch64, None where it has none."""
CHECKED = {"kill": (62, 129), "tgkill": (234, 131), "fcntl": (72, 25), "ioctl": (16, 29), "prctl": (157, 167),
           "prlimit64": (302, 261), "clone": (56, 220), "clone3": (435, 435)}  # fmt: skip
ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
FCNTL = (0, 1, 2, 3, 1030)  # duplicate, read and set close-on-exec, read flags; not F_SETOWN, which sends signals
IOCTL = (0x5401, 0x5413)  # is it a terminal, and how wide
PRCTL = (15, 0x53564D41)  # a thread's name, a mapping's name


@dataclass(frozen=True)
class _Instruction:
    code: int
    value: int
    if_true: int = 0
    if_false: int = 0

    def to_bytes(self) -> bytes:
        return self.code.to_bytes(2, "little") + bytes([self.if_true, self.if_false]) + self.value.to_bytes(4, "little")


def known_here() -> bool:
    """Whether the filter knows this processor's system calls."""
    return platform.machine() in ARCHITECTURES


def restrict() -> None:
    """Locks this process and its threads for good: they can make the allowed calls only. Raises OSError.

    The process must have set no_new_privs.
    """
    column, architecture = ARCHITECTURES[platform.machine()]
    code = b"".join(one.to_bytes() for one in _program(column, architecture, os.getpid()))
    program = ctypes.create_string_buffer(code, len(code))

    class Program(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("first", ctypes.c_void_p))

    filled = Program(len(code) // 8, ctypes.addressof(program))
    prctl(PR_SET_SECCOMP, MODE_FILTER, ctypes.byref(filled))


def _program(column: int, architecture: int, pid: int) -> list[_Instruction]:
    program = [
        _Instruction(LOAD, ARCHITECTURE_AT),
        _Instruction(EQUAL, architecture, 1),
        _Instruction(RETURN, KILL),
        _Instruction(LOAD, NUMBER_AT),
        _Instruction(AT_LEAST, X32, 0, 1),
        _Instruction(RETURN, KILL),
    ]
    for numbers in PLAIN.values():
        if (number := numbers[column]) is not None:
            program += [_Instruction(EQUAL, number, 0, 1), _Instruction(RETURN, ALLOW)]
    for name, (at, values) in {
        "kill": (0, (pid,)), "tgkill": (0, (pid,)), "fcntl": (1, FCNTL), "ioctl": (1, IOCTL), "prctl": (0, PRCTL),
        "prlimit64": (0, (0,)),
    }.items():  # fmt: skip
        program += _where(CHECKED[name][column], at, [_Instruction(EQUAL, value, 0, 1) for value in values])
    program += _where(CHECKED["clone"][column], 0, [_Instruction(ANY_BIT, CLONE_THREAD, 0, 1)])
    # Its flags are in memory, which no filter sees: told that there is no clone3, the C library uses clone.
    program += [_Instruction(EQUAL, CHECKED["clone3"][column], 0, 1), _Instruction(RETURN, FAIL | errno.ENOSYS)]
    return [*program, _Instruction(RETURN, FAIL | errno.EPERM)]


def _where(number: int, at: int, tests: list[_Instruction]) -> list[_Instruction]:
    """The instructions that allow call `number` if one of the tests holds for its argument `at`.

    They test the lower 32 bits: Linux reads no more of an int.
    """
    body = [_Instruction(LOAD, ARGUMENTS_AT + 8 * at)]
    for test in tests:
        body += [test, _Instruction(RETURN, ALLOW)]
    body.append(_Instruction(RETURN, FAIL | errno.EPERM))
    return [_Instruction(EQUAL, number, 0, len(body)), *body]
