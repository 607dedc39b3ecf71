"""How good the evidence behind a decision is: a grade from A to D with its reasons.

A: the decision is CLEAR or LIKELY, its leaders were repeated in fresh processes, the intervals
include what differs between processes, the machine was steady, equal workers differ by less than
half of the gain, and the outputs were compared. B: one of the last five is missing. C: more of them
are missing. D: the decision is OPEN, a batch size was not measured, or the machine was too busy or
too noisy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from advisor.decide.intervals import MIN_PROCESSES
from advisor.domain.accuracy import why_unchecked
from advisor.domain.recommendation import DecisionWord, Trust
from advisor.domain.results import Results
from advisor.domain.text import format_share, write_count
from probes.shape import Shape

#: Difference between two equal workers above which the machine does not count as steady.
STEADY_NOISE = 0.05
#: Shares of the visits, of discarded ones and of those made on a busy machine, above which the
#: machine does not count as steady.
MOST_STEADY_DISCARDED, MOST_STEADY_UNFIT = 0.05, 0.05
#: Differences between equal processes that count more than what is assumed about them: that has
#: the weight of two (`noise` in `rubric/presets.toml`).
FEWEST_DIFFERENCES = 3
#: Share of the gain, both as logarithms, above which such a difference makes the gain doubtful.
MOST_OF_GAIN = 0.5


def grade(
    results: Results,
    decision: DecisionWord | None,
    missing: Sequence[Shape] = (),
    *,
    gain: float,
    is_baseline: bool = False,
) -> tuple[Trust, tuple[str, ...]]:
    """Return the trust and what keeps it from being higher.

    `missing` has the shapes without a race, and `gain` is the speed-up that the decision rests on:
    of the advised arm, or one that nothing has over an advised baseline. The reasons that alone
    cause a D come first.
    """
    faults = (
        _find_unchecked(results),
        () if results.repeats else ("no arm was repeated in a fresh process",),
        _missing_process_intervals(results),
        _find_noise_beside(results, decision, gain, is_baseline=is_baseline),
        _find_unsteadiness(results),
    )
    decisive = (
        *(("the decision is open",) if decision == "OPEN" else ()),
        *(f"{each.description} was not measured" for each in missing),
        *find_unfitness(results),
    )
    reasons: list[str] = []
    for each in [*decisive, *(each for fault in faults for each in fault)]:
        # What a reason before it says, too, is not repeated.
        if not any(each in known or known in each for known in reasons):
            reasons.append(each)
    trusts: tuple[Trust, ...] = ("A", "B", "C")
    trust = "D" if decisive else trusts[min(sum(map(bool, faults)), len(trusts) - 1)]
    return trust, tuple(reasons)


def find_unfitness(results: Results) -> list[str]:
    """Return why nothing that was measured can be trusted."""
    reasons = []
    if results.is_busy:
        reasons.append(_describe_unfit_visits(results))
    if results.is_noisy:
        reasons.append(_describe_noise(results.noise_floor or 0.0))
    return reasons


def _describe_unfit_visits(results: Results) -> str:
    visits = results.visits
    return f"the machine was busy or throttled during {visits.unfit} of {visits.kept} visits"


def _describe_noise(noise: float) -> str:
    return f"equal processes may differ by {format_share(noise, 1) if noise <= 1 else 'over 100 %'}"


def _find_unchecked(results: Results) -> list[str]:
    found = {
        why_unchecked(checked)
        for measured in results.measurements
        for checked in measured.correctness
        if checked.accuracy_class == "unchecked"
    }
    return sorted(found)


def _missing_process_intervals(results: Results) -> list[str]:
    cells = [cell for arm, cell in results.cells if arm != results.baseline]
    # What processes differ by at one shape counts for all arms: `estimate_process_variances`.
    if max((cell.processes for cell in cells), default=0) >= MIN_PROCESSES:
        return []
    fewest = min((results.process_differences(cell.shape) for cell in cells), default=0)
    if fewest >= FEWEST_DIFFERENCES:
        return []
    known = (
        f"mostly assumed: it was measured {write_count(fewest, 'time')}" if fewest else "assumed"
    )
    return [f"how much equal processes differ is {known}"]


def _find_noise_beside(
    results: Results, decision: DecisionWord | None, gain: float, *, is_baseline: bool
) -> list[str]:
    noise = results.noise_floor or 0.0
    if noise <= STEADY_NOISE or math.log1p(noise) <= MOST_OF_GAIN * abs(math.log(gain)):
        return []
    doubt = f"the gain of {gain:.2f}x is in doubt"
    if decision == "CLEAR":
        doubt = f"the choice is clear, the size of its gain of {gain:.2f}x is not"
    if is_baseline:
        doubt = f"a gain of {gain:.2f}x by another arm may have been missed"
    return [f"{doubt}: {_describe_noise(noise)}"]


def _find_unsteadiness(results: Results) -> list[str]:
    is_unknown, stalled = results.noise_floor is None, results.visits.stalled_calls
    disturbances = find_disturbances(results)
    reasons = [*(["the noise floor is not known"] if is_unknown else []), *disturbances]
    if stalled:
        # On a busy machine they waited.
        cause = "" if disturbances else ", probably because the stack compiled in them"
        calls = write_count(stalled, "timed call")
        reasons.append(f"{calls} took far longer than usual{cause}")
    contradicted = [
        measured.arm
        for measured in results.measurements
        if any(cell.fastest_calls for cell in measured.cells)
    ]
    if contradicted:
        reasons.append(
            f"typical and fastest calls contradict each other: {', '.join(contradicted)}"
        )
    check = results.sustained
    if check is not None and not check.agrees:
        one, two = check.arms
        reasons.append(
            f"called without a pause, {two} takes {check.sustained_ratio:.2f} times as long as "
            f"{one}; in the race {check.burst_ratio:.2f} times"
        )
    changed = [
        f"{arm} by {format_share(cell.shift, signed=True)} at {cell.shape.description}"
        for arm, cell in results.cells
        if cell.shift
    ]
    if changed:
        reasons.append(f"the speed changed during the measurement: {', '.join(changed)}")
    unsettled = [measured.arm for measured in results.measurements if not measured.steady]
    if unsettled:
        reasons.append(f"warm-up was not complete when timing began: {', '.join(unsettled)}")
    return reasons


def find_disturbances(results: Results) -> list[str]:
    """Return what visits and equal workers say of a machine that was not steady."""
    reasons = []
    if (results.noise_floor or 0.0) > STEADY_NOISE:
        reasons.append(_describe_noise(results.noise_floor or 0.0))
    made, visits = max(results.visits.made, 1), results.visits
    if visits.discarded / made > MOST_STEADY_DISCARDED:
        reasons.append(
            f"{visits.discarded} of {made} visits were discarded: the machine was busy or throttled"
        )
    if visits.unfit / max(visits.kept, 1) > MOST_STEADY_UNFIT:
        reasons.append(_describe_unfit_visits(results))
    return reasons
