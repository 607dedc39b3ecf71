"""Public library API: race alternatives against each other with your own measurements.

    import math

    from advisor.decide.race import Race

    race = Race(["eager", "inductor"], baseline="eager", epsilon=0.02, delta=0.05, seed=0)
    while not race.finished:
        for arm in race.next_round():
            race.record(arm, math.log(seconds_of(arm)))
    print(race.verdict.kind, race.verdict.best)
    print(race.ratio("inductor", to="eager").value)

`seconds_of` stands for your timing of one block of calls. The race decides which arms to time in
each round and when to stop; `Verdict` explains the kinds of result. `Race.ratio` returns a `Ratio`
with `value`, `low` and `high`: the seconds of one arm over those of another.
"""

from __future__ import annotations

from advisor.decide.intervals import Estimate as Ratio
from advisor.decide.race import LOOKS, Race, Verdict
from advisor.domain.results import VerdictKind as Kind

__all__ = ["LOOKS", "Kind", "Race", "Ratio", "Verdict"]
