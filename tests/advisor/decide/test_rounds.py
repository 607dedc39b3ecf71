"""Groups of a race, artefacts that fail together, and errors of the baseline."""

from __future__ import annotations

import builders
import msgspec
import pytest
from builders import BASELINE

from advisor.decide.race import race_result
from advisor.decide.rounds import baseline_error, failed_arms, find_failure, is_valid
from advisor.domain.plan import REFERENCE
from advisor.domain.run_state import RaceGroup, RunState, varying_sibling
from probes.wire.events import BlockTimed
from probes.wire.outcome import Failure, FailureStatus, Outcome, Phase
from probes.wire.shape import Shape

#: Seconds of each arm: `a` beats `b`, and `c` is between them.
SECONDS = {BASELINE: 1.0, "a": 0.1, "b": 0.3, "c": 0.2}


def raced_in_groups(*groups: tuple[str, ...]) -> RunState:
    """Return a run whose groups race four rounds each, in turn, with the baseline."""
    visits: dict[str, list[BlockTimed]] = {arm: [] for arm in SECONDS}
    for index, arms in enumerate(groups):
        for arm in (BASELINE, *arms):
            noise = (SECONDS[arm] * (1 + number / 1e4) for number in range(4))
            visits[arm] += builders.visits([*noise], first_round=4 * index + 1)
    made = tuple(
        RaceGroup(arms=(BASELINE, *arms), first_round=4 * index + 1)
        for index, arms in enumerate(groups)
    )
    state = builders.run_state({arm: builders.process(*visits[arm]) for arm in SECONDS})
    return msgspec.structs.replace(state, groups={Shape(1): made})


@pytest.mark.parametrize(
    ("groups", "best", "eliminated"),
    [
        ([("a", "b")], "a", {BASELINE: 4, "b": 4}),
        # The arms race again with one that was built later.
        ([("a", "b"), ("a", "b", "c")], "a", {BASELINE: 8, "b": 8, "c": 8}),
        # The best arm has no place in the later group.
        ([("a", "b"), ("b", "c")], "a", {BASELINE: 8, "b": 8}),
        ([("b", "c"), ("a",)], "a", {BASELINE: 8, "b": 4}),
        ([("a",), ("b",)], "a", {BASELINE: 8}),
        # Eliminated in the earlier group, the best of the later one.
        ([("a", "b"), ("b",)], "a", {BASELINE: 8}),
    ],
)
def test_an_arm_counts_as_in_the_last_group_that_it_raced_in(
    groups: list[tuple[str, ...]], best: str, eliminated: dict[str, int]
) -> None:
    result = race_result(raced_in_groups(*groups), Shape(1), builders.question())
    assert (result.best, result.rounds) == (best, 4 * len(groups))
    assert result.eliminated == eliminated


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


RAISES = Outcome(
    Failure("model-failed", phase="correctness", reason="it raises an error", fix="mend it")
)


@pytest.mark.parametrize("arm", [REFERENCE, builders.BASELINE])
def test_an_error_of_the_model_is_the_reason(arm: str) -> None:
    problem = builders.known(
        find_failure(builders.run_state({arm: builders.process(ready=False, outcome=RAISES)}))
    )
    assert (problem.name, problem.what, problem.next_step) == (
        "model-call",
        "it raises an error",
        "mend it",
    )


@pytest.mark.parametrize(
    "outcome",
    [Outcome(), Outcome(Failure("skipped", phase="build", reason="the user skipped it")), None],
)
def test_a_reference_that_was_stored_or_stopped_is_no_reason(
    outcome: Outcome | None,
) -> None:
    process = builders.process(ready=False, outcome=outcome)
    assert find_failure(builders.run_state({REFERENCE: process})) is None


def failure(status: FailureStatus, phase: Phase, fix: str | None = None) -> Outcome:
    missing = None if fix or status != "model-refused" else "timm"
    return Outcome(Failure(status, phase, "r", fix, missing_module=missing))


@pytest.mark.parametrize(
    ("outcome", "name", "reason", "next_step"),
    [
        (failure("model-failed", "build", "mend it"), "model-call", "r", "mend it"),
        (failure("model-refused", "open", "mend it"), "model-refused", "r", "mend it"),
        (failure("model-refused", "open"), "model-refused", "r", "pip install timm"),
        (failure("disk-full", "build", "mend it"), "not-writable", "r", "mend it"),
        (failure("incorrect", "correctness"), "nothing-viable", "r", "seed"),
        (failure("incorrect", "measure", "mend it"), "nothing-viable", "r", "mend it"),
        (failure("timed-out", "build", "mend it"), "nothing-viable", "r", "mend it"),
        (failure("timed-out", "build"), "nothing-viable", "r", "--budget"),
        (Outcome(), "nothing-viable", "ended", "precision"),
        (None, "nothing-viable", "ended", "precision"),
    ],
)
def test_the_error_of_the_baseline_follows_from_its_outcome(
    outcome: Outcome | None, name: str, reason: str, next_step: str
) -> None:
    process = builders.process(ready=False, outcome=outcome)
    error = baseline_error(builders.run_state({builders.BASELINE: process}), builders.BASELINE)
    assert error.name == name
    assert reason in error.what
    assert next_step in error.next_step
