"""Who is measured next, and when the decision stands: a race in randomised complete blocks with a spent error probability.

No clock, no I/O, no randomness but the seed: drive it with whatever measures.

    race = Race(["eager", "inductor"], baseline="eager")
    while not race.finished:
        for arm in race.next_round():
            race.record(arm, math.log(seconds_of(arm)))
    race.verdict.kind

Every round visits each surviving arm once in fresh random order, so that whatever drifts meets all
arms alike; what counts is the paired difference within a round. At each look (after 4, 6, 9, ...
rounds) a one-sided Student t interval of the mean difference to the current best decides, at the
level `delta` divided by the rivals and the looks (Bonferroni): however often one looks, the
probability that the true best is ever called slower stays below `delta`.
"""

from __future__ import annotations

import dataclasses
import math
import random
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from advisor.statistics.intervals import paired_interval

Kind = Literal["PROVEN", "TIE", "SAFE", "INCONCLUSIVE"]

LOOKS = (4, 6, 9, 13, 19, 28, 40, 60, 100)


@dataclasses.dataclass(frozen=True)
class Ratio:
    """How many times the seconds of one arm those of another take, with its interval."""

    value: float
    low: float
    high: float


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What the race has shown.

    PROVEN: every rival is shown slower. TIE: every rival is shown slower or equivalent within the
    margin. SAFE: no rival can be faster by more than the margin, but some are unresolved.
    INCONCLUSIVE: anything else.
    """

    kind: Kind
    best: str
    #: The arms shown equivalent to the best within the margin, and the best.
    tied: tuple[str, ...]
    #: The arms shown neither slower nor equivalent.
    unresolved: tuple[str, ...]
    rounds: int
    #: The round at which an arm was shown slower than the best of that time.
    eliminated: Mapping[str, int]


class Race:
    """A race between arms; see the module's docstring."""

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

        `epsilon` is the margin of indifference as a share of the seconds, `delta` the probability
        of a wrong elimination that is accepted. The arms of `always` are visited in every round,
        eliminated or not; those of them that are not in `arms` take no part in the decision (the
        baseline's duplicate, whose difference to the baseline is the noise floor). `most_rounds`
        ends the race in any case; from `settle_rounds` on it also ends when no rival can be faster
        than the best by more than `epsilon`.
        """
        self._arms = tuple(arms)
        self._always = tuple(always)
        if len(set(self._arms)) != len(self._arms):
            message = "an arm is named twice"
            raise ValueError(message)
        if baseline not in self._arms:
            message = f"the baseline {baseline!r} is not among the arms"
            raise ValueError(message)
        if not (epsilon > 0 and 0 < delta < 1 and most_rounds >= 1):
            message = "epsilon must be positive, delta between 0 and 1, most_rounds at least 1"
            raise ValueError(message)
        self.baseline = baseline
        self.margin = math.log1p(epsilon)
        self._looks = (*(look for look in LOOKS if look < most_rounds), most_rounds)
        self._settle_rounds = settle_rounds
        self._level = delta / max(len(self._arms) - 1, 1) / len(self._looks)
        self._random = random.Random(seed)  # noqa: S311 - an order of visits, not a secret
        #: Log seconds by arm and round; rounds count from 1.
        self._records: dict[str, dict[int, float]] = {
            arm: {} for arm in (*self._arms, *self._always)
        }
        self._pending: set[str] = set()
        self._alive = list(self._arms)
        #: Round of an arm's elimination, and the arm it was shown slower than.
        self._eliminated: dict[str, tuple[int, str]] = {}
        self._rounds = 0
        self.finished = False

    def next_round(self) -> tuple[str, ...]:
        """Return the surviving arms in fresh random order; each must be recorded before the next round."""
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
        """Take the natural logarithm of the arm's seconds in this round; the round's last record may end the race."""
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
        """Take an arm out because it broke or was found wrong; arms that only it had shown slower are back in the race."""
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
        self._alive = [other for other in self._arms if other not in self._eliminated]
        self._records.pop(arm, None)
        self.finished = self.finished and (not revived or self._rounds >= self._looks[-1])
        if arm in self._pending:
            self._pending.remove(arm)
            self._complete_round()

    def _complete_round(self) -> None:
        if not self._pending:
            self._rounds += 1
            if self._rounds in self._looks:
                self._look()

    @property
    def due(self) -> tuple[str, ...]:
        """The arms that the next round visits, in no particular order."""
        return (*self._alive, *(arm for arm in self._always if arm not in self._alive))

    @property
    def rounds(self) -> int:
        """The number of complete rounds."""
        return self._rounds

    @property
    def verdict(self) -> Verdict:
        """What is shown so far."""
        best = self._best()
        rivals = [arm for arm in self._alive if arm != best]
        intervals = {arm: self._interval(arm, best, self._level) for arm in rivals}
        tied = tuple(arm for arm in rivals if _is_equivalent(intervals[arm], self.margin))
        unresolved = tuple(arm for arm in rivals if arm not in tied)
        kind: Kind
        if not rivals:
            kind = "PROVEN"
        elif not unresolved:
            kind = "TIE"
        elif all(low > -self.margin for low, _, _ in intervals.values()):
            kind = "SAFE"
        else:
            kind = "INCONCLUSIVE"
        eliminated = {arm: number for arm, (number, _) in self._eliminated.items()}
        return Verdict(kind, best, (best, *tied), unresolved, self._rounds, eliminated)

    def ratio(self, arm: str, to: str, confidence: float = 0.95) -> Ratio:
        """Return the seconds of `arm` over those of `to`, over the rounds that both ran, with a two-sided interval."""
        low, middle, high = self._interval(arm, to, (1 - confidence) / 2)
        return Ratio(_exp(middle), _exp(low), _exp(high))

    def _look(self) -> None:
        best = self._best()
        for arm in [arm for arm in self._alive if arm != best]:
            low, _, _ = self._interval(arm, best, self._level)
            if low > 0:
                self._alive.remove(arm)
                self._eliminated[arm] = (self._rounds, best)
        kind = self.verdict.kind
        settled = kind == "SAFE" and self._rounds >= self._settle_rounds
        self.finished = kind in {"PROVEN", "TIE"} or settled or self._rounds >= self._looks[-1]

    def _best(self) -> str:
        """Return the surviving arm with the smallest median of what is left when each round's mean is taken off."""
        rounds = self._common_rounds(self._alive)
        if not rounds:
            return self.baseline
        means = {
            number: statistics.fmean(self._records[arm][number] for arm in self._alive)
            for number in rounds
        }
        return min(
            self._alive,
            key=lambda arm: statistics.median(
                self._records[arm][number] - means[number] for number in rounds
            ),
        )

    def _interval(self, arm: str, to: str, level: float) -> tuple[float, float, float]:
        """Return lower bound, mean and upper bound of the paired difference of logarithms, each bound one-sided at `level`."""
        rounds = self._common_rounds([arm, to])
        return paired_interval(
            [self._records[arm][number] - self._records[to][number] for number in rounds], level
        )

    def _common_rounds(self, arms: Sequence[str]) -> list[int]:
        """Return the complete rounds that all of `arms` ran."""
        common = set.intersection(*(set(self._records[arm]) for arm in arms))
        return sorted(number for number in common if number <= self._rounds)


def _is_equivalent(interval: tuple[float, float, float], margin: float) -> bool:
    low, _, high = interval
    return -margin < low and high < margin


def _exp(value: float) -> float:
    return math.inf if value == math.inf else math.exp(value)
