"""How far a measurement can be trusted: a grade from A to D, and in words what keeps it from being higher. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from advisor.domain.decision import Trust
from advisor.domain.measurement import Results, VerdictKind

#: A noise floor for the best grade, and one that allows at most the third.
LOW_NOISE, HIGH_NOISE = 0.01, 0.05
#: Shares of the visits: discarded ones beyond which the best grade is gone, and those made on a
#: busy machine beyond which all trust is.
MOST_DISCARDED, FEW_UNFIT, MANY_UNFIT = 0.05, 0.05, 0.3


def grade(
    results: Results, verdict: VerdictKind, missing: Sequence[int] = ()
) -> tuple[Trust, tuple[str, ...]]:
    """Return how far the measurement can be trusted and what it lacks for the best grade; `missing` are batch sizes without a race."""
    noise = results.noise_floor or 0.0
    unfit = results.visits.unfit / max(results.visits.made, 1)
    lacks = (*missing_sizes(missing), *missing_checks(results), *doubts(results, verdict))
    if verdict == "INCONCLUSIVE" or unfit > MANY_UNFIT:
        return "D", lacks
    if len(lacks) > 1 or noise > HIGH_NOISE:
        return "C", lacks
    return ("B" if lacks else "A"), lacks


def missing_sizes(missing: Sequence[int]) -> list[str]:
    """Return the batch sizes of which nothing is known, in one reason."""
    if not missing:
        return []
    one = len(missing) == 1
    return [
        f"batch size{'' if one else 's'} {', '.join(map(str, missing))} {'was' if one else 'were'} not measured"
    ]


def missing_checks(results: Results) -> list[str]:
    """Return the checks that were not made, or that did not agree."""
    lacks = []
    if results.repeats == 0:
        lacks.append(
            "no arm was repeated in a fresh process, so differences between processes are not known"
        )
    check = results.sustained
    if check is None:
        lacks.append("no sustained check was made")
    elif not check.agrees:
        one, two = check.arms
        ratios = f"{check.sustained_ratio:.2f} times as long as {one}, in turns {check.burst_ratio:.2f} times"
        lacks.append(f"called without a pause, {two} takes {ratios}")
    return lacks


def doubts(results: Results, verdict: VerdictKind) -> list[str]:
    """Return what speaks against the figures themselves."""
    lacks = []
    if verdict not in {"PROVEN", "TIE"}:
        lacks.append(f"the verdict is {verdict}")
    if results.noise_floor is None:
        lacks.append("the noise floor is not known")
    elif results.noise_floor > LOW_NOISE:
        lacks.append(f"two equal arms may differ by {results.noise_floor:.1%} here")
    made, visits = max(results.visits.made, 1), results.visits
    if visits.discarded / made > MOST_DISCARDED:
        lacks.append(
            f"{visits.discarded} of {made} visits were discarded because the machine was busy or held down, and made again"
        )
    if visits.unfit / made > FEW_UNFIT:
        lacks.append(
            f"the machine was busy or held down during {visits.unfit} of {made} visits that count"
        )
    if visits.stalled_calls:
        lacks.append(
            f"{visits.stalled_calls} calls stalled while they were timed, as if something was built in them"
        )
    changed = [
        f"{entry.arm} by {cell.shift:+.0%} at batch size {cell.batch_size}"
        for entry in results.measurements
        for cell in entry.cells
        if cell.shift
    ]
    if changed:
        lacks.append(f"the speed changed while it was measured: {', '.join(changed)}")
    unsettled = [measurement.arm for measurement in results.measurements if not measurement.steady]
    if unsettled:
        lacks.append(f"the times had not settled when timing began: {', '.join(unsettled)}")
    return lacks
