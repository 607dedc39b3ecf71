"""Arms without a measurement: the reason, the next step, and whether they might lead."""

from __future__ import annotations

import pathlib
import re
from typing import Any

import builders
import built_answers
import built_measurements
import pytest
from builders import replace
from golden_files import Expect

from advisor.ask import catalogue_files
from advisor.decide import scoring
from advisor.decide.answers import answer_from_results
from advisor.decide.certainty import Contest
from advisor.decide.unmeasured import arms_to_retry, list_unmeasured, more_time, nothing_viable
from advisor.domain.answer import Answer, Status, UnmeasuredArm
from advisor.domain.catalogue import EarlierRuns, SiblingGain
from advisor.domain.constraints import Constraint
from advisor.domain.errors import (
    BudgetSpentError,
    ConstraintUndecidedError,
    MachineUnfitError,
    NothingViableError,
)
from advisor.domain.event_folding import fold
from advisor.domain.measurement import Interval, MemoryBytes
from advisor.domain.plan import PLAIN_COMPILE
from advisor.domain.run_events import Finished, Resumed
from advisor.domain.run_state import Header, ProcessState, RunState
from advisor.domain.serving import ServingResults
from advisor.domain.workflow import Environment, KnownFault
from advisor.report.advice_lines import describe_steps
from advisor.report.answer_files import answer_of_run
from advisor.report.answer_lines import how_to_remeasure
from advisor.store.runs import Run
from probes.outcome import Failure, FailureStatus, Outcome, SkipCause

CRASH = Failure("crashed", phase="build", reason="r")
WRONG = Failure("incorrect", phase="correctness", reason="r")
FAULT = KnownFault(
    statuses=("incorrect",),
    dtypes=("bfloat16",),
    compute_capabilities=("==9.0",),
    description="its products are wrong",
    next_step="ask for another precision",
    source="https://example.org/1",
)

MISSING = Failure("model-refused", phase="open", reason="no module", missing_module="timm")
OWN = Environment(kind="own", name="openvino")
CUDA = Environment(kind="own", name="openvino-cuda")


def broken(
    *ends: Failure | Outcome | None, head: Header | None = None, finished: bool = False
) -> UnmeasuredArm:
    """Return what is listed of the arm `broken`, whose processes ended so."""
    processes: dict[str, ProcessState | list[ProcessState]] = {
        builders.BASELINE: builders.process(outcome=Outcome()),
        "broken": [
            builders.process(ready=False, outcome=Outcome(end) if isinstance(end, Failure) else end)
            for end in ends
        ],
    }
    state = builders.run_state(processes, finished=finished)
    baseline = builders.results(builders.measurement(builders.BASELINE))
    (found,) = list_unmeasured(head or built_answers.finished_header(), state, baseline, None)
    assert found.arm == "broken"
    return found


@pytest.mark.parametrize(
    ("failed", "status"), [("timed-out", "timed-out"), ("model-refused", "build-failed")]
)
def test_a_failed_arm_has_the_reason_and_the_fix_of_its_last_failure(
    failed: FailureStatus, status: Status
) -> None:
    found = broken(CRASH, Failure(failed, phase="build", reason="it hangs", fix="allow more"))
    assert (found.status, found.reason, found.fix) == (status, "it hangs", "allow more")
    assert (found.workflow, found.title, found.option) == ("broken", "Broken", "default")


def test_a_model_that_dynamo_skips_has_the_change_that_is_known() -> None:
    head, shipped = built_answers.finished_header(), builders.shipped_catalogue()
    head = replace(head, catalogue=replace(head.catalogue, improvements=shipped.improvements))
    met = ("RNN, GRU, or LSTM", "data-dependent branching", "the Python builtin `_warnings.warn`")
    steps = [str(broken(Failure("not-engaged", "build", each), head=head).fix) for each in met]
    named = ("allow_rnn = True to", "torch.where", "add import warnings; torch._dynamo.config")
    assert [name in step for name, step in zip(named, steps, strict=True)] == [True] * 3
    size = shipped.improvements.graph_break["size"]
    step = str(broken(Failure("not-engaged", "build", size.words), head=head).fix)
    assert size.lines in step
    assert size.advice
    assert size.advice in step


def test_an_excluded_workflow_has_its_reason_and_fix() -> None:
    state = RunState(plan=builders.plan(excluded=[builders.excluded()]))
    results = builders.results(builders.measurement(builders.BASELINE))
    (*_, found) = list_unmeasured(built_answers.finished_header(), state, results, None)
    told = (found.arm, found.title, found.option, found.reason, found.fix)
    assert told == ("absent", "Absent", None, "its environment has not been made", "make it")


@pytest.mark.parametrize("ends", [(), (None,), (Outcome(),)])
def test_an_arm_that_was_not_reached_has_the_command_that_resumes_the_run(
    ends: tuple[Outcome | None, ...],
) -> None:
    found = broken(*ends)
    run_id = built_answers.finished_header().run_id
    assert (found.status, found.fix) == ("not-reached", f"p3-advisor resume {run_id}")
    assert "stopped" in found.reason
    finished = broken(*ends, finished=True)
    assert "resume" not in builders.known(finished.fix)
    assert "stopped" not in finished.reason, "the history says that it has finished"
    imported = builders.replace(built_answers.finished_header(), foreign=True)
    assert broken(*ends, head=imported).fix is None


def header_with(
    *known: KnownFault, capability: str | None = "9.0", dtype: str = "bfloat16"
) -> Header:
    attached = () if capability is None else (builders.gpu(compute_capability=capability),)
    uuid = attached[0].uuid if attached else None
    return builders.header(
        question=builders.question(device="cuda" if uuid else "cpu", gpu=uuid, dtype=dtype),
        machine=builders.gpu_machine(*attached) if attached else builders.machine(),
        catalogue=builders.catalogue(builders.workflow("broken", faults=known)),
    )


@pytest.mark.parametrize(
    ("other", "failure", "fix"),
    [
        ({}, WRONG, f"{FAULT.next_step}: its products are wrong (https://example.org/1)"),
        ({}, builders.replace(WRONG, fix="its own"), "its own"),
        ({"capability": "8.0"}, WRONG, None),
        ({"capability": None}, WRONG, None),
        ({"dtype": "float32"}, WRONG, None),
        ({}, CRASH, None),
    ],
)
def test_a_known_fault_has_its_next_step_unless_the_outcome_has_its_own(
    other: dict[str, Any], failure: Failure, fix: str | None
) -> None:
    assert broken(failure, head=header_with(FAULT, **other)).fix == fix


def test_a_fault_without_limits_fits_every_machine() -> None:
    everywhere = KnownFault(
        statuses=("crashed",), description="it ends", next_step="update it", source="a test"
    )
    for capability in ("8.0", None):
        head = header_with(everywhere, capability=capability, dtype="own")
        assert broken(CRASH, head=head).fix == "update it: it ends (a test)"


def test_every_shipped_fault_has_a_source() -> None:
    root = pathlib.Path(catalogue_files.catalogue_directory()).parent
    faults = [fault for each in builders.shipped_catalogue().workflows for fault in each.faults]
    assert faults
    for fault in faults:
        files = re.findall(r"tests/[\w/.-]+", fault.source)
        assert re.search(r"https://\S+", fault.source) or files, fault.source
        assert all((root / file).is_file() for file in files), fault.source


@pytest.mark.parametrize(
    ("device", "environment"), [("cpu", "openvino"), ("cuda", "openvino-cuda")]
)
def test_a_missing_module_is_added_to_the_environment_of_the_device(
    device: str, environment: str
) -> None:
    workflow = builders.workflow("broken", environment=OWN, environment_on={"cuda": CUDA})
    step = builders.known(broken(MISSING, head=builders.header_of(workflow, device=device)).fix)
    assert step.startswith(f"p3-advisor env create {environment} --with timm,")
    shared = builders.known(broken(MISSING).fix)
    assert "timm" in shared
    assert "env create" not in shared


LATE = "late/fast"


def unmeasured(
    arm: str, status: Status, option: str | None = "fast", **changes: Any
) -> UnmeasuredArm:
    workflow = arm.partition("/")[0]
    return builders.unmeasured(
        workflow, reason="its time was up", arm=arm, option=option, status=status, **changes
    )


HEAD = builders.header(
    catalogue=builders.catalogue(
        builders.workflow("compiled"),
        builders.workflow("late", declared=builders.declared(new_shapes="recompiles")),
        earlier_runs={
            "cpu": {
                "late/fast": EarlierRuns(build_seconds=1.0, largest_lead=1.5),
                "late/slow": EarlierRuns(build_seconds=1.0, largest_lead=0.1),
                "compiled/slow": EarlierRuns(
                    build_seconds=1.0, gains={"compiled": SiblingGain(largest=0.9, runs=5)}
                ),
            }
        },
    )
)


def answer(left: UnmeasuredArm, *constraints: Constraint, also: Any = ()) -> Answer:
    head = builders.replace(HEAD, question=builders.question(constraints=constraints))
    ends = Interval(value=2.0, low=1.98, high=2.02, process_error=0.001)
    measured = builders.results(
        builders.measurement(builders.BASELINE, speedup=1.0),
        builders.replace(builders.measurement("compiled"), speedup=ends),
    )
    return built_answers.answer_of(measured, head, unmeasured=(left, *also))


@pytest.mark.parametrize(
    ("left", "is_outstanding"),
    [
        (unmeasured(LATE, "timed-out"), True),
        (unmeasured(LATE, "not-reached"), True),
        (unmeasured(LATE, "crashed"), False),
        (unmeasured(LATE, "unsupported", None), False),
        (unmeasured("compiled/fast", "timed-out"), False),
        (unmeasured("compiled/fast", "skipped", skip_cause="out-of-time"), True),
        # It was never faster than the measured one.
        (unmeasured("compiled/slow", "skipped", "slow", skip_cause="out-of-time"), False),
    ],
)
def test_an_arm_that_might_lead_is_named(left: UnmeasuredArm, is_outstanding: bool) -> None:
    found = built_answers.advised(answer(left))
    assert found.decision.outstanding == ((left.arm,) if is_outstanding else ())
    assert found.decision.word == ("LIKELY" if is_outstanding else "CLEAR")
    certainty = "".join(built_answers.headline(found.answer, "certainty"))
    assert ("may be better" in certainty) == is_outstanding
    step = f"to measure {left.title} too: "
    assert describe_steps(found.answer)[0].startswith(step) == is_outstanding
    varies = unmeasured("late/slow", "nondeterministic", "slow")
    beside = built_answers.advised(answer(left, also=(varies,))).decision.outstanding
    assert beside == ((left.arm,) if is_outstanding and left.arm != LATE else ())


@pytest.mark.parametrize(("cause", "is_named"), [("out-of-time", True), ("cannot-lead", False)])
def test_a_workflow_without_time_is_named_even_if_it_could_not_lead(
    cause: SkipCause, is_named: bool
) -> None:
    found = built_answers.advised(
        answer(unmeasured("late/slow", "skipped", "slow", skip_cause=cause))
    )
    assert (found.decision.outstanding, found.decision.word) == ((), "CLEAR")
    certainty = "".join(built_answers.headline(found.answer, "certainty"))
    assert (found.answer.titles["late/slow"] in certainty) == is_named


def test_a_resume_is_named_until_it_fails_or_has_settled_nothing_twice() -> None:
    late = answer(unmeasured(LATE, "skipped", skip_cause="out-of-time"))
    assert not how_to_remeasure(built_answers.with_results(late, noise_floor=0.6))
    unfit = built_answers.with_results(answer(unmeasured(LATE, "crashed")), noise_floor=0.6)
    for changes, is_named in (({"times_remeasured": 1}, True), ({"times_remeasured": 2}, False)):
        assert bool(how_to_remeasure(builders.replace(unfit, **changes))) == is_named
    assert not how_to_remeasure(builders.replace(unfit, resumable=False))
    stopped, further = Resumed(), (Finished(), Resumed())
    state = fold(builders.events(stopped, stopped, *further, stopped, *further))
    assert state.times_remeasured == 3


@pytest.mark.parametrize(("lead", "counts"), [(0.5, False), (1.0, True), (None, True)])
def test_an_arm_counts_unless_kept_runs_show_that_it_does_not_lead(
    lead: float | None, counts: bool
) -> None:
    so_far = answer(unmeasured(LATE, "timed-out"))
    seen = {LATE: EarlierRuns(build_seconds=1.0, largest_lead=lead)} if lead else {}
    known = builders.replace(HEAD.catalogue, earlier_runs={"cpu": seen})
    outstanding = built_answers.advised(answer_from_results(so_far, known)).decision.outstanding
    assert outstanding == ((LATE,) if counts else ())


@pytest.mark.parametrize("left", ["crashed", "timed-out"])
def test_a_run_whose_time_ended_before_a_second_arm_has_no_answer(left: Status) -> None:
    cut_off = unmeasured("late/slow", left, "slow", title="slow")
    others = [unmeasured(f"late/{name}", left, name, title=name) for name in "abc"]
    both = answer(cut_off, also=others)
    alone = built_answers.with_results(both, measurements=both.results.measurements[:1])
    found = answer_from_results(alone, HEAD.catalogue)
    assert (found.problem is None) == (left == "crashed")
    assert (found.recommendation is None) == (left == "timed-out")
    if found.problem:
        assert (found.problem.name, found.problem.next_step) == (BudgetSpentError.name, cut_off.fix)
        assert built_answers.headline(found, "answer")[0].startswith("No answer")
        # The arm that was never faster than another one may score least.
        assert "a, b, c and 1 other" in found.problem.what


@pytest.mark.parametrize(
    ("bound", "left", "noise", "name"),
    [
        (2.01, "crashed", 0.01, ConstraintUndecidedError.name),
        (2.01, "crashed", 0.6, MachineUnfitError.name),
        (1.99, "crashed", 0.6, MachineUnfitError.name),
        (2.5, "timed-out", 0.01, ConstraintUndecidedError.name),
        (2.5, "timed-out", 0.6, ConstraintUndecidedError.name),
        (2.5, "crashed", 0.01, NothingViableError.name),
    ],
    ids=[
        "within the error",
        "unfit",
        "perhaps met, unfit",
        "not measured",
        "not measured, unfit",
        "none meets it",
    ],
)
def test_a_constraint_that_an_arm_may_meet_is_not_refused(
    bound: float, left: Status, noise: float, name: str
) -> None:
    needed = Constraint("speedup", ">=", bound)
    noisy = built_answers.with_results(answer(unmeasured(LATE, left), needed), noise_floor=noise)
    found = answer_from_results(noisy, HEAD.catalogue)
    problem = builders.known(found.problem)
    assert problem.name == name
    is_undecided = name != NothingViableError.name
    # Where an arm may meet it, its spread is there instead.
    assert ("nearest: speedup 2" in problem.what) == (bound == 2.5 and "unfit" not in name)
    assert (problem.exit_code == MachineUnfitError.exit_code) == is_undecided
    assert built_answers.headline(found, "answer")[0].startswith("No answer") == is_undecided


def test_a_limit_on_starts_that_were_not_measured_asks_for_them() -> None:
    needed = Constraint("start", "<=", 2.0)
    found = answer_from_results(answer(unmeasured(LATE, "timed-out"), needed), HEAD.catalogue)
    problem = builders.known(found.problem)
    assert problem.name == ConstraintUndecidedError.name
    assert "--cold-start" in problem.next_step


def test_an_arm_whose_declared_facts_fail_a_constraint_does_not_count() -> None:
    needed = Constraint("input_flexibility", ">=", 3)
    found = built_answers.advised(answer(unmeasured(LATE, "timed-out"), needed))
    assert (found.decision.word, found.decision.outstanding) == ("CLEAR", ())


def test_a_server_that_meets_the_limits_at_no_rate_does_not_count() -> None:
    left = unmeasured(LATE, "excluded")
    so_far = answer(left)
    slow = built_measurements.served_arm(left.arm, goodput=None)
    served = ServingResults(arms=(slow,), process_deviation=None)
    results = builders.replace(so_far.results, serving=served)
    found = built_answers.advised(built_answers.answer_of(results, HEAD, unmeasured=(left,)))
    assert found.decision.outstanding == ()


@pytest.mark.parametrize("option", [None, "default"])
def test_a_step_names_torch_compile_if_it_was_left_out(option: str | None) -> None:
    compiled = builders.unmeasured(PLAIN_COMPILE, option=option, status="unsupported", fix=None)
    if option is None:
        compiled = builders.replace(compiled, status="excluded")
    arms = [builders.unmeasured("aot", option="default", fix="use other operators"), compiled]
    alone = builders.results(builders.measurement(builders.BASELINE, speedup=1.0))
    answer = built_answers.answer_of(alone, HEAD, unmeasured=tuple(arms))
    change = built_answers.headline(answer)[2]
    assert "To compare it: use other operators" in change
    assert ("leave out --workflows" in change) == (option is None)


def test_the_value_nearest_to_each_constraint_is_named_when_nothing_is_left(expect: Expect) -> None:
    question = builders.question(
        constraints=(
            Constraint("speedup", ">=", 50),
            Constraint("memory", "<=", 2**20),
            Constraint("ttft", "<=", 0.1),
            Constraint("performance", ">=", 3),
        )
    )
    results = builders.results(
        *(
            builders.measurement(
                name, speedup=speedup, memory_bytes=MemoryBytes(peak=peak << 20, source="a test")
            )
            for name, speedup, peak in (("one", 1.2, 300), ("two", 1.9, 200), ("three", 1.0, 400))
        )
    )
    known = builders.catalogue(*map(builders.workflow, ("one", "two", "three")))
    arms = scoring.score_arms(results, question, known)
    problem = nothing_viable(Contest(results, arms, question, known), (), ())
    assert isinstance(problem, NothingViableError)
    expect("nothing-viable", [problem.what, problem.next_step])


def test_the_gain_over_the_sibling_limits_an_arm() -> None:
    left = unmeasured("compiled/slow", "not-reached", "slow")
    asked, results = HEAD.question, answer(left).results
    found = builders.known(scoring.potential_of(left, asked, results, HEAD.catalogue))
    assert (found.sibling, found.gain) == ("compiled", SiblingGain(largest=0.9, runs=5))
    assert found.speedup == pytest.approx(2.0 * 0.9 * HEAD.catalogue.presets.builds.gain_margin)


def test_the_failed_arms_are_retried_by_their_names_in_the_option(made_run: Run) -> None:
    made, unreached = answer_of_run(made_run), unmeasured("unreached", "not-reached", "default")
    others = (unreached, builders.unmeasured("absent"))
    assert arms_to_retry(replace(made, unmeasured=(*made.unmeasured, *others))) == (
        "broken/default",
    )


#: Builds of 3 s for each batch size.
BUILT = builders.process(*builders.visits([0.01], 1), *builders.visits([0.01], 4))
NOT_REACHED = builders.process(
    ready=False,
    outcome=Outcome(Failure("skipped", phase="build", reason="late", skip_cause="out-of-time")),
)
CRASHED = builders.process(
    ready=False, outcome=Outcome(Failure("crashed", phase="build", reason="gone"))
)
#: A question without a limit of its own.
FREE = builders.question(budget=replace(builders.question().budget, seconds={}, race_share=0.7))


def half_reached(others: float | None = 30.0) -> RunState:
    """Return the state, after 40 s, of a run that did not reach one of its arms."""
    plan = builders.plan("compiled", "late", "crashed")
    arms = tuple(
        replace(each, expected_build_seconds=30.0 if each.id == "compiled" else others)
        for each in plan.arms
    )
    return builders.run_state(
        {builders.BASELINE: BUILT, "compiled": BUILT, "late": NOT_REACHED, "crashed": CRASHED},
        plan=replace(plan, arms=arms),
        at=40.0,
    )


def test_a_budget_that_should_suffice_is_named_for_arms_that_were_not_reached() -> None:
    state = half_reached()
    assert more_time(state, FREE).endswith("--budget 100s")
    assert more_time(replace(state, at=400.0), FREE).endswith("--budget 11min")
    short = replace(FREE.budget, seconds={"forward": 100.0})
    assert more_time(state, replace(FREE, budget=short)).endswith("3min")
    # An arm whose build is not known is expected to take as long as others.
    assert more_time(half_reached(None), FREE).endswith("--budget 100s")


def test_servers_that_were_not_reached_take_as_long_as_those_that_were_measured() -> None:
    question, state = replace(FREE, task="serve", load=built_measurements.load()), half_reached()
    assert more_time(state, question).endswith("--budget 60s")
    assert more_time(replace(state, processes={}), question).endswith("--budget 3min")
