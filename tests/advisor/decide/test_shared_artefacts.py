"""Varying outputs of one arm exclude every arm that runs the same artefact."""

from __future__ import annotations

import builders
import msgspec
import pytest
from builders import BASELINE

from advisor.decide.rounds import failed_arms, is_valid
from advisor.domain.run_state import RunState, varying_sibling
from probes.wire.outcome import Failure, Outcome

VARIES = Outcome(
    Failure("nondeterministic", phase="done", reason="call 31 with the same input differs")
)
WRONG = Outcome(
    Failure("incorrect", phase="correctness", reason="its inputs are bound to the wrong names")
)


def state_with(outcome: Outcome, artefacts: tuple[str, str]) -> RunState:
    """Return a run in which one of two arms of a workflow ended with `outcome`."""
    arms = [
        builders.arm(f"runtime/{name}", workflow="runtime", option=name, artefact=artefact)
        for name, artefact in zip(("host", "bound"), artefacts, strict=True)
    ]
    plan = builders.plan()
    visits = builders.visits([1.0, 1.0])
    return builders.run_state(
        {
            BASELINE: builders.process(*visits),
            "runtime/host": builders.process(*visits, outcome=outcome),
            "runtime/bound": builders.process(*visits),
        },
        plan=msgspec.structs.replace(plan, arms=(*plan.arms, *arms)),
    )


@pytest.mark.parametrize(
    ("outcome", "artefacts", "sibling"),
    [
        (VARIES, ("session", "session"), "runtime/host"),
        (VARIES, ("session", "other"), None),
        (VARIES, ("", ""), None),
        (WRONG, ("session", "session"), None),
    ],
)
def test_arms_with_the_same_artefact_are_invalid(
    outcome: Outcome, artefacts: tuple[str, str], sibling: str | None
) -> None:
    state = state_with(outcome, artefacts)
    assert varying_sibling(state, "runtime/bound") == sibling
    assert is_valid(state, "runtime/bound") == (sibling is None)
    assert ("runtime/bound" in failed_arms(state)) == (sibling is not None)
    assert not is_valid(state, "runtime/host")
    assert is_valid(state, BASELINE)
