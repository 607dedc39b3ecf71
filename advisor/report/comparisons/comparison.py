"""Compare two runs: what differs in the question and the machine, then the speed of every arm.

Speeds are compared only for the same question on the same device. An arm is judged by its speed-up
over the baseline of the same run, because a slower machine slows both. The change of the baseline
itself is the drift of the machine and of eager PyTorch, and is reported on its own.
"""

from __future__ import annotations

import math
from typing import Final, Literal

import msgspec

from advisor.domain.answer import Answer, Status, UnmeasuredArm
from advisor.domain.interval import Interval
from advisor.domain.measurement import Cell
from advisor.domain.plan import BASELINE
from advisor.recommendation.trust import is_unfit
from advisor.report.comparisons.goodput_comparison import GoodputChange, compare_goodputs
from advisor.report.comparisons.run_differences import Difference, find_differences, software_of
from advisor.report.comparisons.speed_ratios import (
    SpeedVerdict,
    classify_speed,
    may_be_slower,
    speed_ratio,
    speedup_ratio,
    undisturbed_ratio,
    variance_of_speedup,
    whole_ratio,
)
from advisor.report.sections.answer import headline
from probes.wire.shape import Shape

SCHEMA: Final = "p3-advisor/comparison/3"
#: How an arm can have ended after which it no longer works; the others say that it was not tried.
FAILURES: Final[frozenset[Status]] = frozenset(
    {
        "unsupported",
        "build-failed",
        "incorrect",
        "not-engaged",
        "out-of-memory",
        "timed-out",
        "crashed",
    }
)

Outcome = Literal["no-regression", "regression", "undecided", "not-comparable", "same-run"]


class Drift(msgspec.Struct, frozen=True, kw_only=True):
    """The speed of the baseline at one batch size: the second run over the first."""

    shape: Shape
    speed: Interval
    verdict: SpeedVerdict


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """One arm at one batch size: ratios of the second run over the first."""

    arm: str
    shape: Shape
    #: Median seconds of a call in the first and in the second run.
    seconds_before: float
    seconds_after: float
    #: Of calls per second, which a slower machine changes as well.
    speed: Interval
    speedup: float
    #: The ratio of the speed-ups over the baseline, with an interval; it gives the verdict.
    speedup_ratio: Interval
    verdict: SpeedVerdict
    #: The smallest slowdown, as a share, that this comparison finds with a probability of 90 %;
    #: null without an interval.
    found_from: float | None = None


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """The differences between two runs and the changes in speed."""

    schema: Literal["p3-advisor/comparison/3"]
    before: str
    after: str
    headlines: tuple[str, str]
    outcome: Outcome
    threshold: float
    differences: tuple[Difference, ...]
    comparable: bool
    #: The change of the baseline by batch size.
    drift: tuple[Drift, ...]
    #: Whether the versions or settings of the baseline differ, so that speed-ups are over another
    #: baseline.
    baseline_changed: bool
    #: The change of every other arm that has figures in both runs.
    changes: tuple[Change, ...]
    #: The change of every server's goodput; empty for other tasks.
    goodputs: tuple[GoodputChange, ...] = ()
    #: Arms that have figures in the first run and failed in the second.
    failed: tuple[UnmeasuredArm, ...]
    #: Runs on a machine that was too busy or unsteady for a verdict.
    unfit: tuple[str, ...]
    #: Arms that have figures in one of the runs only.
    only_before: tuple[str, ...]
    only_after: tuple[str, ...]

    @property
    def regressions(self) -> tuple[Change | GoodputChange, ...]:
        """The changes that are shown to be slower by more than the threshold."""
        changes: tuple[Change | GoodputChange, ...] = (*self.changes, *self.goodputs)
        return tuple(change for change in changes if change.verdict == "slower")

    @property
    def found_from(self) -> float | None:
        """The smallest slowdown that is found in any arm with a probability of 90 %.

        Null where that is not known for every arm, or the machine was not fit.
        """
        known = [change.found_from for change in self.changes if change.found_from is not None]
        is_known = known and len(known) == len(self.changes) and not self.unfit
        return max(known) if is_known else None

    @property
    def undecided(self) -> tuple[Change | GoodputChange, ...]:
        """The changes that may be slower by more than the threshold, and are not shown to be."""
        ratios: tuple[tuple[Change | GoodputChange, Interval], ...] = (
            *((change, change.speedup_ratio) for change in self.changes),
            *((change, change.ratio) for change in self.goodputs),
        )
        return tuple(
            change
            for change, ratio in ratios
            if change.verdict != "slower" and (self.unfit or may_be_slower(ratio, self.threshold))
        )


def compare_answers(before: Answer, after: Answer, threshold: float) -> Comparison:
    """Compare `after` with `before`; speeds within the share `threshold` count as the same."""
    differences = find_differences(before, after)
    is_comparable = not any(difference.decisive for difference in differences)
    entries, later_entries = _measured_arms(before), _measured_arms(after)
    was_unfit = is_unfit(before.results) or is_unfit(after.results)
    comparison = Comparison(
        schema=SCHEMA,
        before=before.run_id,
        after=after.run_id,
        headlines=(_headline(before), _headline(after)),
        outcome="not-comparable",
        threshold=threshold,
        differences=differences,
        comparable=is_comparable,
        drift=_drift(before, after, threshold) if is_comparable else (),
        baseline_changed=software_of(BASELINE, before) != software_of(BASELINE, after),
        changes=_changes(before, after, threshold) if is_comparable else (),
        goodputs=compare_goodputs(before, after, threshold, is_unfit=was_unfit)
        if is_comparable
        else (),
        failed=tuple(
            entry for entry in after.unmeasured if entry.arm in entries and entry.status in FAILURES
        ),
        unfit=tuple(each.run_id for each in (before, after) if is_unfit(each.results)),
        only_before=tuple(sorted(entries - later_entries)),
        only_after=tuple(sorted(later_entries - entries)),
    )
    if _is_same_run(before, after):
        return msgspec.structs.replace(
            comparison, outcome="same-run", drift=(), changes=(), goodputs=()
        )
    return msgspec.structs.replace(comparison, outcome=_outcome(comparison))


def _is_same_run(before: Answer, after: Answer) -> bool:
    """Return whether both are one run with the same figures; its weights may differ."""
    runs = [
        (each.run_id, each.created, _cells_of(each), each.results.serving)
        for each in (before, after)
    ]
    return runs[0] == runs[1]


def _cells_of(answer: Answer) -> dict[str, tuple[Cell, ...]]:
    return {entry.arm: entry.cells for entry in answer.results.measurements if entry.cells}


def _headline(answer: Answer) -> str:
    return headline(answer) + ("" if answer.finished else " (not finished)")


def _outcome(comparison: Comparison) -> Outcome:
    if not comparison.comparable:
        return "not-comparable"
    if comparison.regressions or comparison.failed:
        return "regression"
    has_changes = comparison.changes or comparison.goodputs
    return "undecided" if comparison.undecided or not has_changes else "no-regression"


def _measured_arms(answer: Answer) -> set[str]:
    """Return the arms that have figures."""
    serving = answer.results.serving
    served = serving.arms if serving is not None else ()
    return {entry.arm for entry in answer.results.measurements if entry.cells} | {
        arm.arm for arm in served if arm.goodput is not None
    }


def _drift(before: Answer, after: Answer, threshold: float) -> tuple[Drift, ...]:
    noise = math.hypot(_noise_floor(before), _noise_floor(after))
    ratios = (
        (first.shape, speed_ratio(first, second, noise))
        for arm, first, second in _cell_pairs(before, after)
        if arm == BASELINE
    )
    return tuple(
        Drift(shape=shape, speed=speed, verdict=classify_speed(speed, threshold))
        for shape, speed in ratios
    )


def _changes(before: Answer, after: Answer, threshold: float) -> tuple[Change, ...]:
    noise = math.hypot(_noise_floor(before), _noise_floor(after))
    pairs = [pair for pair in _cell_pairs(before, after) if pair[0] != BASELINE]
    was_unfit = is_unfit(before.results) or is_unfit(after.results)
    changes = []
    for arm, first, second in pairs:
        compared = undisturbed_ratio(first, second) or whole_ratio(
            first.speedup,
            second.speedup,
            *(
                variance_of_speedup(arm, cell, run.results.races, _process_differences(run, cell))
                for cell, run in ((first, before), (second, after))
            ),
        )
        ratio, found_from = speedup_ratio(compared, len(pairs), threshold)
        changes.append(
            Change(
                arm=arm,
                shape=first.shape,
                seconds_before=first.seconds.median,
                seconds_after=second.seconds.median,
                speed=speed_ratio(first, second, noise),
                speedup=ratio.value,
                speedup_ratio=ratio,
                verdict="undecided" if was_unfit else classify_speed(ratio, threshold),
                found_from=found_from,
            )
        )
    return tuple(changes)


def _process_differences(answer: Answer, cell: Cell) -> int:
    """Return how many differences between equal processes the run has at a batch size.

    One is that of the baseline and its duplicate; each repetition of an arm adds one.
    """
    return 1 + sum(
        each.processes - 1
        for entry in answer.results.measurements
        for each in entry.cells
        if each.shape == cell.shape
    )


def _cell_pairs(before: Answer, after: Answer) -> list[tuple[str, Cell, Cell]]:
    """Return the cells of an arm and a batch size that both runs have."""
    later = {
        (entry.arm, cell.shape): cell
        for entry in after.results.measurements
        for cell in entry.cells
    }
    return [
        (entry.arm, cell, later[entry.arm, cell.shape])
        for entry in before.results.measurements
        for cell in entry.cells
        if (entry.arm, cell.shape) in later
    ]


def _noise_floor(answer: Answer) -> float:
    return answer.results.noise_floor or 0.0
