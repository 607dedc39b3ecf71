"""Confine a worker: no network, no file written outside its directories, no signal to others.

Two mechanisms of the Linux kernel that need no privilege and no package: Landlock for files and
signals (`landlock(7)`), and a seccomp filter (`seccomp(2)`) for sockets, as Landlock covers only
TCP, and for everything else that a process can change in another. All processes that the worker
starts inherit both, and cannot lift them.

Reading files stays allowed: a stack lies in many places.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import pathlib
import platform
import resource
import struct
import sys
import tempfile
from collections.abc import Iterable
from typing import NamedTuple

#: Numbers of system calls; those of Landlock and io_uring are the same on all architectures, and so
#: are those that set and remove extended attributes below a directory.
CREATE_RULESET, ADD_RULE, RESTRICT_SELF, IO_URING_SETUP = 444, 445, 446, 425
SETXATTRAT, REMOVEXATTRAT = 463, 466


class Architecture(NamedTuple):
    """A kind of processor, and the numbers of its system calls."""

    #: Its identifier in `linux/audit.h`.
    identifier: int
    #: Number of the system call `capset`.
    capset: int
    #: Numbers of the calls that are denied: `socket`, `setpriority`, `ioprio_set`, and those of
    #: System V objects, message queues, the keyring, and files' owners and extended attributes.
    denied: tuple[int, ...]
    #: Numbers of the calls that are denied for other processes: `prlimit64`, `sched_setparam`,
    #: `sched_setscheduler` and `sched_setattr`.
    own: tuple[int, ...]
    #: Number of the system call `socketpair`.
    socketpair: int


X86_DENIED = (41, 141, 251, 29, 30, 64, 68, 240, 241, *range(248, 251), 92, 93, 94, 260)
X86_ATTRIBUTES = (188, 189, 190, 197, 198, 199)
ARM_DENIED = (198, 140, 30, 194, 196, 190, 186, 180, 181, *range(217, 220), 54, 55)
ARM_ATTRIBUTES = (*range(5, 8), *range(14, 17))
ARCHITECTURES = {
    "x86_64": Architecture(0xC000003E, 126, X86_DENIED + X86_ATTRIBUTES, (302, 142, 144, 314), 53),
    "aarch64": Architecture(0xC00000B7, 91, ARM_DENIED + ARM_ATTRIBUTES, (261, 118, 119, 274), 199),
}
#: Devices that may be written: those that hold nothing, and accelerators. No terminals.
DEVICES = ("null", "zero", "full", "random", "urandom", "nvidia*", "dri", "kfd", "dxg")
SHARED_MEMORY = pathlib.Path("/dev/shm")  # noqa: S108 - shared memory, not a temporary file
CAPABILITIES_VERSION = 0x20080522
#: The first version of Landlock that controls the truncation of files, of Linux 6.2, and the first
#: that scopes signals, of Linux 6.12.
MINIMUM_VERSION, SCOPES_VERSION = 3, 6
VERSION_FLAG, RULE_PATH_BENEATH = 1, 1
EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
IOCTL_DEVICE, IOCTL_VERSION = 1 << 15, 5
READ = EXECUTE | READ_FILE | READ_DIR
#: All rights of version 3: the fifteen lowest bits.
ALL_RIGHTS = (1 << 15) - 1
SCOPE_ABSTRACT_SOCKETS, SCOPE_SIGNALS = 1, 2
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
#: Instructions of a seccomp filter, from `linux/bpf_common.h` and `linux/seccomp.h`.
LOAD, JUMP_EQUAL, JUMP_GREATER_EQUAL, AND, RETURN = 0x20, 0x15, 0x35, 0x54, 0x06
ALLOW, DENY = 0x7FFF0000, 0x00050000 | errno.EACCES
NUMBER_OFFSET, ARCHITECTURE_OFFSET, FIRST_ARGUMENT_OFFSET, SECOND_ARGUMENT_OFFSET = 0, 4, 16, 24
#: The bits of a socket's type without its flags, and the type whose pairs reach no other socket.
TYPE_BITS, STREAM = 0xF, 1
#: First number of the calls of the x32 interface, which are other ways to the same calls.
X32_CALLS = 0x40000000
#: Processes and threads that the user may have more than at the start of the worker.
MORE_PROCESSES = 4096


def find_obstacle() -> str | None:
    """Return why this system cannot confine a worker; None if it can."""
    if sys.platform != "linux" or platform.machine() not in ARCHITECTURES:
        return f"it is not made for {platform.system()} on {platform.machine()}"
    version = landlock_version()
    if version < MINIMUM_VERSION:
        have = f"has version {version}" if version > 0 else "has none"
        return f"it needs Landlock {MINIMUM_VERSION} of Linux 6.2, and this kernel {have}"
    return None


def landlock_version() -> int:
    """Return the version of Landlock in this kernel; negative where it is missing or disabled."""
    return int(ctypes.CDLL(None, use_errno=True).syscall(CREATE_RULESET, None, 0, VERSION_FLAG))


def enter(writable: Iterable[pathlib.Path], temporary: pathlib.Path) -> None:
    """Confine this process for the rest of its life; raise `OSError` if that fails.

    Files may be written below the `writable` directories, in `/dev/shm`, and to some devices;
    `temporary`, which is made, lies in one of them. Root has no more rights than others. Call it
    before a thread is started: threads that run already would not be confined.
    """
    if len(os.listdir("/proc/self/task")) != 1:  # noqa: PTH208 - only the number matters
        raise OSError("a thread was started before the sandbox")
    temporary.mkdir(parents=True, exist_ok=True)
    os.environ["TMPDIR"] = tempfile.tempdir = str(temporary)
    limit_resources()
    libc = ctypes.CDLL(None, use_errno=True)
    check(libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    # No process, and the three sets of 64 capabilities, all empty.
    header, none = struct.pack("=Ii", CAPABILITIES_VERSION, 0), bytes(24)
    check(libc.syscall(ARCHITECTURES[platform.machine()].capset, header, none))
    restrict_files(libc, [*writable, SHARED_MEMORY])
    deny_calls(libc)


def limit_resources() -> None:
    """Limit the memory of each process to that of the machine, and the number of processes."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    own = sum(1 for directory in pathlib.Path("/proc").glob("[0-9]*") if is_own(directory))
    for limit, most in (
        (resource.RLIMIT_DATA, memory),
        (resource.RLIMIT_NPROC, own + MORE_PROCESSES),
    ):
        _, hard = resource.getrlimit(limit)
        value = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(limit, (value, value))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def is_own(directory: pathlib.Path) -> bool:
    with contextlib.suppress(OSError):
        return directory.stat().st_uid == os.getuid()
    return False


def restrict_files(libc: ctypes.CDLL, writable: Iterable[pathlib.Path]) -> None:
    version = landlock_version()
    device = WRITE_FILE | (IOCTL_DEVICE if version >= IOCTL_VERSION else 0)
    handled = ALL_RIGHTS | device
    scoped = SCOPE_ABSTRACT_SOCKETS | SCOPE_SIGNALS if version >= SCOPES_VERSION else 0
    # The fields after the first exist since version 4 and 6; an older kernel takes them if zero.
    attributes = struct.pack("=QQQ", handled, 0, scoped)
    ruleset = check(libc.syscall(CREATE_RULESET, attributes, len(attributes), 0))
    rules = [(pathlib.Path("/"), READ)]
    rules += [(path, device) for name in DEVICES for path in pathlib.Path("/dev").glob(name)]
    rules += [(path, handled) for path in writable if path.is_dir()]
    for path, rights in rules:
        # A worker may have put a link to another place where one of its directories was.
        plain = os.O_NOFOLLOW | os.O_DIRECTORY if rights == handled else 0
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC | plain)
        rule = struct.pack("=Qi", rights, descriptor)
        check(libc.syscall(ADD_RULE, ruleset, RULE_PATH_BENEATH, rule, 0))
        os.close(descriptor)
    check(libc.syscall(RESTRICT_SELF, ruleset, 0))
    os.close(ruleset)


def deny_calls(libc: ctypes.CDLL) -> None:
    """Deny sockets, except pairs of streams, and changes of what belongs to others, by seccomp.

    One end of a pair of datagram sockets can send to any socket that has a path.
    """
    architecture = ARCHITECTURES[platform.machine()]
    # `io_uring` would make sockets without the call `socket`.
    denied = (*architecture.denied, SETXATTRAT, REMOVEXATTRAT, IO_URING_SETUP)
    own = architecture.own
    first_own, pair = 4 + len(denied), 4 + len(denied) + len(own)
    check_process, deny, check_type = pair + 2, pair + 4, pair + 6
    program = [
        (LOAD, 0, 0, ARCHITECTURE_OFFSET),
        (JUMP_EQUAL, 0, deny - 2, architecture.identifier),
        (LOAD, 0, 0, NUMBER_OFFSET),
        (JUMP_GREATER_EQUAL, deny - 4, 0, X32_CALLS),
        *((JUMP_EQUAL, deny - place - 1, 0, each) for place, each in enumerate(denied, 4)),
        *(
            (JUMP_EQUAL, check_process - place - 1, 0, each)
            for place, each in enumerate(own, first_own)
        ),
        (JUMP_EQUAL, check_type - pair - 1, 0, architecture.socketpair),
        (RETURN, 0, 0, ALLOW),
        (LOAD, 0, 0, FIRST_ARGUMENT_OFFSET),
        (JUMP_EQUAL, 1, 0, 0),  # the calling process
        (RETURN, 0, 0, DENY),
        (RETURN, 0, 0, ALLOW),
        (LOAD, 0, 0, SECOND_ARGUMENT_OFFSET),
        (AND, 0, 0, TYPE_BITS),
        (JUMP_EQUAL, 1, 0, STREAM),
        (RETURN, 0, 0, DENY),
        (RETURN, 0, 0, ALLOW),
    ]
    code = b"".join(struct.pack("=HBBI", *instruction) for instruction in program)
    buffer = ctypes.create_string_buffer(code, len(code))
    # A C structure of a short and a pointer, with the padding of this platform.
    header = struct.pack("@HP", len(program), ctypes.addressof(buffer))
    check(libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, header, 0, 0))


def check(result: int) -> int:
    """Return the result of a system call; raise `OSError` if it is negative."""
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"the sandbox cannot be entered: {os.strerror(number)}")
    return result
