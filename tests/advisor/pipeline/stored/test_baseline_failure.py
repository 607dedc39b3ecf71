"""The reason of a stored run in which the reference or the baseline failed."""

from __future__ import annotations

import builders
import pytest

from advisor.domain.plan import REFERENCE
from advisor.pipeline.stored.baseline_failure import baseline_error, find_failure
from probes.wire.outcome import Failure, Outcome

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


@pytest.mark.parametrize(
    ("outcome", "name", "reason", "next_step"),
    [
        (
            Outcome(Failure("model-failed", phase="build", reason="r", fix="f")),
            "model-call",
            "r",
            "f",
        ),
        (
            Outcome(Failure("model-refused", phase="load", reason="r", fix="f")),
            "model-refused",
            "r",
            "f",
        ),
        (
            Outcome(Failure("model-refused", phase="load", reason="r", missing_module="timm")),
            "model-refused",
            "r",
            "pip install timm",
        ),
        (
            Outcome(Failure("disk-full", phase="build", reason="r", fix="f")),
            "not-writable",
            "r",
            "f",
        ),
        (
            Outcome(Failure("incorrect", phase="correctness", reason="r")),
            "nothing-viable",
            "r",
            "seed",
        ),
        (
            Outcome(Failure("incorrect", phase="measure", reason="r", fix="f")),
            "nothing-viable",
            "r",
            "f",
        ),
        (
            Outcome(Failure("timed-out", phase="build", reason="r", fix="f")),
            "nothing-viable",
            "r",
            "f",
        ),
        (
            Outcome(Failure("timed-out", phase="build", reason="r")),
            "nothing-viable",
            "r",
            "precision",
        ),
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
