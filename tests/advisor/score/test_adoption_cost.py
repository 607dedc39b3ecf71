"""Which of two arms with equal scores and speeds comes first."""

from __future__ import annotations

import builders
import pytest

from advisor.score.facts import facts_of
from advisor.score.grades import FactValue
from advisor.score.scoring import COSTS, adoption_cost

FACTS = facts_of(builders.measurement(), builders.workflow()).values


@pytest.mark.parametrize(
    ("fact", "better", "worse"),
    [
        ("build_seconds", 1.0, 2.0),
        ("lines_changed", 1, 2),
        ("export_step", False, True),
        ("own_environment", False, True),
        ("vendors", 3, 1),
        ("artefact_scope", "vendor", "gpu-model"),
        ("artefact_scope", "gpu-model", "process"),
        ("new_shapes", "served", "recompiles"),
        ("new_shapes", "recompiles", "refused"),
        ("architectures", "most", "listed"),
        ("architectures", "listed", "a word that is not known"),
    ],
)
def test_the_better_fact_costs_less(fact: str, better: FactValue, worse: FactValue) -> None:
    costs = [adoption_cost({**FACTS, fact: value}) for value in (better, worse)]
    assert costs[0] < costs[1]


def test_earlier_costs_outweigh_later_ones() -> None:
    quick = {**FACTS, "build_seconds": 1.0, "vendors": 1, "new_shapes": "refused"}
    slow = {**FACTS, "build_seconds": 2.0, "vendors": 9, "new_shapes": "served"}
    assert adoption_cost(quick) < adoption_cost(slow)


def test_every_cost_is_a_fact() -> None:
    assert {cost.fact for cost in COSTS} <= FACTS.keys()
