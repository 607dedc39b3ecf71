"""A race between arms in randomised complete blocks, with sequential elimination.

`advisor.race` is the public name of this module. There is no I/O, no clock and no randomness but
the seed.

Every round visits each surviving arm once in fresh random order, so drift affects all arms alike.
The race compares arms by their paired log differences within rounds. At each interim look (after
4, 6, 9, ... rounds) it eliminates the arms that are slower than the current best by a one-sided
Student t interval. The level of each test is `delta` divided by the number of rivals and looks
(Bonferroni), so the probability that the true best is ever eliminated stays below `delta`.
"""

from __future__ import annotations

import dataclasses
import math
import random
import statistics
from collections.abc import Iterable, Mapping, Sequence

from advisor.decide.intervals import Estimate, paired_interval
from advisor.domain.results import VerdictKind

#: Rounds after which a race looks at its intervals; a race also looks after its last round.
LOOKS = (4, 6, 9, 13, 19, 28, 40, 60, 100)


@dataclasses.dataclass(frozen=True)
class Verdict:
    """The result of a race so far.

    PROVEN: every rival is shown slower. TIE: every rival is shown slower, or equivalent within the
    margin. SAFE: no rival can be faster by more than the margin, but some are unresolved.
    INCONCLUSIVE: anything else.
    """

    kind: VerdictKind
    best: str
    #: The best, and the arms shown equivalent to it within the margin.
    tied: tuple[str, ...]
    #: The arms shown neither slower nor equivalent.
    unresolved: tuple[str, ...]
    rounds: int
    #: By eliminated arm, the round after which it was eliminated.
    eliminated: Mapping[str, int]


class Race:
    """A race between arms: ask for rounds, record times, read the verdict."""

    def __init__(
        self,
        arms: Iterable[str],
        baseline: str,
        epsilon: float = 0.02,
        delta: float = 0.05,
        seed: int = 0,
        *,
        always: Iterable[str] = (),
        most_rounds: int = 40,
        settle_rounds: int = 13,
    ) -> None:
        """Start a race.

        `epsilon` is the margin of indifference, as a share of the seconds. `delta` bounds the
        probability of a wrong elimination. Every round visits the arms of `always`, even after
        their elimination; an arm that is in `always` but not in `arms` takes no part in the
        decision (such as the duplicate of the baseline, which gives the noise floor). The race ends
        after `most_rounds` at the latest, and as soon as it is `decided` unless `ends_with_verdict`
        is set to False; from `settle_rounds` on the verdict SAFE suffices.
        """
        self._arms = tuple(arms)
        self._always = tuple(always)
        _check_arms(self._arms, baseline)
        if not (epsilon > 0 and 0 < delta < 1 and most_rounds >= 1):
            message = "epsilon must be positive, delta between 0 and 1, most_rounds at least 1"
            raise ValueError(message)
        self.baseline = baseline
        self.margin = math.log1p(epsilon)
        self._looks = (*(look for look in LOOKS if look < most_rounds), most_rounds)
        self._settle_rounds = settle_rounds
        #: Whether the verdict ends the race. If not, the caller decides when to stop.
        self.ends_with_verdict = True
        self._level = delta / max(len(self._arms) - 1, 1) / len(self._looks)
        self._random = random.Random(seed)  # noqa: S311 - an order of visits, not a secret
        #: Log seconds by arm and round; rounds count from 1.
        self._records: dict[str, dict[int, float]] = {
            arm: {} for arm in (*self._arms, *self._always)
        }
        self._pending: set[str] = set()
        self._surviving = list(self._arms)
        #: Round of an arm's elimination, and the arm it was shown slower than.
        self._eliminated: dict[str, tuple[int, str]] = {}
        self._rounds = 0
        self.finished = False

    def next_round(self) -> tuple[str, ...]:
        """Return the arms to visit in fresh random order; record each before the next round."""
        if self.finished:
            message = "the race is finished"
            raise RuntimeError(message)
        if self._pending:
            message = f"not recorded in this round: {', '.join(sorted(self._pending))}"
            raise RuntimeError(message)
        order = list(self.due)
        self._random.shuffle(order)
        self._pending = set(order)
        return tuple(order)

    def record(self, arm: str, log_seconds: float) -> None:
        """Record the natural logarithm of the arm's seconds in this round.

        The last record of a round may end the race.
        """
        if arm not in self._pending:
            message = f"{arm!r} is not due in this round"
            raise ValueError(message)
        if not math.isfinite(log_seconds):
            message = f"the record of {arm!r} is not finite"
            raise ValueError(message)
        self._records[arm][self._rounds + 1] = log_seconds
        self._pending.remove(arm)
        self._complete_round()

    def withdraw(self, arm: str) -> None:
        """Remove an arm whose worker ended or whose outputs are wrong.

        Arms that were eliminated against this arm return to the race.
        """
        if arm == self.baseline:
            message = "the baseline cannot be withdrawn"
            raise ValueError(message)
        revived = [
            other for other, (_, by) in self._eliminated.items() if by == arm and other != arm
        ]
        self._eliminated = {
            other: entry
            for other, entry in self._eliminated.items()
            if other not in {arm, *revived}
        }
        self._arms = tuple(other for other in self._arms if other != arm)
        self._always = tuple(other for other in self._always if other != arm)
        self._surviving = [other for other in self._arms if other not in self._eliminated]
        self._records.pop(arm, None)
        self.finished = self.finished and (not revived or self._rounds >= self._looks[-1])
        if arm in self._pending:
            self._pending.remove(arm)
            self._complete_round()

    def _complete_round(self) -> None:
        if not self._pending:
            self._rounds += 1
            if self._rounds in self._looks:
                self._eliminate_and_check_end()

    @property
    def is_look(self) -> bool:
        """Whether the race has just looked at its intervals."""
        return self._rounds in self._looks and not self._pending

    @property
    def decided(self) -> bool:
        """Whether further rounds would not change the verdict much: PROVEN, TIE or late SAFE."""
        kind = self.verdict.kind
        settled = kind == "SAFE" and self._rounds >= self._settle_rounds
        return kind in {"PROVEN", "TIE"} or settled

    def half_widths(self, confidence: float = 0.95) -> dict[str, float]:
        """Return half of the interval of each due arm's log difference to the baseline.

        Infinite with fewer than two rounds.
        """
        level = (1 - confidence) / 2
        intervals = {
            arm: self._interval(arm, self.baseline, level)
            for arm in self.due
            if arm != self.baseline
        }
        return {arm: (each.high - each.low) / 2 for arm, each in intervals.items()}

    @property
    def due(self) -> tuple[str, ...]:
        """The arms that the next round visits, in no particular order."""
        return (*self._surviving, *(arm for arm in self._always if arm not in self._surviving))

    @property
    def rounds(self) -> int:
        """The number of complete rounds."""
        return self._rounds

    @property
    def verdict(self) -> Verdict:
        """The result so far."""
        best = self._best()
        rivals = [arm for arm in self._surviving if arm != best]
        intervals = {arm: self._interval(arm, best, self._level) for arm in rivals}
        tied = tuple(arm for arm in rivals if _is_equivalent(intervals[arm], self.margin))
        unresolved = tuple(arm for arm in rivals if arm not in tied)
        kind: VerdictKind
        if not rivals:
            kind = "PROVEN"
        elif not unresolved:
            kind = "TIE"
        elif all(interval.low > -self.margin for interval in intervals.values()):
            kind = "SAFE"
        else:
            kind = "INCONCLUSIVE"
        eliminated = {arm: number for arm, (number, _) in self._eliminated.items()}
        return Verdict(kind, best, (best, *tied), unresolved, self._rounds, eliminated)

    def ratio(self, arm: str, to: str, confidence: float = 0.95) -> Estimate:
        """Return the seconds of `arm` over those of `to`, with a two-sided interval.

        Only rounds that visited both arms count.
        """
        return self._interval(arm, to, (1 - confidence) / 2).exp()

    def _eliminate_and_check_end(self) -> None:
        best = self._best()
        for arm in [arm for arm in self._surviving if arm != best]:
            if self._interval(arm, best, self._level).low > 0:
                self._surviving.remove(arm)
                self._eliminated[arm] = (self._rounds, best)
        self.finished = self._rounds >= self._looks[-1] or (self.ends_with_verdict and self.decided)

    def _best(self) -> str:
        """Return the surviving arm with the smallest median difference to the mean of its round."""
        rounds = self._common_rounds(self._surviving)
        if not rounds:
            return self.baseline
        means = {
            number: statistics.fmean(self._records[arm][number] for arm in self._surviving)
            for number in rounds
        }
        return min(
            self._surviving,
            key=lambda arm: statistics.median(
                self._records[arm][number] - means[number] for number in rounds
            ),
        )

    def _interval(self, arm: str, to: str, level: float) -> Estimate:
        """Return the paired difference of logarithms; each bound fails with probability `level`."""
        rounds = self._common_rounds([arm, to])
        return paired_interval(
            [self._records[arm][number] - self._records[to][number] for number in rounds], level
        )

    def _common_rounds(self, arms: Sequence[str]) -> list[int]:
        """Return the complete rounds that visited all of `arms`."""
        common = set.intersection(*(set(self._records[arm]) for arm in arms))
        return sorted(number for number in common if number <= self._rounds)


def _check_arms(arms: Sequence[str], baseline: str) -> None:
    if len(set(arms)) != len(arms):
        message = "an arm is named twice"
        raise ValueError(message)
    if baseline not in arms:
        message = f"the baseline {baseline!r} is not among the arms"
        raise ValueError(message)


def _is_equivalent(interval: Estimate, margin: float) -> bool:
    return -margin < interval.low and interval.high < margin
