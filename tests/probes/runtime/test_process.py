"""What a worker reports about its surroundings, and what the sandbox keeps it from."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import platform
import socket
import sys
import threading
import types
from importlib import metadata
from typing import Any

import psutil
import pytest
import workers
from forks import run_command

from advisor.ask import catalogue_files
from advisor.domain.errors import SandboxError
from advisor.probing import supervisor
from probes import files, protocol, sandbox
from probes.commands import Build, Stop
from probes.runtime import process, reference
from probes.runtime.cells import Job


@pytest.mark.parametrize(("role", "is_reported"), [("measure", True), ("reference", False)])
def test_only_a_measured_worker_reports_its_environment(
    role: str, is_reported: bool, fake_probes: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    workflow = fake_probes / "workflows" / "pytorch_eager.py"
    request = workers.make_request(workflow, tmp_path, role=role)
    answer = workers.run_worker(request, tmp_path / "control", Stop(), probes=fake_probes)
    (imported,) = answer.events_of("imported")
    assert (imported["environment"] is not None) == is_reported
    if is_reported:
        assert imported["environment"]["interpreter"] == sys.executable


def test_packages_are_those_that_the_standard_library_finds() -> None:
    found = process.read_environment()
    versions, providers = found.distributions, found.providers
    assert found.python == "{}.{}".format(*sys.version_info)
    assert versions == {
        each.metadata["Name"]: each.version for each in [*metadata.distributions()][::-1]
    }
    # Before Python 3.12 the standard library leaves out extension modules; later it adds folders.
    expected = metadata.packages_distributions()
    imported = expected.keys() & sys.modules.keys()
    assert "msgspec" in imported
    assert {name: set(providers[name]) for name in imported} == {
        name: set(expected[name]) for name in imported
    }


def test_the_bytes_of_all_files_are_counted(tmp_path: pathlib.Path) -> None:
    (tmp_path / "inductor" / "ab").mkdir(parents=True)
    (tmp_path / "inductor" / "ab" / "kernel.cpp").write_bytes(b"x" * 700)
    (tmp_path / "model.pt2").write_bytes(b"x" * 50)
    (tmp_path / "link").symlink_to(tmp_path)
    (tmp_path / "inductor" / "other").symlink_to(__file__)
    assert files.count_bytes(tmp_path) == 750
    assert files.count_bytes(tmp_path / "absent") == files.count_bytes(tmp_path / "link") == 0


@pytest.mark.parametrize(
    ("device", "most_seconds", "waits"),
    [("cpu", 60.0, True), ("cpu", 0.1, False), ("cuda", 60.0, False)],
)
def test_calls_on_the_cpu_wait_for_those_of_another_worker(
    device: str, most_seconds: float, waits: bool, tmp_path: pathlib.Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr(process, "MOST_WAITING_SECONDS", most_seconds)
    request: Any = types.SimpleNamespace(device=device, shared_directory=str(tmp_path))
    order = []

    def call() -> None:
        with process.exclusive_calls(request):
            order.append("second")

    other = threading.Thread(target=call)
    with process.exclusive_calls(request):
        other.start()
        other.join(0.3 if waits else None)
        order.append("first")
    other.join()
    assert order == (["first", "second"] if waits else ["second", "first"])


@pytest.mark.timeout(20)
def test_a_lock_that_another_worker_replaced_is_refused(tmp_path: pathlib.Path) -> None:
    request: Any = types.SimpleNamespace(device="cpu", shared_directory=str(tmp_path))
    lock, kept = tmp_path / "calls.lock", tmp_path / "kept"
    kept.write_text("text", encoding="utf-8")
    for is_link in (False, True):
        if is_link:
            lock.symlink_to(kept)
        else:
            os.mkfifo(lock)
        with pytest.raises(OSError, match="lock"), process.exclusive_calls(request):
            pytest.fail("the lock is no plain file")
        lock.unlink()
    assert kept.read_text(encoding="utf-8") == "text"


MEBIBYTE = 1 << 20
ROOT = catalogue_files.probes_directory().parent
GROWTH = """
import sys
sys.path.insert(0, {root!r})
from probes.runtime import process
before = process.peak_rss_bytes()
{action}
print(process.peak_rss_bytes() - before)
"""


def test_a_known_allocation_is_measured() -> None:
    size = 256 * MEBIBYTE
    allocation = f"kept = bytearray({size}); kept[::4096] = b'1' * len(kept[::4096])"
    script = GROWTH.format(root=str(ROOT), action=allocation)
    assert abs(int(run_command([sys.executable, "-c", script]).stdout) - size) <= 8 * MEBIBYTE


def test_without_a_driver_nothing_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "DRIVER", "libnobody-has-this.so.1")
    before = psutil.Process().memory_info().rss
    with process.hold_memory(256 * MEBIBYTE):
        assert psutil.Process().memory_info().rss - before < 128 * MEBIBYTE


@dataclasses.dataclass
class Allocator:
    """PyTorch's allocator on a GPU: bytes in use, of graphs, and free ones that it keeps."""

    used: int = 0
    free: int = 0
    is_used: bool = True

    @property
    def cuda(self) -> Allocator:
        return self

    def is_initialized(self) -> bool:
        return self.is_used

    def empty_cache(self) -> None:
        self.free = 0

    def memory_reserved(self) -> int:
        return self.used + self.free


def test_memory_that_a_build_keeps_is_counted_without_free_and_other_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    device = Allocator(used=100, free=50)
    monkeypatch.setitem(sys.modules, "torch", device)
    kept = process.KeptMemory()
    with kept.counting():
        device.used, device.free = 130, 70
    device.used += 1000  # inputs
    with kept.counting():
        device.used += 7
    assert kept.bytes == 37


@pytest.mark.parametrize("module", [None, Allocator(is_used=False)])
def test_memory_that_a_build_keeps_is_not_known_without_a_gpu(
    module: Allocator | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch", module)
    kept = process.KeptMemory()
    for _ in range(2):
        with kept.counting():
            pass
    assert kept.bytes is None


@pytest.mark.parametrize(
    ("device", "threads", "left"), [("cpu", 8, 4), ("cpu", 1, 1), ("cuda", 8, 8)]
)
def test_the_reference_leaves_half_of_the_processors_of_a_cpu_to_builds(
    device: str, threads: int, left: int, tmp_path: pathlib.Path
) -> None:
    applied = []
    workflow: Any = types.SimpleNamespace(settings=lambda request: applied.append(request.threads))
    request = workers.make_request(tmp_path / "eager.py", tmp_path, device=device, threads=threads)
    job = reference.leave_processors(Job(request, channel=None, workflow=workflow))  # type: ignore[arg-type]
    assert job.request.threads == left
    assert applied == ([left] if device == "cpu" else [])


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
    first, second = (os.fdopen(end, "wb") for end in os.openpty())
    with first, second, socket.create_server(("127.0.0.1", 0)) as server:
        names = {
            "outside": str(outside),
            "own": str(shared),
            "port": server.getsockname()[1],
            "terminal": os.ttyname(second.fileno()),
        }
        codes = {name: code.format(**names) for name, code in tries.items()}
        workflow = tmp_path / "trying.py"
        workflow.write_text(WORKFLOW.format(prelude=PRELUDE, tries=codes, children=children))
        result = workers.run_worker(
            workers.make_request(workflow, shared, sandbox=confined),
            tmp_path / "control",
            Build(),
            environment={**os.environ},
        )
    return result, outside


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
