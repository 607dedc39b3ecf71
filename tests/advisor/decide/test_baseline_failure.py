"""The reason of a stored run in which the reference or the baseline failed."""

from __future__ import annotations

import builders
import pytest

from advisor.decide.rounds import baseline_error, find_failure
from advisor.domain.plan import REFERENCE
from probes.wire.outcome import Failure, FailureStatus, Outcome, Phase

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
