"""Each failure of a foreign stack gets its own status, and the rest of the run completes.

All tests read one run with one arm for each failure.
"""

from __future__ import annotations

import pathlib

import msgspec
import psutil
import pytest
import sessions

from advisor.context import Context
from advisor.domain.outcome import Completed, Outcome
from advisor.pipeline.decision import Decision, decide
from advisor.question.answers import Answers
from advisor.recommendation import trust

#: By option of the workflow `misbehaving`: the status, and a part of the reason.
FAILURES = {
    "import-error": ("unsupported", "libmissing.so.1"),
    "model-error": ("model-refused", "of an unknown kind"),
    "refuses": ("unsupported", "takes no such model"),
    "raises": ("build-failed", "Could not find an implementation for Gemm(13)"),
    "segfault": ("crashed", "SIGSEGV"),
    "killed": ("crashed", "SIGKILL"),
    "silent-exit": ("crashed", "status 0"),
    "hangs": ("timed-out", "build"),
    "escapes": ("timed-out", "build"),
    "holds-the-lock": ("timed-out", "build"),
    "out-of-memory": ("out-of-memory", "MemoryError"),
    "device-out-of-memory": ("out-of-memory", "Tried to allocate"),
    "garbage": ("crashed", "cannot be read"),
    "wrong": ("incorrect", "above the allowed"),
    "nan": ("incorrect", "NaN or infinity"),
    "memoises": ("incorrect", "same output for every input"),
    "other-shape": ("incorrect", "other shapes"),
    "stale": ("incorrect", "outputs of other inputs"),
    "varies": ("nondeterministic", "with the same input"),
    "varies-later": ("nondeterministic", "with the same input"),
    "returns-early": ("incorrect", "return before their work is done"),
    "hands-out-promises": ("incorrect", "return before their work is done"),
    "wrong-later": ("incorrect", "after the measurement"),
    "crash-in-visit": ("crashed", "SIGSEGV"),
    "hang-in-visit": ("timed-out", "measure"),
    "slows-the-clock": ("incorrect", "its clock differs from the supervisor's"),
    "falls-back": ("not-engaged", "Returning GraphModule forward instead"),
}
#: Options of `misbehaving` that look suspicious and are no failure.
HARMLESS = ("floods", "reads-slowly-at-first", "stalls-later")


@pytest.fixture(scope="module")
def decision(module_context: Context) -> Decision:
    """The decision on a run with one arm for each failure."""
    arms = ",".join(f"misbehaving/{option}" for option in (*FAILURES, *HARMLESS))
    answers = Answers(
        batch_sizes="2", budget="5", max_build_times="misbehaving=1s", workflows=f"quick,{arms}"
    )
    return decide(sessions.execute_run(module_context, answers))


def last_outcome(decision: Decision, arm: str) -> Outcome:
    outcome = decision.state.processes[arm][-1].outcome
    assert outcome is not None
    return outcome


@pytest.mark.parametrize("option", FAILURES)
def test_each_failure_has_its_status_and_its_reason(decision: Decision, option: str) -> None:
    outcome = last_outcome(decision, f"misbehaving/{option}")
    status, reason = FAILURES[option]
    assert not isinstance(outcome, Completed)
    assert (str(outcome.__struct_config__.tag), reason in outcome.reason) == (status, True), outcome


@pytest.mark.parametrize(
    "arm", ["pytorch-eager", "quick", *(f"misbehaving/{option}" for option in HARMLESS)]
)
def test_an_arm_without_a_failure_completes(decision: Decision, arm: str) -> None:
    assert isinstance(last_outcome(decision, arm), Completed)


def test_only_arms_without_a_failure_have_measurements(decision: Decision) -> None:
    assert {measurement.arm for measurement in decision.results.measurements} == {
        "pytorch-eager",
        "quick",
        *(f"misbehaving/{option}" for option in HARMLESS),
    }


def test_arms_whose_builds_were_stopped_are_next_steps(decision: Decision) -> None:
    stopped = {f"misbehaving/{option}" for option in ("hangs", "escapes", "holds-the-lock")}
    assert {build.arm for build in decision.results.stopped_builds} == stopped
    assert decision.recommendation is not None
    steps = decision.recommendation.next_steps
    assert all(any(step.startswith(f"{arm} ") for step in steps) for arm in stopped)


def test_stalled_calls_are_counted_and_lower_the_trust(decision: Decision) -> None:
    stalled = {
        measurement.arm
        for measurement in decision.results.measurements
        if measurement.visits.stalled_calls
    }
    assert stalled == {"misbehaving/stalls-later"}
    assert decision.recommendation is not None
    results = decision.results
    visits = msgspec.structs.replace(results.visits, stalled_calls=0)
    calm = trust.grade(msgspec.structs.replace(results, visits=visits), "CLEAR")[1]
    assert {*decision.recommendation.trust_reasons} > {*calm}


def test_a_measured_arm_is_recommended(decision: Decision) -> None:
    assert decision.recommendation is not None
    assert decision.recommendation.arm in {
        measurement.arm for measurement in decision.results.measurements
    }


@pytest.mark.usefixtures("decision")
def test_no_process_of_an_arm_survives_the_run(module_home: pathlib.Path) -> None:
    marked = [
        process
        for process in psutil.process_iter(["environ"])
        if any(str(module_home) in value for value in (process.info["environ"] or {}).values())
    ]
    assert [str(each) for each in marked + psutil.Process().children(recursive=True)] == []
