"""What groups that raced after each other at one batch size show together."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping

from advisor import recommend
from advisor.domain.state import RaceGroup
from advisor.race import Kind, Verdict


def count_on(verdict: Verdict, group: RaceGroup) -> Verdict:
    """Return a group's verdict with its rounds counted on from those of the groups before."""
    before = group.first_round - 1
    eliminated = {arm: number + before for arm, number in verdict.eliminated.items()}
    return dataclasses.replace(verdict, rounds=verdict.rounds + before, eliminated=eliminated)


def join_verdicts(earlier: Verdict, later: Verdict, log_speedups: Mapping[str, float]) -> Verdict:
    """Return what two groups show together.

    Whoever the earlier group left open is still open: beside the same best as it was, beside another one as unresolved: they never met.
    Where memory had no room for the earlier best in the later group, it is still the best unless someone it has not met gained more
    over the baseline.
    """
    decided = arms_of(later)
    absent, met = earlier.best not in decided, later.best in arms_of(earlier)
    if absent and (met or gain_of(earlier.best, log_speedups) >= gain_of(later.best, log_speedups)):
        return _keep_best(earlier, later)
    tied = [arm for arm in earlier.tied if arm not in decided]
    unresolved = [arm for arm in earlier.unresolved if arm not in decided]
    kind: Kind = later.kind
    if earlier.best != later.best:
        tied, unresolved = [], [*tied, *unresolved]
        kind = "INCONCLUSIVE" if unresolved else kind
    elif tied or unresolved:
        kind = max(kind, earlier.kind, key=recommend.STRENGTH.index)
    return Verdict(
        kind=kind,
        best=later.best,
        tied=(*later.tied, *tied),
        unresolved=(*later.unresolved, *unresolved),
        rounds=later.rounds,
        eliminated={**{arm: number for arm, number in earlier.eliminated.items() if arm not in decided}, **later.eliminated},
    )


def _keep_best(earlier: Verdict, later: Verdict) -> Verdict:
    """Return the earlier verdict with the arms that only the later group had: who was not shown slower there is unresolved."""
    decided = arms_of(earlier)
    unresolved = [arm for arm in (*later.tied, *later.unresolved) if arm not in decided]
    return Verdict(
        kind="INCONCLUSIVE" if unresolved else earlier.kind,
        best=earlier.best,
        tied=earlier.tied,
        unresolved=(*earlier.unresolved, *unresolved),
        rounds=later.rounds,
        eliminated={**{arm: number for arm, number in later.eliminated.items() if arm not in decided}, **earlier.eliminated},
    )


def arms_of(verdict: Verdict) -> set[str]:
    """Return the arms that a verdict is about."""
    return {verdict.best, *verdict.tied, *verdict.unresolved, *verdict.eliminated}


def gain_of(arm: str, log_speedups: Mapping[str, float]) -> float:
    """Return an arm's mean log speed-up over the baseline; of one that does not count any more, less than any."""
    return log_speedups.get(arm, -math.inf)
