"""A worker in the sandbox writes only below its directories and has no network."""

from __future__ import annotations

import contextlib
import os
import pathlib
import platform
import socket
from collections.abc import Iterator
from typing import Any

import pytest
import workers

from advisor.domain.errors import SandboxError
from advisor.probing import supervisor
from probes import protocol
from probes.runtime import sandbox

#: What the tries need.
PRELUDE = """
import ctypes, os, pathlib, resource, signal, socket, subprocess, sys, tempfile

libc, parent = ctypes.CDLL(None, use_errno=True), os.getppid()

def check(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), "")
"""
#: A workflow that tries what the sandbox forbids, in the worker and in a process that it starts.
WORKFLOW = """
PRELUDE, TRIES = {prelude!r}, {tries}
exec(PRELUDE)

def attempt(code):
    try:
        exec(code)
    except OSError as problem:
        return type(problem).__name__
    return "done"

def versions():
    found = {{name: attempt(code) for name, code in TRIES.items()}}
    for name, code in (TRIES if {children} else {{}}).items():
        command = [sys.executable, "-c", PRELUDE + code]
        ended = subprocess.run(command, capture_output=True, text=True)
        lines = ended.stderr.strip().splitlines()
        found["child: " + name] = lines[-1].split(":")[0] if lines else "done"
    return {{name: str(value) for name, value in found.items()}}

def settings(request):
    return {{}}

def open_subject(request):
    raise ValueError("far enough")
"""
DENIED = {
    "write": "pathlib.Path({outside!r}, 'new').write_text('x')",
    "truncate": "open({outside!r} + '/kept', 'r+b').truncate(0)",
    "remove": "os.remove({outside!r} + '/kept')",
    "rename": "os.rename({outside!r} + '/kept', {outside!r} + '/moved')",
    "make a directory": "os.mkdir({outside!r} + '/directory')",
    "connect": "socket.create_connection(('127.0.0.1', {port}), 2)",
    "send a datagram": "socket.socket(socket.AF_INET, socket.SOCK_DGRAM)",
    "listen": "socket.socket(socket.AF_INET6)",
    "ask a local server": "socket.socket(socket.AF_UNIX)",
    "send to a local server": "socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)",
    "ask the kernel": "socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)",
    "limit another process": "resource.prlimit(parent, resource.RLIMIT_CPU)",
    "slow another process": "os.setpriority(os.PRIO_PROCESS, parent, 19)",
    "schedule another process": "os.sched_setscheduler(parent, os.SCHED_BATCH, os.sched_param(0))",
    "write to a terminal": "open({terminal!r}, 'w').write('x')",
    "open a message queue": "check(libc.mq_open(b'/p3', 0o100, 0o600, None))",
    "share memory": "check(libc.shmget(0, 4096, 0o1600))",
    "make a disk": "os.mknod({own!r} + '/disk', 0o60600, os.makedev(1, 1))",
    "mount": "check(libc.mount(b'none', {own!r}.encode(), b'tmpfs', 0, None))",
    "mount for itself": "check(libc.unshare(0x10020000)); "
    "check(libc.mount(b'none', b'/', b'tmpfs', 0, None))",
    "trace another process": "check(libc.ptrace(16, parent, 0, 0))",
    "change an owner": "os.chown({outside!r} + '/kept', os.getuid(), os.getgid())",
    "change an attribute": "os.setxattr({outside!r} + '/kept', 'user.x', b'x')",
}
ALLOWED = {
    "write its own": "pathlib.Path({own!r}, 'new').write_text('x')",
    "make a temporary file": "tempfile.NamedTemporaryFile().close()",
    "read": "pathlib.Path({outside!r}, 'kept').read_text()",
    "talk to itself": "socket.socketpair()",
    "schedule itself": "os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))",
    "choose its processors": "os.sched_setaffinity(0, os.sched_getaffinity(0))",
    "limit itself": "resource.setrlimit(resource.RLIMIT_CORE, (0, 0))",
    "discard": "open('/dev/null', 'w').write('x')",
}
# The sandbox is refused where Landlock is missing; the refusal is tested everywhere.
needs_landlock = pytest.mark.skipif(
    sandbox.find_obstacle() is not None, reason=f"no sandbox here: {sandbox.find_obstacle()}"
)


def try_in_worker(
    tmp_path: pathlib.Path,
    tries: dict[str, str],
    *,
    confined: bool,
    children: bool = True,
    is_linked: bool = False,
) -> Any:
    """Return the result of each piece of code in a worker, and the directory outside its own.

    `is_linked` puts a link to that directory where the worker's temporary files lie.
    """
    outside, shared = tmp_path / "outside", tmp_path / "shared"
    outside.mkdir()
    shared.mkdir()
    if is_linked:
        (shared / protocol.TEMPORARY_FOLDER).symlink_to(outside)
    (outside / "kept").write_text("content")
    with socket.create_server(("127.0.0.1", 0)) as server, open_terminal() as terminal:
        names = {
            "outside": str(outside),
            "own": str(shared),
            "port": server.getsockname()[1],
            "terminal": terminal,
        }
        codes = {name: code.format(**names) for name, code in tries.items()}
        workflow = tmp_path / "trying.py"
        workflow.write_text(WORKFLOW.format(prelude=PRELUDE, tries=codes, children=children))
        result = workers.run_worker(
            workers.make_request(workflow, shared, sandbox=confined),
            tmp_path / "control",
            "build\n",
            environment={**os.environ},
        )
    return result, outside


@contextlib.contextmanager
def open_terminal() -> Iterator[str]:
    """Yield the name of a terminal, which exists until the block ends."""
    ends = os.openpty()
    yield os.ttyname(ends[1])
    for end in ends:
        os.close(end)


@needs_landlock
def test_a_confined_worker_cannot_reach_the_network_or_files_of_others(
    tmp_path: pathlib.Path,
) -> None:
    result, outside = try_in_worker(tmp_path, DENIED, confined=True)
    done = {name for name, outcome in result.versions.items() if outcome == "done"}
    assert done == set()
    assert len(result.versions) == 2 * len(DENIED)
    assert [file.name for file in outside.iterdir()] == ["kept"]
    assert (outside / "kept").read_text() == "content"


@needs_landlock
def test_a_link_of_an_earlier_process_gives_no_access(tmp_path: pathlib.Path) -> None:
    tries = {"write": DENIED["write"], "write it temporarily": "open(tempfile.mkstemp()[0], 'w')"}
    result, outside = try_in_worker(tmp_path, tries, confined=True, children=False, is_linked=True)
    assert set(result.versions.values()) == {"PermissionError"}
    assert [each.name for each in outside.iterdir()] == ["kept"]


@needs_landlock
def test_a_confined_worker_keeps_what_a_stack_needs(tmp_path: pathlib.Path) -> None:
    result, _ = try_in_worker(tmp_path, ALLOWED, confined=True)
    assert set(result.versions.values()) == {"done"}
    assert result.failure["status"] == "model-refused"


def test_a_worker_is_not_confined_unless_it_is_asked(tmp_path: pathlib.Path) -> None:
    result, _ = try_in_worker(tmp_path, {"write": DENIED["write"]}, confined=False)
    assert set(result.versions.values()) == {"done"}


# Landlock confines signals from Linux 6.12 on; docs/security.md states what older kernels allow.
@needs_landlock
@pytest.mark.skipif(sandbox.landlock_version() < sandbox.SCOPES_VERSION, reason="needs Linux 6.12")
def test_a_confined_worker_cannot_end_its_watchdog(tmp_path: pathlib.Path) -> None:
    tries = {"kill": "os.kill(parent, signal.SIGKILL)"}
    result, _ = try_in_worker(tmp_path, tries, confined=True, children=False)
    assert result.versions["kill"] == "PermissionError"
    assert result.status == 0


def test_a_system_without_landlock_is_refused_with_a_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sandbox, "ARCHITECTURES", {platform.machine(): (0, 0)})
    monkeypatch.setattr(sandbox, "landlock_version", lambda: -1)
    with pytest.raises(SandboxError) as refused:
        supervisor.require_sandbox()
    assert "Landlock" in refused.value.what
