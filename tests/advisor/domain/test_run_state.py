from __future__ import annotations

import builders
import pytest
from builders import BASELINE, replace
from built_measurements import WRONG

from advisor.domain.errors import error_of
from advisor.domain.plan import REFERENCE
from probes.outcome import Failure, FailureStatus, Outcome, Phase

HUNG = Outcome(Failure("timed-out", phase="measure", reason="it hung"))


def test_the_measured_process_is_the_last_one_that_was_ready() -> None:
    processes = [builders.process(), builders.process(phase="done"), builders.process(ready=False)]
    state = builders.run_state({BASELINE: processes})
    assert state.last_ready_process(BASELINE) == processes[1]
    assert state.last_ready_process("unknown") is None


@pytest.mark.parametrize(
    ("ends", "repeat", "valid"),
    [
        ([None], 0, True),
        ([Outcome()], 0, True),
        ([None, Outcome()], 0, True),
        ([WRONG], 0, False),
        ([WRONG, Outcome()], 0, False),
        ([Outcome(), HUNG], 0, False),
        ([Outcome(), HUNG], 1, True),
        ([Outcome(), WRONG], 1, False),
    ],
)
def test_times_are_valid_unless_a_failure_invalidates_them(
    ends: list[Outcome | None], repeat: int, valid: bool
) -> None:
    made = [builders.process(outcome=end, repeat=at and repeat) for at, end in enumerate(ends)]
    assert builders.run_state({"compiled": made}).is_valid("compiled") is valid


VARIES = Outcome(Failure("nondeterministic", phase="done", reason="call 31 differs"))


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
    arms = [
        builders.arm(f"runtime/{name}", workflow="runtime", option=name, artefact=artefact)
        for name, artefact in zip(("host", "bound"), artefacts, strict=True)
    ]
    plan = builders.plan()
    process = builders.process(*builders.visits([1.0, 1.0]))
    failed = replace(process, outcome=outcome)
    state = builders.run_state(
        {BASELINE: process, "runtime/host": failed, "runtime/bound": process},
        plan=replace(plan, arms=(*plan.arms, *arms)),
    )
    assert state.varying_sibling("runtime/bound") == sibling
    assert state.is_valid("runtime/bound") == (sibling is None)
    assert ("runtime/bound" in state.failed_arms) == (sibling is not None)
    assert not state.is_valid("runtime/host")
    assert state.is_valid(BASELINE)


def test_the_reference_is_stored_when_its_worker_has_ended_without_a_failure() -> None:
    too_long = Outcome(Failure("timed-out", phase="correctness", reason="it took too long"))
    assert builders.run_state({REFERENCE: builders.process(outcome=Outcome())}).has_reference
    assert not builders.run_state({REFERENCE: builders.process(outcome=too_long)}).has_reference
    assert not builders.run_state({REFERENCE: builders.process(outcome=None)}).has_reference
    assert not builders.run_state({}).has_reference


@pytest.mark.parametrize("arm", [REFERENCE, BASELINE])
@pytest.mark.parametrize(
    ("failure", "name"),
    [
        (Failure("model-failed", "correctness", "it raises", "mend it"), "model-call"),
        (Failure("crashed", "open", "it raises", "mend it", signal="SIGSEGV"), "model-refused"),
    ],
)
def test_an_error_of_the_model_is_the_reason(arm: str, failure: Failure, name: str) -> None:
    state = builders.run_state({arm: builders.process(ready=False, outcome=Outcome(failure))})
    problem = builders.known(state.early_error)
    assert (problem.name, problem.next_step) == (name, "mend it")
    assert problem.what.endswith("it raises")


def test_a_baseline_that_varies_has_a_next_step_of_its_own() -> None:
    varies, stops = (
        Failure(status, "done", "it does") for status in ("nondeterministic", "crashed")
    )
    known = [error_of("eager", each).next_step for each in (varies, stops)]
    assert known[0] != known[1]


@pytest.mark.parametrize(
    "outcome",
    [Outcome(), Outcome(Failure("skipped", phase="build", reason="the user skipped it")), None],
)
def test_a_reference_that_was_stored_or_stopped_is_no_reason(outcome: Outcome | None) -> None:
    process = builders.process(ready=False, outcome=outcome)
    assert builders.run_state({REFERENCE: process}).early_error is None


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
    error = builders.run_state({BASELINE: process}).worker_error(BASELINE)
    assert error.name == name
    assert reason in error.what
    assert next_step in error.next_step
