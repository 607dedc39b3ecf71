"""A race between arms in randomised complete blocks, with sequential elimination.

Every round visits each surviving arm once in fresh random order, so drift affects all arms alike.
The race compares arms by their paired log differences within rounds. At each interim look (after
4, 6, 9, ... rounds) it eliminates the arms that are slower than the current best by a one-sided
Student t interval. The level of each test is `ERROR` divided by the number of rivals and looks
(Bonferroni), so the probability that the true best is ever eliminated stays below `ERROR`.

A race is rebuilt from the stored events of its run.
"""

from __future__ import annotations

import math
import random
import statistics
import sys
from collections.abc import Iterable, Sequence

from advisor.decide.intervals import Estimate, paired_interval
from advisor.decide.rounds import log_median_seconds, mean_log_speedups, visits_by_round
from advisor.domain.question import Question
from advisor.domain.results import RaceResult
from advisor.domain.run_state import RunState
from probes.shape import Shape

#: Rounds after which a race looks at its intervals; a race also looks after its last round.
LOOKS = (4, 6, 9, 13, 19, 28, 40, 60, 100)
#: Probability of a wrong elimination, and that of an interval that misses its value.
ERROR = 0.05
#: Fewest rounds of a shape that count: one round has no spread.
FEWEST_ROUNDS = 2
#: `RaceResult.end_reason` of a race that is still open.
STILL_OPEN = "not closed yet"


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
        return self.rounds >= self._looks[-1]

    def next_round(self) -> tuple[str, ...]:
        """Return the arms to visit in fresh random order; record each before the next round."""
        order = list(self.due)
        self._random.shuffle(order)
        self._pending = set(order)
        return tuple(order)

    def record(self, arm: str, log_seconds: float) -> None:
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
        """The round after which each eliminated arm was eliminated."""
        return {arm: number for arm, (number, _) in self._eliminated.items()}

    def log_ratios(self) -> dict[str, Estimate]:
        """Return each surviving arm's log difference to the baseline, with its 95 % interval.

        It is infinite with fewer than two rounds.
        """
        return {
            arm: self._interval(arm, self.baseline, ERROR / 2)
            for arm in self._surviving
            if arm != self.baseline
        }

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
        common = set.intersection(*(set(self._records[arm]) for arm in arms))
        return sorted(number for number in common if number <= self.rounds)


def replay_race(state: RunState, shape: Shape, question: Question, index: int = -1) -> Race:
    """Return the race of one group of a shape, as far as it has been run.

    `index` selects the group; the default is the last one. The same arms, seed and records give
    the same result as in the run.
    """
    plan, groups = state.plan, state.groups[shape]
    group = groups[index]
    later = [other.first_round for other in groups if other.first_round > group.first_round]
    rounds = range(group.first_round, min(later, default=sys.maxsize))
    race = Race(
        [arm for arm in group.arms if arm != plan.duplicate],
        plan.baseline.id,
        seed=question.seed + shape.batch_size + (shape.input_tokens or 0) + group.first_round - 1,
        always=[plan.baseline.id, *(arm for arm in group.arms if arm == plan.duplicate)],
        most_rounds=question.budget.most_rounds,
    )
    failed = state.failed_arms
    for number, visits in sorted(visits_by_round(state, shape).items()):
        if number not in rounds:
            continue
        if race.finished or any(arm not in visits and arm not in failed for arm in race.due):
            break  # An interrupted round does not count; the whole round is run again.
        for arm in race.next_round():
            if arm in visits:
                race.record(arm, log_median_seconds(visits[arm]))
            elif arm != race.baseline:
                race.withdraw(arm)
    for arm in failed & set(group.arms) - {race.baseline}:
        race.withdraw(arm)
    return race


def race_result(state: RunState, shape: Shape, question: Question) -> RaceResult:
    """Return the result of a shape over all its groups, as far as they have been run.

    What counts of an arm is the last group that it raced in. Best arms of groups may not have raced
    each other; the one with the largest mean speed-up over the baseline is then the best.
    """
    best_of_groups: list[str] = []
    eliminated: dict[str, int] = {}
    rounds = 0
    for index, group in enumerate(state.groups[shape]):
        race = replay_race(state, shape, question, index)
        before = group.first_round - 1
        best_of_groups = [arm for arm in best_of_groups if arm not in race.arms] + [race.best]
        eliminated = {arm: number for arm, number in eliminated.items() if arm not in race.arms}
        eliminated |= {arm: number + before for arm, number in race.eliminated.items()}
        rounds = race.rounds + before
    speedups, closed = mean_log_speedups(state, shape), state.closed.get(shape)
    return RaceResult(
        shape=shape,
        best=max(best_of_groups, key=lambda arm: speedups.get(arm, -math.inf)),
        rounds=rounds,
        eliminated=eliminated,
        noise_floor=None,
        end_reason=closed.reason if closed else STILL_OPEN,
    )


def results_by_shape(state: RunState, question: Question) -> dict[Shape, RaceResult]:
    results = {
        shape: race_result(state, shape, question)
        for shape in question.shapes
        if state.groups.get(shape)
    }
    return {shape: result for shape, result in results.items() if result.rounds >= FEWEST_ROUNDS}
