"""The steps after the races: which arms are repeated and how often, sustained calls."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple
from unittest import mock

import builders
import built_answers
import msgspec
import pytest
import sessions
from builders import BASELINE, DUPLICATE, replace
from simulation import SimulatedSession, active_of, new_recorder

from advisor.ask.context import Context
from advisor.ask.run_options import RunOptions
from advisor.domain.answer import Answer
from advisor.domain.constraints import Constraint, FailedConstraint
from advisor.domain.measurement import BuildSeconds
from advisor.domain.plan import Plan
from advisor.domain.question import Budget, DeviceKind, Question
from advisor.domain.recommendation import DecisionWord
from advisor.domain.results import ScoredArm
from advisor.domain.run_events import (
    LoggedEvent,
    ProvisionalAnswer,
    RaceClosed,
    RepetitionStarted,
    RunEvent,
    WorkerEnded,
    WorkerSpawned,
)
from advisor.domain.run_state import RunState
from advisor.execute import post_race, repetitions
from advisor.execute.repetitions import excluded_by_declaration, leaders_of
from advisor.report.answer_files import answer_of_run
from probes.events import Sustained, Visited
from probes.outcome import Outcome
from probes.shape import Shape


class ReadRun(NamedTuple):
    """A run with every step: its events, its state and its answer."""

    events: list[LoggedEvent]
    state: RunState
    answer: Answer


@pytest.fixture(scope="module")
def standard(module_context: Context) -> ReadRun:
    """A run with the standard budget, which includes every step."""
    run_options = RunOptions(
        batch_sizes="2", budget="standard", workflows="narrow", max_build_seconds=10.0
    )
    run = sessions.execute_run(module_context, run_options)
    return ReadRun(run.events(), run.state(), answer_of_run(run))


def test_the_leaders_and_the_baseline_are_repeated_in_fresh_processes(standard: ReadRun) -> None:
    events = standard.events
    repeated = sessions.of_kind(events, RepetitionStarted)
    assert [repetition.repeat for repetition in repeated] == [1, 2]
    for repetition in repeated:
        assert repetition.arms[0] == BASELINE
        assert len(repetition.arms) >= 2
        assert DUPLICATE not in repetition.arms
        spawned = sessions.of_kind(events, WorkerSpawned)
        arms = [each.arm for each in spawned if each.repeat == repetition.repeat]
        assert (arms[0], sorted(arms)) == (BASELINE, sorted(repetition.arms))


def test_the_answer_of_the_race_precedes_the_repetitions(standard: ReadRun) -> None:
    kinds = [type(event.run_event) for event in standard.events]
    assert kinds.index(RaceClosed) < kinds.index(ProvisionalAnswer) < kinds.index(RepetitionStarted)


def test_every_repeated_arm_makes_a_visit_in_each_round(standard: ReadRun) -> None:
    for arm in standard.state.repeats[1]:
        (process,) = [process for process in standard.state.processes[arm] if process.repeat == 1]
        rounds = standard.answer.question.budget.repeat_rounds
        assert {visit.round for visit in process.visits} == set(range(1, rounds + 1))
        assert process.outcome == Outcome()


def test_the_order_of_the_arms_rotates_from_round_to_round(standard: ReadRun) -> None:
    events = standard.events
    first_arms: dict[int, str] = {}
    for report, block in sessions.reports_of(events, Visited):
        if standard.state.processes[report.arm][report.process].repeat == 1:
            first_arms.setdefault(block.round, report.arm)
    assert len(first_arms) == standard.answer.question.budget.repeat_rounds
    assert len(set(first_arms.values())) > 1


def test_a_cell_counts_the_processes_behind_its_speedup(standard: ReadRun) -> None:
    repeated = set(standard.state.repeats[1])
    for measurement in standard.answer.results.measurements:
        (cell,) = measurement.cells
        is_repeated = measurement.arm in repeated
        assert cell.processes == (3 if is_repeated else 1)
        assert (measurement.build_seconds.warm is not None) is is_repeated


def test_the_two_fastest_arms_are_sustained_in_the_order_abba(standard: ReadRun) -> None:
    events = standard.events
    order = [report.arm for report, _ in sessions.reports_of(events, Sustained)]
    one, two = order[0], order[1]
    assert order == [one, two, two, one]
    check = builders.known(standard.answer.results.sustained)
    assert set(check.arms) == {one, two}
    assert check.joules_per_call == {one: None, two: None}


def test_the_result_at_batch_sizes_not_built_is_a_measured_fact(standard: ReadRun) -> None:
    left_out = {each.arm: each.status for each in standard.answer.unmeasured}
    assert left_out["narrow/wrong"] == "incorrect"
    ratings = {each.arm: each.ratings["input_flexibility"] for each in standard.answer.scores}
    for option, value, tier in (
        ("served", "served", 3),
        ("late", "recompiles", 2),
        ("eager", "recompiles", 2),
        ("refused", "refused", 1),
    ):
        arm = f"narrow/{option}"
        assert standard.answer.results.by_arm[arm].new_shape_behaviour == value
        rating = ratings[arm]
        assert (rating.value, rating.evidence, rating.tier) == (value, "measured", tier)


def test_an_arm_as_slow_as_eager_at_other_sizes_counts_as_a_fallback(standard: ReadRun) -> None:
    slow = standard.answer.results.by_arm["narrow/slow"]
    assert slow.new_shape_behaviour == "recompiles"
    assert {result.handling for result in slow.new_shape_results} == {"eager"}


def test_a_crash_at_other_sizes_keeps_the_earlier_measurements(standard: ReadRun) -> None:
    ended = sessions.of_kind(standard.events, WorkerEnded)
    crash = next(end.outcome for end in ended if end.arm == "narrow/breaks" and end.outcome.failure)
    assert sessions.expect_failure(crash, "crashed").phase == "new-shapes"
    assert "narrow/breaks" in standard.answer.results.by_arm
    assert {end.arm: end.outcome for end in ended}[BASELINE] == Outcome()


def test_the_duplicate_is_likely_to_be_repeated_after_the_best_arm() -> None:
    slow, best = (builders.arm(f"by-{gain}", possible_points=gain) for gain in (1.1, 2.0))
    baseline, duplicate = builders.plan().arms
    likely = repetitions.order_repetitions([baseline, duplicate, slow, best])
    assert likely == [baseline, best, duplicate, slow]


def test_a_run_without_an_answer_has_leaders_once_it_is_resumed() -> None:
    names = (BASELINE, "first", "second", "third")
    answer = built_answers.answer(
        scores=tuple(builders.scored_arm(name) for name in names[1:]), recommendation=None
    )
    plan = Plan(arms=tuple(map(builders.arm, names)), excluded=())
    assert leaders_of(answer, plan) == ()
    resumed = replace(answer, times_remeasured=1)
    assert [each.id for each in leaders_of(resumed, plan)] == [*names[:3]]


def test_a_sibling_is_repeated_where_there_is_no_other_workflow() -> None:
    names = (BASELINE, f"{BASELINE}/bound")
    scores = [builders.scored_arm(name, workflow=BASELINE) for name in names]
    answer = built_answers.with_decision(built_answers.answer(scores=tuple(scores)), contenders=())
    advised = built_answers.with_advice(answer, arm=BASELINE, workflow=BASELINE)
    plan = Plan(arms=tuple(map(builders.arm, names)), excluded=())
    assert [each.id for each in leaders_of(advised, plan)] == [*names]


def test_two_of_the_rivals_that_may_lead_are_repeated() -> None:
    names = (BASELINE, "compiled", "one", "two", "three")
    answer = built_answers.answer(scores=tuple(map(builders.scored_arm, names)))
    open_answer = built_answers.with_decision(answer, contenders=dict.fromkeys(names[1:], 0.5))
    plan = Plan(arms=tuple(map(builders.arm, names)), excluded=())
    assert [each.id for each in leaders_of(open_answer, plan)] == [*names[:4]]


@pytest.mark.slow
def test_the_leaders_of_a_quick_run_try_one_new_batch_size(context: Context) -> None:
    run_options = RunOptions(
        batch_sizes="2", budget="quick", workflows="narrow/late,narrow/slow,quick"
    )
    run = sessions.execute_run(context, run_options)
    answer = answer_of_run(run)
    tried = {
        measurement.arm: [result.shape for result in measurement.new_shape_results]
        for measurement in answer.results.measurements
        if measurement.new_shape_results
    }
    leaders = {each.id for each in leaders_of(answer, run.state().plan)}
    assert builders.known(answer.recommendation).arm in tried
    assert leaders <= set(tried)
    assert set(map(tuple, tried.values())) == {(Shape(3),)}
    advised = builders.known(answer.advised).scored
    assert advised.ratings["input_flexibility"].evidence == "measured"


def test_first_builds_start_with_cold_caches(standard: ReadRun) -> None:
    arms = [entry.arm for entry in standard.answer.results.measurements]
    first = [standard.state.processes[arm][0].caches for arm in arms]
    assert first
    assert all(caches and caches.bytes_before == 0 for caches in first)


def test_a_repetition_that_has_not_started_is_not_complete() -> None:
    state = builders.run_state({BASELINE: builders.process(*builders.visits([0.4] * 4))})
    assert not repetitions.is_repetition_complete(state, 1, builders.question())


def excluded(name: str, score: float, *criteria: str, evidence: str = "declared") -> ScoredArm:
    failures = tuple(
        FailedConstraint(index=place, constraint=Constraint(criterion, ">=", 3), value=2)
        for place, criterion in enumerate(criteria)
    )
    scored = builders.scored_arm(name, score=score, failures=failures)
    letter = builders.rating(2, evidence=evidence)
    return replace(scored, ratings={**scored.ratings, "input_flexibility": letter})


@pytest.mark.parametrize(("has_answer", "tried"), [(True, 2), (False, 3)])
def test_arms_that_a_declared_letter_alone_excludes_are_tried_best_first(
    *, has_answer: bool, tried: int
) -> None:
    leader, flexible = builders.scored_arm("compiled", score=2.0), "input_flexibility"
    arms = (
        excluded("worse", 1.9, flexible),
        excluded("good", 2.5, flexible),
        excluded("better", 2.8, flexible),
        excluded("bound", 2.5, flexible, "portability"),
        excluded("measured", 2.5, flexible, evidence="measured"),
        excluded("free", 2.5),
    )
    plan = Plan(arms=tuple(builders.arm(each.arm) for each in (leader, *arms)), excluded=())
    answer = built_answers.answer(scores=(leader, *arms) if has_answer else arms)
    answer = answer if has_answer else replace(answer, recommendation=None)
    found = [each.id for each in excluded_by_declaration(answer, plan)]
    assert found == ["better", "good", "worse"][:tried]


OPEN_SECONDS = 5.0
#: One repetition: sizes, rounds, arms, calls, seconds of the slowest call.
ROUNDS = 3
SECONDS = 2 * ROUNDS * 2 * 6 * 0.014
BUDGET = Budget(
    name="quick",
    measuring_seconds=9,
    most_rounds=13,
    repeats=1,
    repeat_rounds=ROUNDS,
    repeated="leaders",
    undecided_seconds=OPEN_SECONDS,
)
QUESTION = builders.question(batch_sizes=(1, 4), budget=BUDGET)


def decided(word: DecisionWord, needed: int | None) -> Answer:
    """Return an answer for `compiled` with the number of repetitions that would settle it."""
    answer = built_answers.answer()
    return built_answers.with_decision(answer, word=word, needed_repetitions=needed)


OPEN = decided("OPEN", 1)
CLEAR = decided("CLEAR", None)


def after_repetitions(*made: Answer) -> Callable[[RunState], Answer]:
    """Return a function that gives an answer by the number of repetitions, then the last one."""
    return lambda state: made[min(len(state.repeats), len(made) - 1)]


def repeat(
    answer_of: Callable[[RunState], Answer],
    question: Question = QUESTION,
    *,
    started: bool = False,
    end: float = math.inf,
) -> tuple[SimulatedSession, RunState]:
    """Repeat the leaders of a run that has three arms, whose processes may have been started."""
    session = SimulatedSession({BASELINE: 0.0, "compiled": -0.1, "other": -0.1})
    recorder = new_recorder(["compiled", "other"])
    if started:
        first = [(each, 0) for each in recorder.state.plan.arms]
        sessions.exhaust(recorder.record_each(session.start(first)))
        sessions.exhaust(recorder.record_each(session.stop()))
    active = active_of(session, recorder, question, answer_of, end)
    sessions.exhaust(recorder.record_each(repetitions.repeat_arms(active)))
    assert not session.is_running("compiled")
    return session, recorder.state


@pytest.mark.parametrize(
    "answer", [CLEAR, decided("LIKELY", 1), decided("OPEN", None), decided("OPEN", 16)]
)
def test_no_repetition_follows_that_cannot_settle_the_decision(answer: Answer) -> None:
    _, state = repeat(after_repetitions(answer))
    assert sorted(state.repeats) == [1]


def test_repetitions_follow_in_fresh_processes_until_the_decision_is_made() -> None:
    session, state = repeat(after_repetitions(OPEN, OPEN, OPEN, CLEAR))
    assert sorted(state.repeats) == [1, 2, 3]
    assert [process.repeat for process in state.processes["compiled"]] == [1, 2, 3]
    visits = len(QUESTION.batch_sizes) * ROUNDS
    assert [arm for arm, _, _ in session.order].count("compiled") == 3 * visits


def test_further_repetitions_have_the_leaders_alone() -> None:
    question = builders.question(budget=replace(BUDGET, repeated="all"))
    _, state = repeat(after_repetitions(OPEN, OPEN, CLEAR), question, started=True)
    assert DUPLICATE in state.repeats[1]
    assert set(state.repeats[2]) == {BASELINE, "compiled"}


def test_a_single_leader_is_repeated_next_to_the_duplicate_once() -> None:
    _, state = repeat(after_repetitions(OPEN, OPEN, CLEAR))
    further = [set(arms) - {BASELINE, "compiled"} for arms in state.repeats.values()]
    assert further == [{DUPLICATE}, set()]


def test_an_arm_that_leads_after_the_repetition_is_repeated_too() -> None:
    other_leads = msgspec.json.decode(
        msgspec.json.encode(CLEAR).replace(b'"compiled', b'"other'), type=Answer
    )
    _, state = repeat(after_repetitions(CLEAR, other_leads))
    assert [arms for arms in state.repeats.values() if "other" in arms] == [state.repeats[2]]
    _, state = repeat(after_repetitions(CLEAR, other_leads), end=1.5 * SECONDS)
    assert sorted(state.repeats) == [1], "the run has no time for another one"


def test_repetitions_end_with_the_seconds_of_the_budget() -> None:
    session, state = repeat(after_repetitions(OPEN))
    assert OPEN_SECONDS <= session.machine.clock() <= SECONDS + OPEN_SECONDS
    assert len(state.repeats) > 2


def test_no_repetition_begins_builds_or_goes_on_after_the_end_of_the_run() -> None:
    session, _ = repeat(after_repetitions(CLEAR), end=0.1)
    assert {*session.build_ends.values()} == {0.1}
    assert {number for _, _, number in session.order} == {1, 2}, "the fewest that count"
    _, state = repeat(after_repetitions(CLEAR), end=0.0)
    assert state.repeats == {}


def test_the_quickest_build_is_repeated_first_and_a_cold_one_in_half_the_time_only() -> None:
    built = BuildSeconds(cold=30.0, warm=None, builds_at_once=2)
    slow = built_answers.with_measurement(CLEAR, "compiled", build_seconds=built)
    slow = built_answers.with_question(slow, requests=1000)
    found = [repetitions.builds_to_repeat(slow, seconds) for seconds in (math.inf, 60.0, 59.0)]
    assert found == [{"compiled"}, {"compiled"}, set()]
    question = builders.question(budget=replace(BUDGET, repeated="all"))
    session, _ = repeat(after_repetitions(slow), question, started=True)
    assert [*session.build_ends] == [BASELINE, DUPLICATE, "other", "compiled"]


def test_after_the_end_the_baselines_alone_are_not_visited(monkeypatch: pytest.MonkeyPatch) -> None:
    def build_too_late(session: SimulatedSession, arm: str, *, end: float) -> Iterator[RunEvent]:
        session.machine.now = max(session.machine.now, end)
        yield from session.stop([arm] if arm == "compiled" else [])

    monkeypatch.setattr(SimulatedSession, "build", build_too_late)
    session, _ = repeat(after_repetitions(CLEAR), end=0.1)
    assert session.order == []


def test_a_budget_without_time_for_open_decisions_has_its_own_repetitions_only() -> None:
    budget = replace(BUDGET, repeats=2, undecided_seconds=0.0)
    _, state = repeat(after_repetitions(OPEN), builders.question(budget=budget))
    assert sorted(state.repeats) == [1, 2]


def test_an_open_decision_after_long_builds_is_worth_a_share_of_their_time() -> None:
    question = builders.question(budget=replace(BUDGET, undecided_share=0.1))
    assert repetitions.seconds_while_open(question, RunState(at=20.0)) == OPEN_SECONDS
    assert repetitions.seconds_while_open(question, RunState(at=900.0)) == 90.0


@pytest.mark.parametrize(
    ("device", "end", "asked"),
    [("cpu", math.inf, [["a"], ["b"]]), ("cuda", math.inf, [["a", "b"]]), ("cuda", 2.0, [])],
)
def test_leaders_try_new_shapes_in_turn_on_a_cpu_and_at_once_on_a_gpu_if_one_fits(
    device: DeviceKind, end: float, asked: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    session = mock.MagicMock(**{"pool.standbys.are_building": bool, "machine.clock": float})
    session.pool.is_running = {"a", "b"}.__contains__
    quick = builders.shipped_catalogue().presets.budgets["quick"]
    question = builders.question(device=device, budget=quick)
    answer = built_answers.answer(scores=())
    active = active_of(session, new_recorder("ab"), question, lambda _: answer, end)
    monkeypatch.setattr(post_race, "leaders_of", lambda *_: builders.plan("a", "b").arms)
    sessions.exhaust(post_race.measure_further(active))
    assert [call.args[0] for call in session.try_new_shapes.call_args_list] == asked


def test_workers_of_a_repetition_end_where_memory_is_short() -> None:
    session = mock.MagicMock(**{"pool.is_running.return_value": False})
    active = active_of(session, new_recorder("ab"), builders.question())
    sessions.exhaust(post_race.free_memory(active))
    session.pool.standbys.end_all.assert_called_once_with()
