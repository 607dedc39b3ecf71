"""How many integers or booleans of an output may differ from the reference.

Rounding changes an index of the largest value, a label or a mask only where two values nearly tie.
Eager PyTorch may have met no such tie in a few elements, and the measured program one or two.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from probes.checking.rules import Rules
from probes.checking.stored_reference import ExpectedOutput

#: Of more differing elements, chance allows less than `Rules.integer_eager_times`.
MANY = 100.0


def allowed_difference(
    of_sets: Sequence[ExpectedOutput], rules: Rules, elements: int | None = None, tests: int = 1
) -> float:
    """Return the largest share of `elements` that may differ; by default of those of all sets.

    `of_sets` is the output for each input set. With several `tests` of that many elements each, the
    probability that any of them exceeds it stays the same.
    """
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
