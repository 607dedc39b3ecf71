"""Compare two runs: what differs in the question and the machine, then the speed of every arm.

Speeds are compared only for the same question on the same device. The interval of a ratio combines
the intervals of both runs and their noise floors, so it covers what two equal runs may differ by.
"""

from __future__ import annotations

import math
from typing import Any, Final, Literal

import msgspec

from advisor.domain.measurement import Cell, Interval
from advisor.report.document import RunDocument, WorkflowEntry
from advisor.report.text_report import device_name, headline

SCHEMA: Final = "p3-advisor/comparison/1"
#: Stands for a fact that one of the runs does not have.
ABSENT = "not there"

SpeedVerdict = Literal["slower", "faster", "same", "not told apart"]


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """A fact that differs between the runs; a decisive one makes speeds incomparable."""

    what: str
    before: str
    after: str
    decisive: bool


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """One arm at one batch size: ratios of the second run over the first."""

    arm: str
    batch_size: int
    speed: Interval
    speedup: float
    verdict: SpeedVerdict = msgspec.field(name="judgement")


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """The differences between two runs and the changes in speed."""

    schema: str
    before: str
    after: str
    headlines: tuple[str, str]
    threshold: float
    differences: tuple[Difference, ...]
    comparable: bool
    changes: tuple[Change, ...]
    #: Arms that have figures in one of the runs only.
    only_before: tuple[str, ...]
    only_after: tuple[str, ...]

    @property
    def regressions(self) -> tuple[Change, ...]:
        """The changes whose whole interval is slower by more than the threshold."""
        return tuple(change for change in self.changes if change.verdict == "slower")


def compare_documents(before: RunDocument, after: RunDocument, threshold: float) -> Comparison:
    """Compare `after` with `before`; speeds within the share `threshold` count as the same."""
    differences = find_differences(before, after)
    comparable = not any(difference.decisive for difference in differences)
    entries = {entry.arm: entry for entry in before.workflows if entry.cells}
    later_entries = {entry.arm: entry for entry in after.workflows if entry.cells}
    noise = math.hypot(_noise_floor(before), _noise_floor(after))
    changes = (
        change
        for arm, entry in entries.items()
        if comparable and arm in later_entries
        for change in _changes(entry, later_entries[arm], noise, threshold)
    )
    return Comparison(
        schema=SCHEMA,
        before=before.run_id,
        after=after.run_id,
        headlines=(_headline(before), _headline(after)),
        threshold=threshold,
        differences=differences,
        comparable=comparable,
        changes=tuple(changes),
        only_before=tuple(arm for arm in entries if arm not in later_entries),
        only_after=tuple(arm for arm in later_entries if arm not in entries),
    )


def _headline(document: RunDocument) -> str:
    return headline(document) + ("" if document.finished else " (not finished)")


def _noise_floor(document: RunDocument) -> float:
    return (document.race.noise_floor or 0.0) if document.race else 0.0


def find_differences(before: RunDocument, after: RunDocument) -> tuple[Difference, ...]:
    """Return the facts that differ, the decisive ones first."""
    pairs = (
        (_decisive_facts(before), _decisive_facts(after), True),
        (_context_facts(before), _context_facts(after), False),
    )
    return tuple(
        Difference(
            what=name,
            before=first.get(name, ABSENT),
            after=second.get(name, ABSENT),
            decisive=is_decisive,
        )
        for first, second, is_decisive in pairs
        for name in dict.fromkeys([*first, *second])
        if first.get(name, ABSENT) != second.get(name, ABSENT)
    )


def _decisive_facts(document: RunDocument) -> dict[str, str]:
    """Return the facts that must be equal for speeds to be compared."""
    question, cpu = document.question, document.machine.cpu
    return {
        "model": _join_fields(question.model),
        "task": question.task,
        "precision": question.dtype,
        "batch sizes": ", ".join(map(str, question.batch_sizes)),
        "input tokens": str(question.input_tokens),
        "output tokens": str(question.output_tokens),
        "device": device_name(document),
        "usable processors": str(cpu.usable_processors) if question.device == "cpu" else "",
    }


def _context_facts(document: RunDocument) -> dict[str, str]:
    """Return the facts that may explain a difference in speed."""
    question, machine = document.question, document.machine
    gpu = next((gpu for gpu in machine.gpu if gpu.uuid == question.gpu), None)
    races = document.race.by_batch_size if document.race else ()
    return {
        "run": "finished" if document.finished else "not finished",
        "measured batch sizes": ", ".join(str(race.batch_size) for race in races) or "none",
        "p3-advisor": document.advisor_version,
        "rubric": document.rubric,
        "priorities": _join_fields(question.priorities),
        "budget": question.budget.name,
        "seed": str(question.seed),
        "driver": gpu.driver if gpu else "",
        "GPU": gpu.uuid if gpu else "",
        "kernel": machine.kernel,
        "Python": machine.software.version,
        **{
            f"{entry.arm}: {name}": value
            for entry in document.workflows
            for name, value in {**entry.versions, **entry.settings}.items()
        },
    }


def _join_fields(struct: msgspec.Struct) -> str:
    fields: dict[str, Any] = msgspec.to_builtins(struct)
    return ", ".join(f"{name} {value}" for name, value in fields.items())


def _changes(
    before: WorkflowEntry, after: WorkflowEntry, noise: float, threshold: float
) -> list[Change]:
    later_cells = {cell.batch_size: cell for cell in after.cells}
    changes = []
    for cell in before.cells:
        later = later_cells.get(cell.batch_size)
        if later is None:
            continue
        speed = speed_ratio(cell, later, noise)
        changes.append(
            Change(
                arm=before.arm,
                batch_size=cell.batch_size,
                speed=speed,
                speedup=later.speedup.value / cell.speedup.value,
                verdict=classify_speed(speed, threshold),
            )
        )
    return changes


def speed_ratio(before: Cell, after: Cell, noise: float) -> Interval:
    """Return the speed of `after` over that of `before`.

    The half widths of both intervals and the noise floor `noise` are independent, so they are added
    as squares on the logarithmic scale.
    """
    value = before.seconds.median / after.seconds.median
    before_widths, after_widths = _log_half_widths(before), _log_half_widths(after)
    if before_widths is None or after_widths is None:
        return Interval(value=value, low=None, high=None)
    (before_low, before_high), (after_low, after_high) = before_widths, after_widths
    log_noise = math.log1p(noise)
    return Interval(
        value=value,
        low=value * math.exp(-math.hypot(before_low, after_high, log_noise)),
        high=value * math.exp(math.hypot(before_high, after_low, log_noise)),
    )


def _log_half_widths(cell: Cell) -> tuple[float, float] | None:
    """Return the distances of the median from both ends of its interval, as logarithms."""
    seconds = cell.seconds
    if seconds.low is None or seconds.high is None:
        return None
    return math.log(seconds.median / seconds.low), math.log(seconds.high / seconds.median)


def classify_speed(speed: Interval, threshold: float) -> SpeedVerdict:
    """Return what the whole interval shows; a missing end shows nothing."""
    if speed.low is None or speed.high is None:
        return "not told apart"
    if speed.high < 1 - threshold:
        return "slower"
    if speed.low > 1 + threshold:
        return "faster"
    is_within = speed.low >= 1 - threshold and speed.high <= 1 + threshold
    return "same" if is_within else "not told apart"
