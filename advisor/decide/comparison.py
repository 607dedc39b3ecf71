"""Compare two runs: what differs in the question and the machine, then the speed of every arm.

Speeds are compared only for the same question on the same device. An arm is judged by its speed-up
over the baseline of the same run, because a slower machine slows both. The change of the baseline
itself is the drift of the machine and of its software, and is reported on its own. A server is
judged by its goodput: a server that cannot lead has a wide interval, and the requests per second
are what users rely on. A slower machine shows as a change of every server.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final, Literal

import msgspec

from advisor.decide import speed_ratios
from advisor.decide.run_differences import Difference, find_differences, software_of
from advisor.domain.accuracy import worst_check, worst_error
from advisor.domain.answer import Answer, AnswerSummary, Status, UnmeasuredArm
from advisor.domain.catalogue import NoisePrior
from advisor.domain.measurement import Cell, Interval, Measurement
from probes.accuracy import CLASSES, AccuracyClass
from probes.shape import Shape

SCHEMA: Final = "p3-advisor/comparison/1"
#: How an arm can have ended after which it no longer works; the others say that it was not tried.
FAILURES: Final[tuple[Status, ...]] = (
    *("unsupported", "build-failed", "incorrect", "not-engaged"),
    *("out-of-memory", "timed-out", "crashed"),
)

Conclusion = Literal["no-regression", "regression", "undecided", "not-comparable", "same-run"]


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """One arm at one batch size, or its server, in the first and in the second run."""

    arm: str
    #: Null for a server.
    shape: Shape | None
    #: Seconds of a call, of a server the requests per second of its goodput.
    before: Interval
    after: Interval
    #: The second run over the first, of an arm's speed-ups over the baseline, of a server's
    #: goodputs, of the baseline's calls per second; it gives the verdict.
    ratio: Interval
    verdict: speed_ratios.SpeedVerdict
    #: The smallest slowdown, as a share, that this comparison finds with a probability of 90 %;
    #: null without an interval.
    detectable_slowdown: float | None = None


class Costs(msgspec.Struct, frozen=True, kw_only=True):
    """What an arm costs, and how exact its worst outputs are, in the first and the second run."""

    arm: str
    #: Seconds of the cold build, before and after.
    build_seconds: tuple[float, float]
    peak_bytes: tuple[int | None, int | None]
    #: Relative to the reference in higher precision.
    errors: tuple[float | None, float | None]
    accuracy_classes: tuple[AccuracyClass | None, AccuracyClass | None]

    @property
    def is_less_exact(self) -> bool:
        before, after = (CLASSES.index(each) if each else 0 for each in self.accuracy_classes)
        return after > before


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """The differences between two runs and the changes in speed."""

    schema: Literal["p3-advisor/comparison/1"]
    before: str
    after: str
    #: Answers of the first and of the second run.
    answers: tuple[AnswerSummary, AnswerSummary]
    conclusion: Conclusion
    threshold: float
    differences: tuple[Difference, ...]
    comparable: bool
    #: The change of the baseline by batch size.
    drift: tuple[Change, ...]
    #: Whether the arm, the versions or the settings of the baseline differ.
    baseline_changed: bool
    #: The change of every other arm, or of every server, that has figures in both runs.
    changes: tuple[Change, ...]
    #: Arms that have figures in the first run and failed in the second.
    failed: tuple[UnmeasuredArm, ...]
    #: Runs on a machine that was too busy or unsteady for a verdict.
    unfit: tuple[str, ...]
    #: Arms that have figures in one of the runs only.
    only_before: tuple[str, ...]
    only_after: tuple[str, ...]
    #: Costs of the arms that have figures in both runs.
    costs: tuple[Costs, ...] = ()

    @property
    def regressions(self) -> tuple[Change, ...]:
        return tuple(change for change in self.changes if change.verdict == "slower")

    @property
    def detectable_slowdown(self) -> float | None:
        """The smallest slowdown that is found in any arm with a probability of 90 %.

        Null where that is not known for every arm, or the machine was not fit.
        """
        slowdowns = (change.detectable_slowdown for change in self.changes)
        known = [each for each in slowdowns if each is not None]
        is_known = known and len(known) == len(self.changes) and not self.unfit
        return max(known) if is_known else None

    @property
    def undecided(self) -> tuple[Change, ...]:
        """The changes that may be slower by more than the threshold, and are not shown to be."""
        lows = [(change, change.ratio.low) for change in self.changes if change.verdict != "slower"]
        least = 1 - self.threshold
        return tuple(each for each, low in lows if self.unfit or low is None or low < least)


def compare_answers(
    before: Answer, after: Answer, threshold: float, noise: NoisePrior
) -> Comparison:
    """Compare `after` with `before`; speeds within the share `threshold` count as the same."""
    differences = find_differences(before, after)
    is_comparable = not any(difference.decisive for difference in differences)
    # Of one run with the same figures, the weights may differ.
    first, second = (
        (each.run_id, each.created, _cells_of(each), each.results.serving)
        for each in (before, after)
    )
    is_same = first == second
    is_compared = is_comparable and not is_same
    entries, later_entries = _measured_arms(before), _measured_arms(after)
    unfit = tuple(each.run_id for each in (before, after) if each.results.is_unfit)
    comparison = Comparison(
        schema=SCHEMA,
        before=before.run_id,
        after=after.run_id,
        answers=(AnswerSummary.of(before), AnswerSummary.of(after)),
        conclusion="same-run",
        threshold=threshold,
        differences=differences,
        comparable=is_comparable,
        drift=tuple(_drift(before, after, threshold)) if is_compared else (),
        baseline_changed=_baseline_of(before) != _baseline_of(after),
        changes=tuple(
            msgspec.structs.replace(each, verdict="undecided") if unfit else each
            for each in (
                *_arms(before, after, threshold, noise),
                *_servers(before, after, threshold),
            )
        )
        if is_compared
        else (),
        failed=tuple(
            each for each in after.unmeasured if each.arm in entries and each.status in FAILURES
        ),
        unfit=unfit,
        only_before=tuple(sorted(entries - later_entries)),
        only_after=tuple(sorted(later_entries - entries)),
        costs=tuple(_costs(before, after)) if is_compared else (),
    )
    if is_same:
        return comparison
    return msgspec.structs.replace(comparison, conclusion=_conclude(comparison))


def _baseline_of(answer: Answer) -> tuple[str, dict[str, str]]:
    arm = answer.results.baseline
    return arm, software_of(arm, answer)


def _cells_of(answer: Answer) -> dict[str, tuple[Cell, ...]]:
    return {arm: each.cells for arm, each in answer.results.by_arm.items() if each.cells}


def _conclude(comparison: Comparison) -> Conclusion:
    if not comparison.comparable:
        return "not-comparable"
    if comparison.regressions or comparison.failed:
        return "regression"
    is_undecided = comparison.undecided or not comparison.changes
    return "undecided" if is_undecided else "no-regression"


def _measured_arms(answer: Answer) -> set[str]:
    return _cells_of(answer).keys() | _goodputs_of(answer).keys()


def _goodputs_of(answer: Answer) -> dict[str, Interval]:
    return {arm: each.goodput for arm, each in answer.served.items() if each.goodput is not None}


def _costs(before: Answer, after: Answer) -> Iterator[Costs]:
    later = after.results.by_arm
    for first in before.results.measurements:
        if (second := later.get(first.arm)) is not None:
            yield Costs(
                arm=first.arm,
                build_seconds=(first.build_seconds.cold, second.build_seconds.cold),
                peak_bytes=(first.memory_bytes.peak, second.memory_bytes.peak),
                errors=(worst_error(first.correctness), worst_error(second.correctness)),
                accuracy_classes=(_worst_class(first), _worst_class(second)),
            )


def _worst_class(measured: Measurement) -> AccuracyClass | None:
    worst = worst_check(measured.correctness)
    return worst.accuracy_class if worst else None


def _drift(before: Answer, after: Answer, threshold: float) -> Iterator[Change]:
    noise = math.hypot(*(each.results.noise_floor or 0.0 for each in (before, after)))
    for arm, first, second in _cell_pairs(before, after):
        if arm == before.results.baseline:
            seconds = _seconds(first), _seconds(second)
            ratio = seconds[0].over(seconds[1], math.log1p(noise))
            yield _judge(arm, first.shape, seconds, ratio, threshold)


def _servers(before: Answer, after: Answer, threshold: float) -> Iterator[Change]:
    first, second = _goodputs_of(before), _goodputs_of(after)
    common = [arm for arm in first if arm in second]
    for arm in common:
        ratio = speed_ratios.goodput_change(first[arm], second[arm], len(common))
        yield _judge(arm, None, (first[arm], second[arm]), ratio, threshold)


def _arms(before: Answer, after: Answer, threshold: float, noise: NoisePrior) -> Iterator[Change]:
    baseline = before.results.baseline
    pairs = [pair for pair in _cell_pairs(before, after) if pair[0] != baseline]
    for arm, first, second in pairs:
        compared = speed_ratios.undisturbed_ratio(first, second) or speed_ratios.whole_ratio(
            first.speedup,
            second.speedup,
            *(
                speed_ratios.variance_of_speedup(
                    arm, cell, run.races, noise.weight + run.process_differences(cell.shape)
                )
                for cell, run in ((first, before.results), (second, after.results))
            ),
        )
        ratio, slowdown = speed_ratios.speedup_ratio(compared, len(pairs), threshold)
        judged = _judge(arm, first.shape, (_seconds(first), _seconds(second)), ratio, threshold)
        yield msgspec.structs.replace(judged, detectable_slowdown=slowdown)


def _judge(
    arm: str,
    shape: Shape | None,
    figures: tuple[Interval, Interval],
    ratio: Interval,
    threshold: float,
) -> Change:
    before, after = figures
    verdict = speed_ratios.classify_speed(ratio, threshold)
    return Change(arm=arm, shape=shape, before=before, after=after, ratio=ratio, verdict=verdict)


def _seconds(cell: Cell) -> Interval:
    return Interval(value=cell.seconds.median, low=cell.seconds.low, high=cell.seconds.high)


def _cell_pairs(before: Answer, after: Answer) -> list[tuple[str, Cell, Cell]]:
    later = {(arm, cell.shape): cell for arm, cell in after.results.cells}
    return [
        (arm, cell, later[arm, cell.shape])
        for arm, cell in before.results.cells
        if (arm, cell.shape) in later
    ]
