"""Read cgroup limits and throttling of this process, for version 1 and 2.

A limit of a parent applies to its children, so every group up to the root counts.
"""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from typing import NamedTuple

PROC = pathlib.Path("/proc")
NANOSECONDS, MICROSECONDS = 1e-9, 1e-6
#: Values that mean "no limit" in version 2 and version 1.
UNLIMITED = {"max", "-1"}


class Cgroups:
    """The cgroups of this process that limit CPU and memory; there may be none."""

    def __init__(self, proc: pathlib.Path = PROC) -> None:
        self._cpu = find_cgroups("cpu", proc)
        self._memory = find_cgroups("memory", proc)

    def cpu_limit(self) -> float | None:
        """Return the processors that the tightest quota allows; None where there is no quota."""
        quotas = [
            _read_words(group / "cpu.max")
            or _read_words(group / "cpu.cfs_quota_us") + _read_words(group / "cpu.cfs_period_us")
            for group in self._cpu
        ]
        return min(
            (
                int(quota[0]) / int(quota[1])
                for quota in quotas
                if len(quota) > 1 and quota[0] not in UNLIMITED
            ),
            default=None,
        )

    def memory_limit_bytes(self) -> int | None:
        return min((limit for _, limit in self._memory_limits()), default=None)

    def free_memory_bytes(self) -> int | None:
        """Return the free memory, reclaimable page cache included; None if there is no limit."""
        return min(
            (max(limit - _used_bytes(group), 0) for group, limit in self._memory_limits()),
            default=None,
        )

    def throttled_seconds(self) -> float | None:
        """Return how long the groups have been throttled so far; None where it is not counted."""
        counters = [_read_counters(group / "cpu.stat") for group in self._cpu]
        seconds = [
            counter[name] * unit
            for name, unit in (("throttled_usec", MICROSECONDS), ("throttled_time", NANOSECONDS))
            for counter in counters
            if name in counter
        ]
        return sum(seconds) if seconds else None

    def _memory_limits(self) -> Iterator[tuple[pathlib.Path, int]]:
        for group in self._memory:
            for name in ("memory.max", "memory.limit_in_bytes"):
                limits = set(_read_words(group / name)) - UNLIMITED
                yield from ((group, int(limit)) for limit in limits)


class Mount(NamedTuple):
    """One line of `/proc/self/mountinfo`; `root` is the directory of the file system."""

    filesystem: str
    options: list[str]
    root: pathlib.PurePosixPath
    mount_point: pathlib.Path


def find_cgroups(controller: str, proc: pathlib.Path = PROC) -> list[pathlib.Path]:
    """Return this process's cgroup and its visible ancestors, of version 1 where it has them."""
    mounts = list(_read_mounts(proc))
    lines = _read_lines(proc / "self" / "cgroup")
    for line in sorted(lines, key=lambda line: line.startswith("0::")):
        _, controllers, path = line.split(":", 2)
        is_version_1 = controller in controllers.split(",")
        for mount in mounts:
            is_first = mount.filesystem == "cgroup" and is_version_1
            is_second = mount.filesystem == "cgroup2" and not controllers
            if is_second or (is_first and controller in mount.options):
                return _with_ancestors(pathlib.PurePosixPath(path), mount)
    return []


def _with_ancestors(path: pathlib.PurePosixPath, mount: Mount) -> list[pathlib.Path]:
    # In a container the path may be the host's, which is not mounted there. Then the mount point is
    # the group itself.
    if not path.is_relative_to(mount.root) or ".." in path.parts:
        return [mount.mount_point]
    relative = path.relative_to(mount.root)
    return [mount.mount_point / each for each in (relative, *relative.parents)]


def _read_mounts(proc: pathlib.Path) -> Iterator[Mount]:
    for line in _read_lines(proc / "self" / "mountinfo"):
        mount, _, source = line.partition(" - ")
        filesystem, _, options = source.split(" ", 2)
        root, place = mount.split(" ")[3:5]
        root_path, mount_point = pathlib.PurePosixPath(root), pathlib.Path(place)
        yield Mount(filesystem, options.split(","), root_path, mount_point)


def _used_bytes(group: pathlib.Path) -> int:
    """Return the memory that the group uses, without page cache that can be reclaimed."""
    used = (
        _read_words(group / "memory.current")
        or _read_words(group / "memory.usage_in_bytes")
        or ["0"]
    )
    counters = _read_counters(group / "memory.stat")
    # In version 1 the totals of a group and its children have names of their own.
    reclaimable = counters.get("total_inactive_file", counters.get("inactive_file", 0))
    return int(used[0]) - reclaimable


def _read_counters(file: pathlib.Path) -> dict[str, int]:
    words = _read_words(file)
    return {name: int(number) for name, number in zip(words[::2], words[1::2], strict=False)}


def _read_words(file: pathlib.Path) -> list[str]:
    return " ".join(_read_lines(file)).split()


def _read_lines(file: pathlib.Path) -> list[str]:
    """Return the lines of a file of the kernel; none where the file does not exist."""
    try:
        return file.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return []
