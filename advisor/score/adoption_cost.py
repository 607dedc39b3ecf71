"""What adopting an arm costs. It never changes a score; it breaks ties of score and speed. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from advisor.score.facts import NEW_SHAPES_ORDER
from advisor.score.grades import FactValue


@dataclasses.dataclass(frozen=True)
class Cost:
    """A fact by which two arms with equal scores and speeds are ranked."""

    fact: str
    #: The values of a fact that is not a number, the best first.
    order: tuple[str, ...] = ()
    #: Whether a larger number is better.
    is_gain: bool = False


#: The first fact that differs decides.
COSTS = (
    Cost("build_seconds"),
    Cost("lines_changed"),
    Cost("export_step"),
    Cost("own_environment"),
    Cost("vendors", is_gain=True),
    Cost("artefact_scope", order=("any", "vendor", "gpu-model", "process")),
    Cost("new_shapes", order=NEW_SHAPES_ORDER),
    Cost("architectures", order=("any", "most", "listed")),
)


def adoption_cost(facts: Mapping[str, FactValue]) -> tuple[float, ...]:
    """Return the costs of an arm with these facts; the smaller tuple comes first."""
    return tuple(_number_of(cost, facts.get(cost.fact)) for cost in COSTS)


def _number_of(cost: Cost, value: FactValue) -> float:
    """Return a number that is smaller for a better value; an unforeseen word is the worst."""
    if cost.order:
        return float(cost.order.index(value) if value in cost.order else len(cost.order))
    number = float(value) if isinstance(value, (int, float)) else 0.0
    return -number if cost.is_gain else number
