"""The checks of the doctor, and limits of cgroups, files and import paths."""

from __future__ import annotations

import pathlib
from typing import Any

import builders
import pytest

from advisor.cli.doctor import Finding, check_each_gpu, check_selected_gpu
from advisor.domain.machine import GpuProcess
from advisor.probing.cgroups import Cgroups
from advisor.store.files import write_atomically


def findings(*found: Any, problem: str | None = None) -> dict[str, Finding]:
    machine = builders.machine(
        gpus=found, gpu_problem=problem, software=builders.interpreter(torch_cuda="13.0")
    )
    return {finding.name: finding for finding in check_each_gpu(machine)}


def test_an_idle_gpu_has_no_problem() -> None:
    (finding,) = findings(
        builders.gpu(power_limit_w=700.0, power_limit_default_w=700.0, ecc=True, nvlinks=18)
    ).values()
    assert finding.status == "ok"
    assert finding.fix is None
    assert "700 W, ECC on, 18 NVLinks" in finding.what


@pytest.mark.parametrize(
    ("visible_devices", "status", "words"),
    [
        (None, "ok", "No. 0"),
        ("1", "ok", "No. 1"),
        ("", "warn", "none: CUDA_VISIBLE_DEVICES is ''"),
        ("2", "warn", "is partitioned into MIG instances"),
        ("MIG-4711", "warn", "MIG-4711 is a MIG instance"),
    ],
)
def test_the_selected_gpu_is_reported(visible_devices: str | None, status: str, words: str) -> None:
    machine = builders.gpu_machine(
        *(
            builders.gpu(index=number, uuid=f"GPU-{number}", name=f"No. {number}", mig=number > 1)
            for number in range(3)
        )
    )
    finding = check_selected_gpu(machine, visible_devices)
    assert (finding.name, finding.status) == ("gpu", status)
    assert words in finding.what
    assert finding.fix or status == "ok"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"processes": (GpuProcess(pid=7, memory_bytes=3 << 30, name="python"),)},
            "1 other process uses it and 3.0 GiB of its memory (python)",
        ),
        (
            {"processes": (GpuProcess(pid=7, memory_bytes=None, name=None),)},
            "names not visible in this container",
        ),
        ({"mps_processes": 2}, "MPS"),
        ({"mig": True}, "MIG"),
        (
            {"power_limit_w": 300.0, "power_limit_default_w": 700.0},
            "limited to 300 W instead of 700 W",
        ),
    ],
)
def test_a_problem_of_a_gpu_is_a_warning_with_its_fix(changes: dict[str, Any], words: str) -> None:
    (finding,) = findings(builders.gpu(**changes)).values()
    assert finding.status == "warn"
    assert words in finding.what
    assert finding.fix


def test_every_gpu_and_the_failure_of_another_are_listed() -> None:
    found = findings(
        builders.gpu(), builders.gpu(index=2, uuid="GPU-2"), problem="GPU 1: GPU is lost"
    )
    assert list(found) == ["gpu 0", "gpu 2", "nvml"]
    assert found["nvml"].what == "GPU 1: GPU is lost"


DOCKER = "/docker/4711"


def make(
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
    groups = make(tmp_path, "0::/slice/unit\n", {"": ("/", "cgroup2 cgroup2 rw,nsdelegate")}, files)
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
    groups = make(tmp_path, cgroup, mounts, files)
    assert groups.cpu_limit() == 4.0
    assert (groups.memory_limit_bytes(), groups.free_memory_bytes()) == (1000, 400)
    assert groups.throttled_seconds() == 0.25


def test_without_limits_or_without_groups_nothing_is_known(tmp_path: pathlib.Path) -> None:
    files = {"cpu.max": "max 100000\n", "memory.max": "max\n", "cpu.stat": "usage_usec 5\n"}
    unlimited = make(tmp_path, "0::/\n", {"": ("/", "cgroup2 cgroup2 rw")}, files)
    for groups in (unlimited, Cgroups(tmp_path / "without")):
        assert (
            groups.cpu_limit(),
            groups.memory_limit_bytes(),
            groups.free_memory_bytes(),
            groups.throttled_seconds(),
        ) == (None,) * 4


def test_a_file_and_its_directory_are_made(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "folder" / "file"
    write_atomically(file, b"first")
    write_atomically(file, b"second")
    assert file.read_bytes() == b"second"
    assert list(file.parent.iterdir()) == [file]


def test_a_failed_write_keeps_the_old_content_and_leaves_no_partial_file(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "file"
    write_atomically(file, b"old")

    def fail(self: pathlib.Path, content: bytes) -> None:
        with self.open("wb") as stream:
            stream.write(content[:1])
        raise OSError

    monkeypatch.setattr(pathlib.Path, "write_bytes", fail)
    with pytest.raises(OSError):  # noqa: PT011 - a full disk, a missing right and others
        write_atomically(file, b"new")
    assert file.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [file]
