"""How good the evidence behind a decision is: a grade from A to D, and what lowers it.

A: the decision is CLEAR or LIKELY, its leaders were repeated in fresh processes, the intervals
include what differs between processes, the machine was steady, equal workers differ by less than
half of the gain, and the outputs were compared. B: one of the last five is missing. C: more of them
are missing. D: the decision is OPEN, a batch size was not measured, or the machine was too busy or
too noisy. What another machine has measured has no A.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import get_args

from advisor.decide.intervals import MIN_PROCESSES
from advisor.domain.recommendation import DecisionWord, Disturbance, Lacking, Trust, TrustFault
from advisor.domain.results import Results
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


def judge_trust(
    results: Results,
    decision: DecisionWord | None,
    missing: Sequence[Shape] = (),
    *,
    gain: float,
    imported: bool = False,
) -> tuple[Trust, tuple[TrustFault, ...]]:
    """Return the trust and what keeps it from being higher.

    `missing` has the shapes without a race, and `gain` is the speed-up that the decision rests on:
    of the advised arm, or one that nothing has over an advised baseline. The faults that alone
    cause a D come first.
    """
    first: dict[TrustFault, bool] = {
        "imported": imported,
        "open": decision == "OPEN",
        "not-measured": bool(missing),
        "busy": results.is_busy,
        "noise": results.is_noisy,
    }
    worst, found = [each for each, is_so in first.items() if is_so], _find(results, gain)
    lacking = [each for each in found if each in get_args(Lacking)]
    lost = max(len(lacking) + bool(found[len(lacking) :]), int(imported))
    trust: Trust = "D" if {*worst} - {"imported"} else "C" if lost > 1 else "B" if lost else "A"
    # The doubt in the gain names the noise, too.
    twice = "gain-in-doubt" if results.is_noisy else "noise" if "gain-in-doubt" in found else ""
    return trust, tuple(each for each in dict.fromkeys([*worst, *found]) if each != twice)


def find_disturbances(results: Results) -> list[TrustFault]:
    """Return what visits and equal workers say of a machine that was not steady."""
    return [each for each in _find(results) if each in get_args(Disturbance)]


def _find(results: Results, gain: float = 1.0) -> list[TrustFault]:
    """Return what is lacking, then what was unsteady."""
    noise, visits, check = results.noise_floor or 0.0, results.visits, results.sustained
    checks = [checked for each in results.measurements for checked in each.correctness]
    is_noisy, doubt = noise > STEADY_NOISE, MOST_OF_GAIN * abs(math.log(gain))
    found: dict[TrustFault, bool] = {
        "unchecked": any(each.accuracy_class == "unchecked" for each in checks),
        "not-repeated": not results.repeats,
        "processes-assumed": _assumes_processes(results),
        "gain-in-doubt": is_noisy and math.log1p(noise) > doubt,
        "noise-unknown": results.noise_floor is None,
        "noise": is_noisy,
        "discarded": visits.discarded / max(visits.made, 1) > MOST_STEADY_DISCARDED,
        "busy": visits.unfit / max(visits.kept, 1) > MOST_STEADY_UNFIT,
        "stalled": visits.stalled_calls > 0,
        "contradictory": any(cell.fastest_calls for _, cell in results.cells),
        "not-sustained": check is not None and not check.agrees,
        "shifted": any(cell.shift for _, cell in results.cells),
        "cold": not all(each.steady for each in results.measurements),
    }
    return [each for each, is_so in found.items() if is_so]


def _assumes_processes(results: Results) -> bool:
    processes = [cell.processes for arm, cell in results.cells if arm != results.baseline]
    # What processes differ by at one shape counts for all arms: `estimate_process_variances`.
    is_measured = max(processes, default=0) >= MIN_PROCESSES
    return not is_measured and results.fewest_process_differences < FEWEST_DIFFERENCES
