"""Limits of cgroups, files and import paths."""

from __future__ import annotations

import pathlib

import pytest

from advisor.cgroups import Cgroups
from advisor.system import write_atomically

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


def test_groups_without_limits(tmp_path: pathlib.Path) -> None:
    files = {"cpu.max": "max 100000\n", "memory.max": "max\n", "cpu.stat": "usage_usec 5\n"}
    groups = make(tmp_path, "0::/\n", {"": ("/", "cgroup2 cgroup2 rw")}, files)
    assert (
        groups.cpu_limit(),
        groups.memory_limit_bytes(),
        groups.free_memory_bytes(),
        groups.throttled_seconds(),
    ) == (None,) * 4


def test_a_system_without_cgroups(tmp_path: pathlib.Path) -> None:
    groups = Cgroups(tmp_path)
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
