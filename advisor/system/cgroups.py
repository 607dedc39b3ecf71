"""What the control groups that this process is in allow it and have held it back for: both versions, every group up to the root's."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

PROC = pathlib.Path("/proc")
NANOSECONDS, MICROSECONDS = 1e-9, 1e-6
#: What stands for no limit.
UNLIMITED = {"max", "-1"}


class ControlGroups:
    """The groups of this process that limit processors and memory; there may be none."""

    def __init__(self, proc: pathlib.Path = PROC) -> None:
        self._cpu = find_groups("cpu", proc)
        self._memory = find_groups("memory", proc)

    def processors(self) -> float | None:
        """Return how many processors' time the tightest group allows; None where none has a limit."""
        quotas = [
            _words(group / "cpu.max")
            or _words(group / "cpu.cfs_quota_us") + _words(group / "cpu.cfs_period_us")
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

    def memory_bytes(self) -> int | None:
        """Return the memory that the tightest group allows; None where none has a limit."""
        return min((limit for _, limit in self._memory_limits()), default=None)

    def free_memory_bytes(self) -> int | None:
        """Return what is left below the limits: files that are only cached give way; None where there is no limit."""
        return min(
            (max(limit - _taken_bytes(group), 0) for group, limit in self._memory_limits()),
            default=None,
        )

    def throttled_seconds(self) -> float | None:
        """Return how long the groups have been held back so far; None where no kernel counts it."""
        counters = [_fields(group / "cpu.stat") for group in self._cpu]
        seconds = [
            counter["throttled_usec"] * MICROSECONDS
            for counter in counters
            if "throttled_usec" in counter
        ]
        seconds += [
            counter["throttled_time"] * NANOSECONDS
            for counter in counters
            if "throttled_time" in counter
        ]
        return sum(seconds) if seconds else None

    def _memory_limits(self) -> Iterator[tuple[pathlib.Path, int]]:
        for group in self._memory:
            for word in _words(group / "memory.max") or _words(group / "memory.limit_in_bytes"):
                if word not in UNLIMITED:
                    yield group, int(word)


def find_groups(controller: str, proc: pathlib.Path = PROC) -> list[pathlib.Path]:
    """Return the folders of this process's group and of those above it, as far as they are seen; those of version 1 where it has any."""
    mounts = list(_mounts(proc))
    for line in sorted(_lines(proc / "self" / "cgroup"), key=lambda line: line.startswith("0::")):
        _, names, path = line.split(":", 2)
        for kind, options, root, place in mounts:
            if (kind == "cgroup" and controller in names.split(",") and controller in options) or (
                kind == "cgroup2" and not names
            ):
                return _up_from(pathlib.PurePosixPath(path), root, place)
    return []


def _up_from(
    path: pathlib.PurePosixPath, root: pathlib.PurePosixPath, place: pathlib.Path
) -> list[pathlib.Path]:
    """Return the folders of the group at `path` and above, where `root` of its hierarchy is mounted at `place`."""
    # In a container the path may be told from outside, where nothing of it is mounted: then what is
    # mounted is the group itself.
    below = (
        path.relative_to(root)
        if path.is_relative_to(root) and ".." not in path.parts
        else pathlib.PurePosixPath()
    )
    return (
        [place / below, *(place / parent for parent in below.parents)] if below.parts else [place]
    )


def _mounts(
    proc: pathlib.Path,
) -> Iterator[tuple[str, list[str], pathlib.PurePosixPath, pathlib.Path]]:
    """Yield the type, the options, the root and the place of each mount."""
    for line in _lines(proc / "self" / "mountinfo"):
        mount, _, source = line.partition(" - ")
        kind, _, options = source.split(" ", 2)
        root, place = mount.split(" ")[3:5]
        yield kind, options.split(","), pathlib.PurePosixPath(root), pathlib.Path(place)


def _taken_bytes(group: pathlib.Path) -> int:
    taken = _words(group / "memory.current") or _words(group / "memory.usage_in_bytes") or ["0"]
    counted = _fields(group / "memory.stat")
    # Version 1 counts the groups below under names of their own.
    return int(taken[0]) - counted.get("total_inactive_file", counted.get("inactive_file", 0))


def _fields(file: pathlib.Path) -> dict[str, int]:
    words = _words(file)
    return {name: int(number) for name, number in zip(words[::2], words[1::2], strict=False)}


def _words(file: pathlib.Path) -> list[str]:
    return " ".join(_lines(file)).split()


def _lines(file: pathlib.Path) -> list[str]:
    """Return the lines of a file of the kernel's; none where there is no such file."""
    try:
        return file.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return []
