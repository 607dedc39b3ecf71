"""By how much outputs may differ: thresholds for one precision, and what they allow an output.

The thresholds are data: `rubric/accuracy.toml` states them and their source, and the request
carries them.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from probes.checking.stored_reference import ExpectedOutput

#: Of more differing elements, chance allows less than `Rules.integer_eager_times`.
MANY = 100.0


@dataclasses.dataclass(frozen=True)
class Rules:
    """Thresholds of `rubric/accuracy.toml` for one precision; errors are shares of the RMS."""

    eager_times: float
    share_of_rms: float
    row_eager_times: float
    #: Eager's error counts as 1 + this / n times as large if it is known from n elements.
    few_elements: float
    row_share: float
    integer_eager_times: float
    integer_share: float
    #: Probability that a right program exceeds what chance allows.
    integer_alarm: float
    #: Differing and equal integers that count in addition to those of eager PyTorch.
    integer_prior: tuple[float, float]
    typical_eager_times: float
    #: Largest relative error of a `close` output; 0 if only exact ones are accepted.
    tolerance: float
    row_tolerance: float
    least_top1: float
    #: By how many tolerances the values of two classes may differ that count as the same.
    tie_times: float
    #: Text: times the square of eager's divergence, and times eager's error of a log probability.
    text_eager_times: float
    #: Nats.
    text_gap: float
    text_exact_divergence: float
    text_exact_top1: float
    text_close_top1: float


def rules_for(accuracy: Mapping[str, Any], dtype: str) -> Rules:
    exact, close, text = (
        {
            name: each.get(dtype, each) if isinstance(each, Mapping) else each
            for name, each in rule.items()
        }
        for rule in (accuracy["exact"], accuracy["close"], accuracy["text"])
    )
    chance = exact.pop("integer_chance")
    return Rules(
        **exact,
        integer_alarm=chance["alarm"],
        integer_prior=(chance["differing"], chance["same"][dtype]),
        row_tolerance=close["tolerance"] * close.pop("row_times"),
        **close,
        **{f"text_{name}": each for name, each in text.items()},
    )


def allowed_error(scale: float, eager_error: float, rules: Rules) -> float:
    """Return the largest root mean square error of an exact output.

    `scale` is the root mean square of the reference and `eager_error` what rounding accounts for.
    """
    return rules.eager_times * eager_error + rules.share_of_rms * scale


@dataclasses.dataclass(frozen=True)
class Limits:
    """By how much an output may differ from what is expected of it in each input set."""

    of_sets: Sequence[ExpectedOutput]
    rules: Rules

    @property
    def few_elements_factor(self) -> float:
        """How many times as large eager PyTorch's error may be as it shows in these elements.

        A few of them may be nearly exact by chance.
        """
        elements = sum(each.values.size for each in self.of_sets)
        return 1.0 + self.rules.few_elements / elements if elements else 1.0

    def rounding(self, number: int) -> float:
        """Return the error in input set `number` that rounding accounts for.

        It is eager's largest over the input sets, or the envelope over `Rules.eager_times`, because
        the rule allows that many times as much.
        """
        eager = max(each.eager.rmse / (each.scale or 1.0) for each in self.of_sets)
        own = self.of_sets[number]
        return max(
            eager * self.few_elements_factor * (own.scale or 1.0),
            own.envelope.rmse / self.rules.eager_times,
        )

    def error(self, number: int) -> float:
        """Return the largest root mean square error of an exact output in input set `number`."""
        return allowed_error(self.of_sets[number].scale, self.rounding(number), self.rules)

    @property
    def row_error(self) -> float:
        """The largest error of a row, as a share, of an exact output."""
        eager = max(each.eager.row for each in self.of_sets) * self.few_elements_factor
        envelope = max(each.envelope.row for each in self.of_sets)
        # Eager has no error at all if the reference has the same precision: rounding is not known
        # then.
        rules, share = self.rules, self.rules.row_share
        share = share if eager else max(share, rules.share_of_rms)
        return max(rules.row_eager_times * eager + share, envelope)

    @property
    def typical_error(self) -> float:
        """The largest typical error of an exact output, over the RMS of the reference."""
        eager = max(each.eager.typical / (each.scale or 1.0) for each in self.of_sets)
        eager *= self.few_elements_factor
        envelope = max(each.envelope.typical / (each.scale or 1.0) for each in self.of_sets)
        return max(self.rules.typical_eager_times * eager, envelope) + self.rules.share_of_rms

    def difference(self, elements: int | None = None, tests: int = 1) -> float:
        """Return the largest share of `elements` that may differ; by default of those of all sets.

        With several `tests` of that many elements each, the probability that any of them exceeds it
        stays the same.
        """
        of_sets, rules = self.of_sets, self.rules
        total = sum(each.values.size for each in of_sets)
        elements = total if elements is None else elements
        if not total or not elements:
            return 0.0
        eager = sum(each.eager.differing * each.values.size for each in of_sets)
        perturbed = sum(each.envelope.differing * each.values.size for each in of_sets)
        envelope = max(each.envelope.differing for each in of_sets)
        # Where many of eager's differ, a multiple of their share would allow any output.
        multiple = 1 - math.pow(1 - eager / total, rules.integer_eager_times)
        share = max(multiple, envelope) + rules.integer_share
        by_chance = most_by_chance(elements, max(eager, perturbed), total, rules, tests)
        return max(share, by_chance / elements)


def most_by_chance(
    elements: int, differing: float, total: int, rules: Rules, tests: int = 1
) -> int:
    """Return how many of `elements` may differ where `differing` of `total` did.

    A program with the same probability of a difference exceeds it in any of `tests` with
    `Rules.integer_alarm` (Bonferroni). The number is beta-binomial (the posterior prediction), with
    a prior of `Rules.integer_prior`.
    """
    if not rules.integer_alarm:
        return 0
    differing = min(differing, MANY)
    one, other = rules.integer_prior[0] + differing, rules.integer_prior[1] + total - differing
    probability = math.exp(
        math.lgamma(other + elements)
        - math.lgamma(other)
        + math.lgamma(one + other)
        - math.lgamma(one + other + elements)
    )
    at_most = probability
    for count in range(elements):
        if at_most >= 1 - rules.integer_alarm / tests:
            return count
        probability *= (elements - count) / (count + 1)
        probability *= (one + count) / (other + elements - count - 1)
        at_most += probability
    return elements
