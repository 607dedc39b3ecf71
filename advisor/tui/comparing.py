"""Two runs side by side: what differs between them first, then times that are compared only where they can be. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import msgspec

from advisor.domain.measurement import Cell, Measurement
from advisor.domain.run import Header
from advisor.pipeline import Decision

#: What has to be the same before one run can be called faster than the other.
ALIKE = ("model", "batch sizes", "input tokens", "precision", "device")
Verdict = Literal["first", "second", "same", "only first", "only second", "too little", "not compared"]


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """Something that two runs do not share."""

    what: str
    first: str
    second: str
    #: Whether times cannot be compared because of it.
    forbids: bool


class ComparedArm(msgspec.Struct, frozen=True, kw_only=True):
    """One arm at one batch size in both runs; null where a run does not have it."""

    arm: str
    batch_size: int
    first: Cell | None
    second: Cell | None
    #: The second's time over the first's, less one.
    change: float | None
    verdict: Verdict


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """Both runs."""

    first: str
    second: str
    differences: tuple[Difference, ...]
    arms: tuple[ComparedArm, ...]

    @property
    def is_fair(self) -> bool:
        """Whether nothing that the times depend on by intention differs."""
        return not any(difference.forbids for difference in self.differences)


def compare(first: Decision, second: Decision) -> Comparison:
    """Return what differs, and the times of every arm of either run."""
    known = zip(facts_of(first.header), facts_of(second.header), strict=True)
    differences = [
        Difference(what=what, first=mine, second=other, forbids=what in ALIKE) for (what, mine), (_, other) in known if mine != other
    ]
    measured = [{entry.arm: entry for entry in decision.results.measurements} for decision in (first, second)]
    differences += _version_differences(*measured)
    is_fair = not any(difference.forbids for difference in differences)
    names = list(dict.fromkeys([arm.arm for decision in (first, second) for arm in decision.scored] + [*measured[0], *measured[1]]))
    arms = [row for name in names for row in _rows(name, measured[0].get(name), measured[1].get(name), is_fair=is_fair)]
    return Comparison(first=first.header.run_id, second=second.header.run_id, differences=tuple(differences), arms=tuple(arms))


def facts_of(header: Header) -> Iterator[tuple[str, str]]:
    """Yield what a run's times depend on, as far as its header says."""
    asked, machine = header.question, header.machine
    gpu = next((gpu for gpu in machine.gpus if gpu.uuid == asked.gpu), None)
    yield "model", asked.model.name
    yield "batch sizes", ", ".join(map(str, asked.batch_sizes))
    yield "input tokens", str(asked.input_tokens)
    yield "precision", asked.dtype
    yield "device", gpu.name if gpu else machine.cpu.model
    yield "driver", gpu.driver if gpu else ""
    yield "processors", str(machine.cpu.usable_processors)
    yield "kernel", machine.kernel
    yield "Python", machine.software.version
    yield "priorities", "/".join(f"{weight:.0%}" for weight in asked.priorities.shares().values())
    yield "measuring time", f"{asked.budget.measuring_seconds:g} s"
    yield "p3-advisor", header.advisor_version


def _version_differences(first: dict[str, Measurement], second: dict[str, Measurement]) -> Iterator[Difference]:
    """Yield the stacks of which the runs used other versions; of one that arms disagree on, all are told."""
    versions: list[dict[str, set[str]]] = [{}, {}]
    for known, measured in zip(versions, (first, second), strict=True):
        for entry in measured.values():
            for name, version in entry.versions.items():
                known.setdefault(name, set()).add(version)
    for name in sorted(versions[0].keys() & versions[1].keys()):
        mine, other = (", ".join(sorted(known[name])) for known in versions)
        if mine != other:
            yield Difference(what=name, first=mine, second=other, forbids=False)


def _rows(arm: str, first: Measurement | None, second: Measurement | None, *, is_fair: bool) -> Iterator[ComparedArm]:
    cells = [{cell.batch_size: cell for cell in entry.cells} if entry else {} for entry in (first, second)]
    for size in sorted(cells[0].keys() | cells[1].keys()):
        mine, other = cells[0].get(size), cells[1].get(size)
        change = other.seconds.median / mine.seconds.median - 1 if mine and other else None
        yield ComparedArm(arm=arm, batch_size=size, first=mine, second=other, change=change, verdict=_judge(mine, other, is_fair=is_fair))


def _judge(first: Cell | None, second: Cell | None, *, is_fair: bool) -> Verdict:
    if first is None or second is None:
        return "only first" if second is None else "only second"
    mine, other = first.seconds, second.seconds
    if not is_fair:
        return "not compared"
    if mine.low is None or mine.high is None or other.low is None or other.high is None:
        return "too little"
    if mine.high < other.low:
        return "first"
    return "second" if other.high < mine.low else "same"
