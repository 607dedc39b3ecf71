"""Compare the baseline and its duplicate with and without a disturbance."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import random
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from advisor.statistics.intervals import Estimate, mean_interval

Sample = TypeVar("Sample")
#: Log seconds of a call of the baseline and of its duplicate, timed one after the other.
Pair = tuple[float, float]
#: Starts and ends a condition.
Condition = Callable[[], contextlib.AbstractContextManager[object]]

#: Probability with which each bound fails; the two bounds make a 95 % interval.
LEVEL = 0.025


@dataclasses.dataclass(frozen=True)
class Effect:
    """The change of the call time under a disturbance, next to the noise floor."""

    #: Log ratio of disturbed to undisturbed seconds.
    log_ratio: Estimate
    #: Largest share by which the baseline and its duplicate may differ, without the disturbance.
    noise: float
    #: The same with the disturbance.
    disturbed_noise: float

    @property
    def low(self) -> float:
        """Lower bound of the share by which a call takes longer."""
        return math.expm1(self.log_ratio.low)

    @property
    def value(self) -> float:
        """Share by which a call takes longer."""
        return math.expm1(self.log_ratio.value)

    @property
    def high(self) -> float:
        """Upper bound of the share by which a call takes longer."""
        return math.expm1(self.log_ratio.high)

    @property
    def largest_log_ratio(self) -> float:
        """Bound that is furthest from no change."""
        return max(abs(self.log_ratio.low), abs(self.log_ratio.high))

    def __str__(self) -> str:
        """Return the change in percent with its interval."""
        return (
            f"{self.value * 100:+.2f} % (95 %: {self.low * 100:+.2f} % to {self.high * 100:+.2f} %)"
        )


def sample_in_rounds(
    conditions: Mapping[str, Condition],
    measure: Callable[[str, int], Sample],
    rounds: int,
) -> dict[str, list[Sample]]:
    """Return one sample a round under each condition.

    `measure` gets the condition's name and the number of the round, from 1. The conditions come in
    random order within each round, so that drift affects all of them alike.
    """
    samples: dict[str, list[Sample]] = {name: [] for name in conditions}
    generator = random.Random(0)  # noqa: S311 - an order of visits, not a secret
    for number in range(1, rounds + 1):
        for name in generator.sample(list(conditions), len(conditions)):
            with conditions[name]():
                samples[name].append(measure(name, number))
    return samples


def estimate_effect(undisturbed: Sequence[Pair], disturbed: Sequence[Pair]) -> Effect:
    """Return the effect of a disturbance from the pairs of the same rounds without and with it."""
    differences = [
        statistics.fmean(after) - statistics.fmean(before)
        for before, after in zip(undisturbed, disturbed, strict=True)
    ]
    return Effect(
        log_ratio=mean_interval(differences, LEVEL),
        noise=_noise_of(undisturbed),
        disturbed_noise=_noise_of(disturbed),
    )


def _noise_of(pairs: Sequence[Pair]) -> float:
    bounds = mean_interval([duplicate - baseline for baseline, duplicate in pairs], LEVEL)
    return max(abs(math.expm1(bound)) for bound in bounds)
