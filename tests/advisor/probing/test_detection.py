"""The processor and its cgroups, and GPUs with an NVML that supports all, few, or fails."""

from __future__ import annotations

import os
import pathlib
import platform
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import builders
import pytest
from nvml import FakeNvml, NVMLError, gpu_process

from advisor.domain.errors import InterpreterError
from advisor.domain.machine import Gpu
from advisor.probing import detection
from advisor.probing.cgroups import Cgroups


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Any:
    return lambda library: monkeypatch.setitem(sys.modules, "pynvml", library)


def test_clocks_limits_links_and_processes_are_read(install: Any) -> None:
    install(
        FakeNvml(
            nvmlDeviceGetMaxClockInfo=lambda _handle, clock: {1: 1980}[clock],
            nvmlDeviceGetEnforcedPowerLimit=500_000,
            nvmlDeviceGetPowerManagementDefaultLimit=700_000,
            nvmlDeviceGetEccMode=[1, 1],
            nvmlDeviceGetMigMode=[0, 1],
            nvmlDeviceGetNvLinkState=lambda _handle, link: (
                1 if link < 4 else NVMLError("Invalid Argument")
            ),
            nvmlDeviceGetComputeRunningProcesses=[gpu_process(os.getpid())],
            nvmlDeviceGetMPSComputeRunningProcesses=[],
        )
    )
    (gpu,), problem = detection.detect_gpus()
    assert problem is None
    assert gpu.sm_clock_max_mhz == 1980
    assert (gpu.power_limit_w, gpu.power_limit_default_w) == (500.0, 700.0)
    assert (gpu.ecc, gpu.mig, gpu.nvlinks) == (True, False, 4)
    (this,) = gpu.processes
    assert this.pid == os.getpid()
    assert this.name


def test_a_lost_gpu_does_not_hide_the_others(install: Any) -> None:
    install(
        FakeNvml(
            nvmlDeviceGetCount=3,
            nvmlDeviceGetName=lambda handle: (
                NVMLError("GPU is lost") if handle == 1 else "NVIDIA H200"
            ),
        )
    )
    found, problem = detection.detect_gpus()
    assert [gpu.index for gpu in found] == [0, 2]
    assert problem == "GPU 1: GPU is lost"


def test_a_missing_pynvml_gives_no_gpus_and_the_reason(install: Any) -> None:
    install(None)
    found, problem = detection.detect_gpus()
    assert found == ()
    assert "nvidia-ml-py" in str(problem)


@pytest.mark.parametrize("encode", [str, str.encode])
def test_older_releases_of_the_library_return_bytes(
    encode: Callable[[str], str | bytes], install: Any
) -> None:
    install(
        FakeNvml(
            nvmlDeviceGetCount=2,
            nvmlDeviceGetUUID=lambda handle: encode(f"GPU-{handle}"),
            nvmlDeviceGetName=lambda handle: encode(f"NVIDIA H200 No. {handle}"),
            nvmlSystemGetDriverVersion=lambda: encode("580.65.06"),
            nvmlDeviceGetEccMode=NVMLError("Not Supported"),
        )
    )
    found, problem = detection.detect_gpus()
    assert (problem, len(found)) == (None, 2)
    assert found[1] == Gpu(
        index=1,
        uuid="GPU-1",
        name="NVIDIA H200 No. 1",
        compute_capability="9.0",
        memory_bytes=80 << 30,
        free_memory_bytes=70,
        driver="580.65.06",
        cuda_driver="13.0",
    )


@pytest.mark.parametrize(
    "fails", ["nvmlInit", "nvmlDeviceGetCount", "nvmlDeviceGetName", "nvmlDeviceGetMemoryInfo"]
)
def test_a_failing_library_gives_no_gpus_and_is_shut_down(fails: str, install: Any) -> None:
    library = FakeNvml(absent=[fails])
    install(library)
    found, problem = detection.detect_gpus()
    assert found == ()
    assert str(problem).endswith(f"{fails} failed")
    assert library.calls.count("nvmlShutdown") == 1


def test_a_machine_without_gpus_has_no_gpu_problem(install: Any) -> None:
    install(FakeNvml(nvmlDeviceGetCount=0))
    assert detection.detect_gpus() == ((), None)


def write_topology(directory: pathlib.Path, cores: list[list[int]]) -> pathlib.Path:
    """Write the kernel's files about processors that share cores."""
    for core in cores:
        for number in core:
            topology = directory / f"cpu{number}" / "topology"
            topology.mkdir(parents=True)
            (topology / "core_cpus_list").write_text(f"{','.join(map(str, core))}\n")
    return directory


@pytest.mark.parametrize(
    ("affinity", "cores", "usable"),
    [
        ({0, 3}, [[number] for number in range(64)], (2, 2)),
        ({*range(4), *range(64, 68)}, [[number, number + 64] for number in range(64)], (8, 4)),
    ],
)
def test_the_affinity_limits_the_processors_and_hyperthreads_share_a_core(
    affinity: set[int],
    cores: list[list[int]],
    usable: tuple[int, int],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: pathlib.Path,
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _process: affinity)
    cpu = detection.detect_cpu(tmp_path, write_topology(tmp_path, cores))
    assert (cpu.usable_processors, cpu.physical_cores) == usable
    assert cpu.memory_bytes > 0


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
    builders.write_cgroup(tmp_path, tmp_path)
    (tmp_path / "cpu.max").write_text(f"{quota} 100000\n")
    (tmp_path / "memory.max").write_text("1048576\n")
    cpu = detection.detect_cpu(tmp_path, processors)
    assert (cpu.usable_processors, cpu.physical_cores, cpu.memory_bytes) == (limit, limit, 1 << 20)


@pytest.mark.parametrize(
    ("lines", "model", "flags"),
    [
        (b"model name\t: Fancy: 3 GHz \xff\nmodel name\t: Other", "Fancy: 3 GHz \ufffd", set()),
        # ARM kernels write no model name, so a default stands for it.
        (b"BogoMIPS\t: 50.00", None, set()),
        (None, None, set()),
        (b"flags\t\t: fpu amx_bf16\nvmx flags\t: other", None, {"fpu", "amx_bf16"}),
        (b"Features\t: fp asimd bf16\nvmx flags\t: other", None, {"fp", "asimd", "bf16"}),
    ],
)
def test_the_name_and_the_instructions_of_a_processor_are_read(
    lines: bytes | None, model: str | None, flags: set[str], tmp_path: pathlib.Path
) -> None:
    file = tmp_path / "cpuinfo"
    if lines is not None:
        file.write_bytes(b"processor\t: 0\n" + lines + b"\n")
    default = platform.processor() or platform.machine()
    assert detection.cpu_model(file) == (model or default) != ""
    assert detection.detect_cpu_flags(file) == flags


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
def test_an_interpreter_without_a_valid_answer_is_an_error(
    answer: bytes | Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(command: list[str], **_options: Any) -> subprocess.CompletedProcess[bytes]:
        if isinstance(answer, Exception):
            raise answer
        return subprocess.CompletedProcess(command, 0, answer, b"")

    monkeypatch.setattr(subprocess, "run", run)
    with pytest.raises(InterpreterError) as problem:
        detection.detect_interpreter("/opt/wrong", [])
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


DOCKER = "/docker/4711"


def make_groups(
    folder: pathlib.Path, cgroup: str, mounts: dict[str, tuple[str, str]], files: dict[str, str]
) -> Cgroups:
    """Make a `/proc` with these cgroups, mounts and files.

    A mount has a root, and its type and options as one string.
    """
    (folder / "proc" / "self").mkdir(parents=True)
    (folder / "proc" / "self" / "cgroup").write_text(cgroup)
    lines = [
        f"31 23 0:28 {root} {folder / 'sys' / name} rw,relatime shared:9 - {end}"
        for name, (root, end) in mounts.items()
    ]
    (folder / "proc" / "self" / "mountinfo").write_text(
        "23 1 254:0 / / rw - ext4 /dev/vda rw\n" + "\n".join(lines) + "\n"
    )
    for name, text in files.items():
        file = folder / "sys" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return Cgroups(folder / "proc")


def test_the_tightest_limit_up_to_the_root_applies(tmp_path: pathlib.Path) -> None:
    files = {
        "cpu.max": "max 100000\n",
        "slice/cpu.max": "150000 100000\n",
        "slice/unit/cpu.max": "400000 100000\n",
        "slice/memory.max": "1000\n",
        "slice/memory.current": "900\n",
        "slice/memory.stat": "anon 600\nfile 300\ninactive_file 200\n",
        "slice/unit/memory.max": "800\n",
        "slice/unit/memory.current": "100\n",
        "slice/cpu.stat": "usage_usec 9\nthrottled_usec 2000000\n",
        "slice/unit/cpu.stat": "usage_usec 9\nthrottled_usec 500000\n",
    }
    groups = make_groups(
        tmp_path, "0::/slice/unit\n", {"": ("/", "cgroup2 cgroup2 rw,nsdelegate")}, files
    )
    assert groups.cpu_limit() == 1.5
    assert (groups.memory_limit_bytes(), groups.free_memory_bytes()) == (800, 300)
    assert groups.throttled_seconds() == 2.5


V1_FILES = {
    "cpu.cfs_quota_us": "200000\n",
    "cpu.cfs_period_us": "50000\n",
    "cpu.stat": "nr_periods 9\nnr_throttled 3\nthrottled_time 250000000\n",
    "memory.limit_in_bytes": "1000\n",
    "memory.usage_in_bytes": "700\n",
    "memory.stat": "inactive_file 1\ntotal_inactive_file 100\n",
}


@pytest.mark.parametrize(
    ("root", "path", "group"),
    [
        pytest.param("/", DOCKER, "docker/4711/", id="on the host"),
        pytest.param(DOCKER, DOCKER, "", id="in a container"),
        pytest.param("/", "/", "", id="in a container with a namespace"),
        pytest.param("/elsewhere", DOCKER, "", id="path of the host"),
        pytest.param("/", "/../4711", "", id="outside the namespace"),
    ],
)
def test_version_1_has_a_tree_for_each_controller(
    root: str, path: str, group: str, tmp_path: pathlib.Path
) -> None:
    controllers = {
        name: ("memory" if name.startswith("memory") else "cpu,cpuacct") for name in V1_FILES
    }
    files = {f"{controllers[name]}/{group}{name}": text for name, text in V1_FILES.items()}
    cgroup = f"5:memory:{path}\n2:cpu,cpuacct:{path}\n0::/\n"
    mounts = {"unified": ("/", "cgroup2 cgroup2 rw")}
    mounts |= {names: (root, f"cgroup cgroup rw,{names}") for names in ("cpu,cpuacct", "memory")}
    groups = make_groups(tmp_path, cgroup, mounts, files)
    assert groups.cpu_limit() == 4.0
    assert (groups.memory_limit_bytes(), groups.free_memory_bytes()) == (1000, 400)
    assert groups.throttled_seconds() == 0.25


def test_without_limits_or_without_groups_nothing_is_known(tmp_path: pathlib.Path) -> None:
    files = {"cpu.max": "max 100000\n", "memory.max": "max\n", "cpu.stat": "usage_usec 5\n"}
    unlimited = make_groups(tmp_path, "0::/\n", {"": ("/", "cgroup2 cgroup2 rw")}, files)
    for groups in (unlimited, Cgroups(tmp_path / "without")):
        assert groups.cpu_limit() is groups.throttled_seconds() is None
        assert groups.memory_limit_bytes() is groups.free_memory_bytes() is None
