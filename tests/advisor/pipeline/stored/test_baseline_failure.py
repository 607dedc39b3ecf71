"""The reason of a stored run in which the reference or the baseline failed."""

from __future__ import annotations

import builders
import pytest

from advisor.domain.outcome import (
    Completed,
    Crashed,
    DiskFull,
    Incorrect,
    ModelFailed,
    ModelRefused,
    Outcome,
    Skipped,
    TimedOut,
)
from advisor.domain.plan import REFERENCE
from advisor.pipeline.stored.baseline_failure import baseline_error, find_failure

RAISES = ModelFailed(phase="correctness", reason="it raises an error", fix="mend it")


@pytest.mark.parametrize("arm", [REFERENCE, builders.BASELINE])
def test_an_error_of_the_model_is_the_reason(arm: str) -> None:
    problem = find_failure(builders.run_state({arm: builders.process(ready=False, outcome=RAISES)}))
    assert problem is not None
    assert (problem.name, problem.what, problem.next_step) == (
        "model-failed",
        RAISES.reason,
        RAISES.fix,
    )


@pytest.mark.parametrize(
    ("is_ready", "outcome"),
    [
        (True, Crashed(phase="measure", signal="SIGKILL", reason="it ended")),
        (False, Completed()),
        (False, Skipped(phase="build", reason="the user skipped it")),
        (False, None),
    ],
)
def test_a_reference_that_was_stored_or_stopped_is_no_reason(
    is_ready: bool, outcome: Outcome | None
) -> None:
    process = builders.process(ready=is_ready, outcome=outcome)
    assert find_failure(builders.run_state({REFERENCE: process})) is None


@pytest.mark.parametrize(
    ("outcome", "name", "reason", "next_step"),
    [
        (ModelFailed(phase="build", reason="r", fix="f"), "model-failed", "r", "f"),
        (ModelRefused(phase="load", reason="r", fix="f"), "model-refused", "r", "f"),
        (
            ModelRefused(phase="load", reason="r", missing_module="timm"),
            "model-refused",
            "r",
            "pip install timm",
        ),
        (DiskFull(phase="build", reason="r", fix="f"), "not-writable", "r", "f"),
        (Incorrect(phase="correctness", reason="r"), "nothing-viable", "r", "seed"),
        (Incorrect(phase="measure", reason="r", fix="f"), "nothing-viable", "r", "f"),
        (TimedOut(phase="build", reason="r", fix="f"), "nothing-viable", "r", "f"),
        (TimedOut(phase="build", reason="r"), "nothing-viable", "r", "precision"),
        (Completed(), "nothing-viable", "ended", "precision"),
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
