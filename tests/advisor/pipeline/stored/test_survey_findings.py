"""Findings about the user's own model."""

from __future__ import annotations

import builders
import pytest

from advisor.domain.outcome import Completed, Nondeterministic, Outcome
from advisor.domain.plan import Plan
from advisor.domain.run_events import ModelSurveyed
from advisor.pipeline.stored.survey_findings import collect_findings

VARIES = Nondeterministic(phase="correctness", reason="two calls differ")


@pytest.mark.parametrize(("outcome", "verdict"), [(VARIES, "wrong"), (Completed(), "pass")])
def test_an_arm_is_wrong_where_the_artefact_varies_that_it_shares(
    outcome: Outcome, verdict: str
) -> None:
    arms = tuple(
        builders.arm(name, workflow="exported", artefact="engine")
        for name in ("exported", "exported/other")
    )
    visits = builders.visits([0.1] * 4)
    surveyed = ModelSurveyed(
        workflow="exported", model="probe", family="f", verdict="pass", reason=None
    )
    state = builders.run_state(
        {
            "exported": builders.process(*visits, outcome=Completed()),
            "exported/other": builders.process(*visits, outcome=outcome),
        },
        plan=Plan(arms=arms, excluded=()),
        surveyed=(surveyed,),
    )
    *_, own = collect_findings(state, builders.question())
    assert own.verdict == verdict
