"""Verdicts of groups are merged, shared artefacts fail together, and errors of the baseline."""

from __future__ import annotations

from typing import Any

import builders
import msgspec
import pytest
from builders import BASELINE

from advisor.decide import replay
from advisor.decide.race import Verdict
from advisor.decide.rounds import baseline_error, failed_arms, find_failure, is_valid
from advisor.domain.plan import REFERENCE
from advisor.domain.run_state import RunState, varying_sibling
from probes.wire.outcome import Failure, FailureStatus, Outcome, Phase


def verdict(
    kind: Any,
    best: str,
    *,
    tied: tuple[str, ...] = (),
    unresolved: tuple[str, ...] = (),
    rounds: int = 4,
    **eliminated: int,
) -> Verdict:
    return Verdict(kind, best, (best, *tied), unresolved, rounds, eliminated)


@pytest.mark.parametrize(
    ("earlier", "later", "merged"),
    [
        (
            verdict("PROVEN", "a", b=4),
            verdict("PROVEN", "a", rounds=9, c=9),
            verdict("PROVEN", "a", rounds=9, b=4, c=9),
        ),
        (
            verdict("PROVEN", "a", b=4),
            verdict("PROVEN", "c", rounds=9, a=9),
            verdict("PROVEN", "c", rounds=9, b=4, a=9),
        ),
        (
            verdict("TIE", "a", tied=("b",)),
            verdict("PROVEN", "a", rounds=9, c=9),
            verdict("TIE", "a", tied=("b",), rounds=9, c=9),
        ),
        (
            verdict("SAFE", "a", unresolved=("b",)),
            verdict("TIE", "a", tied=("c",)),
            verdict("SAFE", "a", tied=("c",), unresolved=("b",)),
        ),
        (
            verdict("TIE", "a", tied=("b",)),
            verdict("PROVEN", "c", a=9),
            verdict("INCONCLUSIVE", "c", unresolved=("b",), a=9),
        ),
        (
            verdict("INCONCLUSIVE", "a", unresolved=("b",)),
            verdict("PROVEN", "a", b=9),
            verdict("PROVEN", "a", b=9),
        ),
    ],
)
def test_arms_left_open_by_the_earlier_group_stay_open(
    earlier: Verdict, later: Verdict, merged: Verdict
) -> None:
    assert replay.merge_verdicts(earlier, later, {}) == merged


EARLIER = verdict("PROVEN", "a", b=4)


@pytest.mark.parametrize(
    ("later", "log_speedups", "merged"),
    [
        (verdict("PROVEN", "b", rounds=9, c=9), {}, verdict("PROVEN", "a", rounds=9, b=4, c=9)),
        (
            verdict("TIE", "b", tied=("c",)),
            {},
            verdict("INCONCLUSIVE", "a", unresolved=("c",), b=4),
        ),
        (
            verdict("PROVEN", "c", b=9),
            {"a": 2.0, "c": 1.0},
            verdict("INCONCLUSIVE", "a", unresolved=("c",), b=4),
        ),
        (
            verdict("PROVEN", "c", b=9),
            {"a": 1.0, "c": 2.0},
            verdict("INCONCLUSIVE", "c", unresolved=("a",), b=9),
        ),
    ],
    ids=[
        "an arm it had beaten wins",
        "an arm it had beaten ties",
        "a new arm has a smaller speedup",
        "a new arm has a larger speedup",
    ],
)
def test_a_best_arm_without_a_place_in_the_later_group_loses_only_to_a_larger_speedup(
    later: Verdict, log_speedups: dict[str, float], merged: Verdict
) -> None:
    assert replay.merge_verdicts(EARLIER, later, log_speedups) == merged


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
    problem = find_failure(builders.run_state({arm: builders.process(ready=False, outcome=RAISES)}))
    assert problem is not None
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
        (failure("model-failed", "build", "f"), "model-call", "r", "f"),
        (failure("model-refused", "load", "f"), "model-refused", "r", "f"),
        (failure("model-refused", "load"), "model-refused", "r", "pip install timm"),
        (failure("disk-full", "build", "f"), "not-writable", "r", "f"),
        (failure("incorrect", "correctness"), "nothing-viable", "r", "seed"),
        (failure("incorrect", "measure", "f"), "nothing-viable", "r", "f"),
        (failure("timed-out", "build", "f"), "nothing-viable", "r", "f"),
        (failure("timed-out", "build"), "nothing-viable", "r", "precision"),
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
