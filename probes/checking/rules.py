"""The thresholds of the comparison with the reference, resolved for one precision.

They are data: `rubric/accuracy.toml` states them and their source, and the request carries them.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

#: Number of differing elements above which chance allows less than `Rules.integer_eager_times`.
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
    #: Largest error of small elements: times that of rounding, or this share of their size.
    small_times: float
    small_share: float
    #: Largest relative error of a `close` output; 0 if only exact ones are accepted.
    tolerance: float
    row_tolerance: float
    least_top1: float
    #: Number of tolerances by which the values of two classes may differ and count as the same.
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
    """Return the largest RMS error for a reference of RMS `scale` and eager PyTorch's error."""
    return rules.eager_times * eager_error + rules.share_of_rms * scale


def most_by_chance(
    elements: int, differing: float, total: int, rules: Rules, tests: int = 1
) -> int:
    """Return how many of `elements` may differ where `differing` of `total` did.

    A program with the same probability of a difference exceeds it in any of `tests` with
    `Rules.integer_alarm` (Bonferroni). The number is beta-binomial (the posterior prediction), with
    a prior of `Rules.integer_prior`.
    """
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
