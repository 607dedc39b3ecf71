"""A worker in the sandbox writes only below its directories and has no network."""

from __future__ import annotations

import json
import os
import pathlib
import platform
import socket
from typing import Any

import pytest
import workers

from advisor.errors import SandboxError
from advisor.execute import draft
from probes.runtime import sandbox

#: A workflow that tries what the sandbox forbids, in the worker and in a process that it starts.
WORKFLOW = """
import ctypes, json, os, pathlib, signal, socket, subprocess, sys, tempfile

TRIES = {tries}

def attempt(code):
    try:
        exec(code)
    except OSError as problem:
        return type(problem).__name__
    return "done"

def versions():
    found = {{name: attempt(code) for name, code in TRIES.items()}}
    child = "import json, sys\\nexec(sys.argv[1])"
    for name, code in (TRIES if {children} else {{}}).items():
        imports = "import os, pathlib, signal, socket, tempfile\\n"
        command = [sys.executable, "-c", child, imports + code]
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
    "ask the kernel": "socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)",
    "limit another process": "import resource; resource.prlimit(os.getppid(), resource.RLIMIT_CPU)",
    "slow another process": "os.setpriority(os.PRIO_PROCESS, os.getppid(), 19)",
    "change an owner": "os.chown({outside!r} + '/kept', os.getuid(), os.getgid())",
    "change an attribute": "os.setxattr({outside!r} + '/kept', 'user.x', b'x')",
}
ALLOWED = {
    "write its own": "pathlib.Path({own!r}, 'new').write_text('x')",
    "make a temporary file": "tempfile.NamedTemporaryFile().close()",
    "read": "pathlib.Path({outside!r}, 'kept').read_text()",
    "talk to itself": "socket.socketpair()",
    "limit itself": "import resource; resource.setrlimit(resource.RLIMIT_CORE, (0, 0))",
    "discard": "open('/dev/null', 'w').write('x')",
}
# The sandbox is refused where Landlock is missing; the refusal is tested everywhere.
needs_landlock = pytest.mark.skipif(
    sandbox.find_obstacle() is not None, reason=f"no sandbox here: {sandbox.find_obstacle()}"
)


def try_in_worker(
    tmp_path: pathlib.Path, tries: dict[str, str], *, confined: bool, children: bool = True
) -> Any:
    """Return the result of each piece of code in a worker, and the directory outside its own."""
    outside, shared = tmp_path / "outside", tmp_path / "shared"
    outside.mkdir()
    shared.mkdir()
    (outside / "kept").write_text("content")
    with socket.create_server(("127.0.0.1", 0)) as server:
        names = {"outside": str(outside), "own": str(shared), "port": server.getsockname()[1]}
        codes = {name: code.format(**names) for name, code in tries.items()}
        workflow = tmp_path / "trying.py"
        workflow.write_text(WORKFLOW.format(tries=json.dumps(codes), children=children))
        result = workers.run_worker(
            workers.make_request(workflow, shared, sandbox=confined),
            tmp_path / "control",
            "build\n",
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
    tries = {"kill": "os.kill(os.getppid(), signal.SIGKILL)"}
    result, _ = try_in_worker(tmp_path, tries, confined=True, children=False)
    assert result.versions["kill"] == "PermissionError"
    assert result.status == 0


def test_a_system_without_landlock_is_refused_with_a_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sandbox, "ARCHITECTURES", {platform.machine(): (0, 0)})
    monkeypatch.setattr(sandbox, "landlock_version", lambda: -1)
    with pytest.raises(SandboxError) as refused:
        draft.require()
    assert "Landlock" in refused.value.what
