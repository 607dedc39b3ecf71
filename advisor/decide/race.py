"""A race between arms in randomised complete blocks, with sequential elimination. Pure.

Every round visits each surviving arm once in fresh random order, so drift affects all arms alike.
The race compares arms by their paired log differences within rounds. At each interim look (after
4, 6, 9, ... rounds) it eliminates the arms that are slower than the current best by a one-sided
Student t interval. The level of each test is `ERROR` divided by the number of rivals and looks
(Bonferroni), so the probability that the true best is ever eliminated stays below `ERROR`.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Iterable, Sequence

from advisor.decide.intervals import Estimate, paired_interval

#: Rounds after which a race looks at its intervals; a race also looks after its last round.
LOOKS = (4, 6, 9, 13, 19, 28, 40, 60, 100)
#: Probability of a wrong elimination, and that of an interval that misses its value.
ERROR = 0.05


class Race:
    """A race between arms: ask for rounds, record times, read the best arm and the eliminated."""

    def __init__(
        self,
        arms: Iterable[str],
        baseline: str,
        seed: int = 0,
        *,
        always: Iterable[str] = (),
        most_rounds: int = 40,
    ) -> None:
        """Start a race that ends after `most_rounds` at the latest.

        Every round visits the arms of `always`, even after their elimination; an arm that is in
        `always` but not in `arms` takes no part in the decision (such as the duplicate of the
        baseline, which gives the noise floor).
        """
        #: The arms that the decision is about, eliminated ones included.
        self.arms = tuple(arms)
        self._always = tuple(always)
        self.baseline = baseline
        self._looks = (*(look for look in LOOKS if look < most_rounds), most_rounds)
        self._level = ERROR / max(len(self.arms) - 1, 1) / len(self._looks)
        self._random = random.Random(seed)  # noqa: S311 - an order of visits, not a secret
        #: Log seconds by arm and round; rounds count from 1.
        self._records: dict[str, dict[int, float]] = {
            arm: {} for arm in (*self.arms, *self._always)
        }
        self._pending: set[str] = set()
        self._surviving = list(self.arms)
        #: Round of an arm's elimination, and the arm it was shown slower than.
        self._eliminated: dict[str, tuple[int, str]] = {}
        #: The number of complete rounds.
        self.rounds = 0

    @property
    def finished(self) -> bool:
        """Whether the rounds are used up."""
        return self.rounds >= self._looks[-1]

    def next_round(self) -> tuple[str, ...]:
        """Return the arms to visit in fresh random order; record each before the next round."""
        order = list(self.due)
        self._random.shuffle(order)
        self._pending = set(order)
        return tuple(order)

    def record(self, arm: str, log_seconds: float) -> None:
        """Record the natural logarithm of the arm's seconds in this round."""
        self._records[arm][self.rounds + 1] = log_seconds
        self._pending.remove(arm)
        self._complete_round()

    def withdraw(self, arm: str) -> None:
        """Remove an arm, but not the baseline, whose worker ended or whose outputs are wrong.

        Arms that were eliminated against this arm return to the race.
        """
        self._eliminated = {
            other: (number, by)
            for other, (number, by) in self._eliminated.items()
            if arm not in {other, by}
        }
        self.arms = tuple(other for other in self.arms if other != arm)
        self._always = tuple(other for other in self._always if other != arm)
        self._surviving = [other for other in self.arms if other not in self._eliminated]
        self._records.pop(arm, None)
        if arm in self._pending:
            self._pending.remove(arm)
            self._complete_round()

    def _complete_round(self) -> None:
        if not self._pending:
            self.rounds += 1
            if self.is_look:
                self._eliminate()

    @property
    def is_look(self) -> bool:
        """Whether the race has just looked at its intervals."""
        return self.rounds in self._looks and not self._pending

    @property
    def eliminated(self) -> dict[str, int]:
        """By eliminated arm, the round after which it was eliminated."""
        return {arm: number for arm, (number, _) in self._eliminated.items()}

    def half_widths(self) -> dict[str, float]:
        """Return half of the 95 % interval of each due arm's log difference to the baseline.

        Infinite with fewer than two rounds.
        """
        intervals = {
            arm: self._interval(arm, self.baseline, ERROR / 2)
            for arm in self.due
            if arm != self.baseline
        }
        return {arm: (each.high - each.low) / 2 for arm, each in intervals.items()}

    @property
    def due(self) -> tuple[str, ...]:
        """The arms that the next round visits, in no particular order."""
        return (*self._surviving, *(arm for arm in self._always if arm not in self._surviving))

    @property
    def best(self) -> str:
        """The surviving arm with the smallest median difference to the mean of its round."""
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

    def _eliminate(self) -> None:
        best = self.best
        for arm in [arm for arm in self._surviving if arm != best]:
            if self._interval(arm, best, self._level).low > 0:
                self._surviving.remove(arm)
                self._eliminated[arm] = (self.rounds, best)

    def _interval(self, arm: str, to: str, level: float) -> Estimate:
        """Return the paired difference of logarithms; each bound fails with probability `level`."""
        rounds = self._common_rounds([arm, to])
        return paired_interval(
            [self._records[arm][number] - self._records[to][number] for number in rounds], level
        )

    def _common_rounds(self, arms: Sequence[str]) -> list[int]:
        """Return the complete rounds that visited all of `arms`."""
        common = set.intersection(*(set(self._records[arm]) for arm in arms))
        return sorted(number for number in common if number <= self.rounds)
