"""Render the load of the machine before the kept runs, for the limits in `rubric/presets.toml`."""

from __future__ import annotations

import collections
from collections.abc import Iterable, Iterator, Sequence

from kept.runs import EVIDENCE, read_run
from tabulate import tabulate

from advisor.domain.machine import MachineActivity, QuietCheck

HEADERS = ("usable processors", "problem", "runs", "busy", "stolen", "GPU busy")


def load_checks() -> Iterator[QuietCheck]:
    """Yield the check of each kept run that has one, in the order of the files."""
    for file in sorted(EVIDENCE.glob("*.json")):
        check = read_run(file.name).load_check
        if check is not None:
            yield check


def busy_share(load: MachineActivity) -> float | None:
    """Return the share of the usable processors that were busy; None if it was not counted."""
    if load.idle_processors is None:
        return None
    return max(0.0, 1 - load.idle_processors / load.usable_processors)


def section() -> list[str]:
    """Return a table of the largest loads, by the number of processors and the problems found."""
    groups: dict[tuple[int, str], list[MachineActivity]] = collections.defaultdict(list)
    for check in load_checks():
        problems = ", ".join(check.problems) or "none"
        groups[check.load.usable_processors, problems].append(check.load)
    rows = [
        (
            *group,
            len(loads),
            _largest(map(busy_share, loads)),
            _largest(load.stolen_share for load in loads),
            _largest(load.gpu_busy_share for load in loads),
        )
        for group, loads in sorted(groups.items())
    ]
    return _table(rows).splitlines()


def _largest(shares: Iterable[float | None]) -> str:
    known = [share for share in shares if share is not None]
    return f"{max(known):.1%}".replace("%", " %") if known else "-"


def _table(rows: Sequence[Sequence[object]]) -> str:
    alignment = ("right", "left", *("right",) * 4)
    return tabulate(rows, HEADERS, tablefmt="pipe", colalign=alignment, disable_numparse=True)
