"""Detection of the processor, the GPUs and the interpreter."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
from typing import Any

import pytest

from advisor.ask import detection
from advisor.errors import InterpreterError


def write_topology(directory: pathlib.Path, cores: list[list[int]]) -> pathlib.Path:
    """Write the kernel's files about processors that share cores."""
    for core in cores:
        for number in core:
            topology = directory / f"cpu{number}" / "topology"
            topology.mkdir(parents=True)
            (topology / "core_cpus_list").write_text(f"{','.join(map(str, core))}\n")
    return directory


def write_cgroup_limits(directory: pathlib.Path, quota: str, memory: str = "max") -> pathlib.Path:
    """Write the `/proc` files of a process whose cgroup has these limits."""
    (directory / "self").mkdir(parents=True)
    (directory / "self" / "cgroup").write_text("0::/\n")
    (directory / "self" / "mountinfo").write_text(
        f"41 31 0:38 / {directory} rw - cgroup2 cgroup2 rw\n"
    )
    (directory / "cpu.max").write_text(f"{quota} 100000\n")
    (directory / "memory.max").write_text(f"{memory}\n")
    return directory


def test_the_affinity_limits_the_processor(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _process: {0, 3})
    cpu = detection.detect_cpu(
        tmp_path, write_topology(tmp_path, [[number] for number in range(64)])
    )
    assert (cpu.usable_processors, cpu.physical_cores) == (2, 2)
    assert cpu.memory_bytes > 0


def test_hyperthreads_share_a_physical_core(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _process: {0, 1, 2, 3, 64, 65, 66, 67})
    processors = write_topology(tmp_path, [[number, number + 64] for number in range(64)])
    cpu = detection.detect_cpu(tmp_path, processors)
    assert (cpu.usable_processors, cpu.physical_cores) == (8, 4)


@pytest.mark.parametrize(("physical_cores", "cores"), [(2, 2), (64, 3), (None, 3)])
def test_without_topology_the_cores_are_limited_by_the_physical_ones(
    physical_cores: int | None, cores: int, monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _process: set(range(3)))
    monkeypatch.setattr("psutil.cpu_count", lambda logical: 128 if logical else physical_cores)
    assert detection.detect_cpu(tmp_path, tmp_path).physical_cores == cores


@pytest.mark.parametrize(
    ("quota", "limit"), [("200000", 2), ("250000", 2), ("50000", 1), ("max", 64), ("9900000", 64)]
)
def test_a_cgroup_quota_limits_the_processors(
    quota: str, limit: int, monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _process: set(range(64)))
    processors = write_topology(tmp_path / "cpu", [[number] for number in range(64)])
    cpu = detection.detect_cpu(write_cgroup_limits(tmp_path / "proc", quota, "1048576"), processors)
    assert (cpu.usable_processors, cpu.physical_cores, cpu.memory_bytes) == (limit, limit, 1 << 20)


def test_the_model_name_is_read_from_cpuinfo(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "cpuinfo"
    file.write_bytes(b"processor\t: 0\nmodel name\t: Fancy CPU: 3 GHz \xff\nmodel name\t: Other\n")
    assert detection.cpu_model(file) == "Fancy CPU: 3 GHz \N{REPLACEMENT CHARACTER}"


@pytest.mark.parametrize("content", [None, b"processor\t: 0\nBogoMIPS\t: 50.00\n"])
def test_a_processor_without_a_model_name_gets_a_default(
    tmp_path: pathlib.Path, content: bytes | None
) -> None:
    """ARM kernels write no model name."""
    file = tmp_path / "cpuinfo"
    if content is not None:
        file.write_bytes(content)
    assert detection.cpu_model(file)


ANSWER = {
    "executable": "/opt/python",
    "version": "3.12.1",
    "packages": {"torch": "2.12.0+cu130"},
    "torch_cuda": "13.0",
}


class FakeRun:
    """A fake `subprocess.run` that returns or raises the answer."""

    def __init__(self, answer: bytes | Exception) -> None:
        self._answer = answer
        self.commands: list[list[str]] = []

    def __call__(self, command: list[str], **_options: Any) -> subprocess.CompletedProcess[bytes]:
        self.commands.append(command)
        if isinstance(self._answer, Exception):
            raise self._answer
        return subprocess.CompletedProcess(command, 0, self._answer, b"")


def test_the_answer_of_an_interpreter_is_decoded() -> None:
    run = FakeRun(json.dumps(ANSWER).encode())
    software = detection.detect_interpreter("python", ["torch", "onnx"], run=run)
    assert (software.executable, software.version, software.torch_cuda) == (
        "/opt/python",
        "3.12.1",
        "13.0",
    )
    assert software.packages == {"torch": "2.12.0+cu130"}
    ((python, *_, first, second),) = run.commands
    assert (python, first, second) == ("python", "torch", "onnx")


@pytest.mark.parametrize(
    "answer",
    [
        FileNotFoundError(2, "No such file or directory"),
        PermissionError(13, "Permission denied"),
        subprocess.CalledProcessError(1, "python"),
        subprocess.TimeoutExpired("python", 60),
        b"",
        b"Welcome!",
        b"{}",
        b"\xff",
    ],
)
def test_an_interpreter_without_a_valid_answer_is_an_error(answer: bytes | Exception) -> None:
    with pytest.raises(InterpreterError) as problem:
        detection.detect_interpreter("/opt/wrong", [], run=FakeRun(answer))
    assert "'/opt/wrong'" in problem.value.what
    assert "--python" in problem.value.next_step
    assert problem.value.exit_code == 3


def test_the_current_interpreter_is_detected() -> None:
    software = detection.detect_interpreter(sys.executable, ["msgspec", "no-such-distribution"])
    assert pathlib.Path(software.executable).samefile(sys.executable)
    assert software.version == ".".join(map(str, sys.version_info[:3]))
    assert list(software.packages) == ["msgspec"]


@pytest.mark.parametrize(
    ("version_file", "cuda"),
    [("cuda: str = '13.0'\n", "13.0"), ("cuda = None\n", None), ("", None)],
)
def test_torch_is_not_imported(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, version_file: str, cuda: str | None
) -> None:
    torch = tmp_path / "torch"
    torch.mkdir()
    (torch / "__init__.py").write_text("raise RuntimeError('torch was imported')")
    (torch / "version.py").write_text(version_file)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert detection.detect_interpreter(sys.executable, []).torch_cuda == cuda


def test_a_machine_has_processor_gpus_and_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    here = detection.detect("python", [], run=FakeRun(json.dumps(ANSWER).encode()))
    assert here.gpus == ()
    assert "nvidia-ml-py" in str(here.gpu_problem)
    assert here.software.executable == "/opt/python"
    assert here.cpu.usable_processors >= 1
    assert here.kernel.startswith("Linux ")
