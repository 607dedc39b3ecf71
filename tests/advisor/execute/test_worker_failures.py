"""Each failure and each hostile act of a stack gets its status, and the rest of the run completes.

All tests read one run with one arm for each failure.
"""

from __future__ import annotations

import pathlib

import builders
import psutil
import pytest
import sessions
from builders import replace

from advisor.ask.context import Context
from advisor.decide import trust
from advisor.domain.answer import Answer
from advisor.report.answer_files import decide
from advisor.store.runs import Run
from probes.outcome import Outcome

pytestmark = pytest.mark.slow

#: By option of the workflow `misbehaving`: the status, and a part of the reason.
FAILURES = {
    "import-error": ("unsupported", "libmissing.so.1"),
    "model-error": ("model-refused", "of an unknown kind"),
    "refuses": ("unsupported", "takes no such model"),
    "raises": ("build-failed", "Could not find an implementation for Gemm(13)"),
    "segfault": ("crashed", "SIGSEGV"),
    "hangs": ("timed-out", "build"),
    "escapes": ("timed-out", "build"),
    "holds-the-lock": ("timed-out", "build"),
    "out-of-memory": ("out-of-memory", "MemoryError"),
    "garbage": ("crashed", "cannot be read"),
    "wrong": ("incorrect", "against float64, is"),
    "memoises": ("incorrect", "same output for every input"),
    "stale": ("incorrect", "outputs of other inputs"),
    "returns-early": ("incorrect", "return before their work is done"),
    "hands-out-promises": ("incorrect", "return before their work is done"),
    "wrong-later": ("incorrect", "after the measurement"),
    "crash-in-visit": ("crashed", "SIGSEGV"),
    "hang-in-visit": ("timed-out", "measure"),
    "slows-the-clock": ("incorrect", "its clock differs from the supervisor's"),
    "falls-back": ("not-engaged", "Returning GraphModule forward instead"),
    "ignores-signals": ("timed-out", "build"),
    "stops-itself": ("timed-out", "build"),
    "takes-all-memory": ("out-of-memory", "MemoryError"),
    "removes-its-directory": ("crashed", "was removed"),
    "closes-its-files": ("build-failed", "Bad file descriptor"),
}
#: Options of `misbehaving` whose build does not end in time.
STUCK = {option for option, (_, reason) in FAILURES.items() if reason == "build"}
#: Options of `misbehaving` that look suspicious and are no failure.
HARMLESS = ("floods", "reads-slowly-at-first", "stalls-later", "changes-directory", "starts-many")


@pytest.fixture(scope="module")
def earlier_children() -> list[psutil.Process]:
    """The processes of other tests, which stay for the whole session."""
    found: list[psutil.Process] = psutil.Process().children(recursive=True)
    return found


@pytest.fixture(scope="module")
def run(module_context: Context, earlier_children: list[psutil.Process]) -> Run:
    """A run with one arm for each failure."""
    del earlier_children  # they are listed first
    arms = ",".join(f"misbehaving/{option}" for option in (*FAILURES, *HARMLESS))
    asked = sessions.short_options(f"quick,{arms}", budget="5s", max_build_times="misbehaving=2s")
    return sessions.execute_run(module_context, asked)


@pytest.fixture(scope="module")
def answer(run: Run) -> Answer:
    return decide(run)


def last_outcome(run: Run, arm: str) -> Outcome:
    return builders.known(run.state().processes[arm][-1].outcome)


@pytest.mark.parametrize("option", FAILURES)
def test_each_failure_has_its_status_and_its_reason(run: Run, option: str) -> None:
    outcome = last_outcome(run, f"misbehaving/{option}")
    status, reason = FAILURES[option]
    assert outcome.failure is not None
    assert (outcome.failure.status, reason in outcome.failure.reason) == (status, True), outcome


@pytest.mark.parametrize(
    "arm", ["pytorch-eager", "quick", *(f"misbehaving/{option}" for option in HARMLESS)]
)
def test_an_arm_without_a_failure_completes(run: Run, arm: str) -> None:
    assert last_outcome(run, arm) == Outcome()


def test_the_load_of_the_machine_is_recorded_before_its_workers(run: Run, answer: Answer) -> None:
    kinds = [type(event.run_event).__name__ for event in run.events()]
    assert kinds.index("QuietChecked") < kinds.index("WorkerSpawned")
    assert builders.known(answer.quiet_check).activity.usable_processors >= 1


def test_only_arms_without_a_failure_have_measurements(answer: Answer) -> None:
    assert set(answer.measurements) == {
        "pytorch-eager",
        "quick",
        *(f"misbehaving/{option}" for option in HARMLESS),
    }


def test_arms_whose_builds_were_stopped_are_next_steps(answer: Answer) -> None:
    stopped = {f"misbehaving/{option}" for option in STUCK}
    assert {build.arm for build in answer.results.stopped_builds} == stopped
    steps = builders.known(answer.recommendation).next_steps
    assert all(any(step.startswith(f"{arm} ") for step in steps) for arm in stopped)


def test_stalled_calls_are_counted_and_lower_the_trust(answer: Answer) -> None:
    stalled = {
        measurement.arm
        for measurement in answer.results.measurements
        if measurement.visits.stalled_calls
    }
    assert stalled == {"misbehaving/stalls-later"}
    results = answer.results
    visits = replace(results.visits, stalled_calls=0)
    calm = trust.grade(replace(results, visits=visits), "CLEAR", gain=1.5)[1]
    assert {*builders.known(answer.recommendation).trust_reasons} > {*calm}


@pytest.mark.usefixtures("run")
def test_no_process_of_an_arm_survives_the_run(
    module_home: pathlib.Path, earlier_children: list[psutil.Process]
) -> None:
    marked = [
        process
        for process in psutil.process_iter(["environ"])
        if any(str(module_home) in value for value in (process.info["environ"] or {}).values())
    ]
    children = set(psutil.Process().children(recursive=True)) - set(earlier_children)
    without_variables = [
        process
        for process in psutil.process_iter(["cwd"])
        if str(module_home) in (process.info["cwd"] or "")
    ]
    assert [str(each) for each in (*marked, *children, *without_variables)] == []
