"""A run in progress: its events, stages and time left, the answer so far, and pauses."""

from __future__ import annotations

import os
import time

import builders
import built_answers
import built_measurements
import pytest
import sessions
import workers
from builders import replace
from built_answers import advice_of, with_decision, with_measurement, with_results, without_advice

from advisor.ask.context import Context
from advisor.domain import run_events
from advisor.domain.answer import AdvisedAnswer, Answer
from advisor.domain.errors import MachineUnfitError, NothingViableError
from advisor.domain.event_folding import fold
from advisor.domain.machine import MachineActivity, QuietCheck, QuietProblem
from advisor.domain.measurement import Interval, VisitCounts
from advisor.domain.recommendation import DecisionWord
from advisor.domain.run_state import RunState
from advisor.domain.serving import ServedRequest
from advisor.domain.text import MISSING, format_speedup
from advisor.execute import runner as execute_runner
from advisor.execute.runner import Gate
from advisor.report.other_arms import describe_equals
from advisor.store.runs import Run
from advisor.tui import followed_run, live_table
from advisor.tui.followed_run import FollowedRun, StartRunner, choose_leader
from advisor.tui.live import describe_leader, describe_load
from probes.events import PhaseStarted, Ready
from probes.outcome import Failure, Outcome
from probes.shape import Shape

QUESTION = builders.question(batch_sizes=(1, 2))
BUDGET = replace(QUESTION.budget, seconds={QUESTION.task: 100.0})
LIMITED = replace(QUESTION, budget=BUDGET)
MEASURED = "Measuring batch"
SKIPPED = Failure("skipped", "build", "by the user", skip_cause="user")
ENDS: dict[int, run_events.EndCause] = {1: "decided", 2: "decided"}


def test_a_resumed_run_has_its_time_limit_again() -> None:
    state = builders.run_state({builders.BASELINE: builders.process()})
    again = fold([run_events.LoggedEvent(seq=7, at=80.0, run_event=run_events.Resumed())], state)
    assert live_table.remaining_seconds(again, LIMITED, 90.0) == pytest.approx(90)
    assert live_table.remaining_seconds(state, LIMITED, 90.0) == pytest.approx(10)
    assert live_table.remaining_seconds(state, LIMITED, 140.0) == pytest.approx(-40), (
        "it is over its limit"
    )
    assert live_table.remaining_seconds(state, replace(LIMITED, all_arms=True), 90.0) is None


def test_a_server_under_load_has_its_blocks_and_their_latency() -> None:
    load = built_measurements.load()
    requests = tuple(
        ServedRequest(at=1.0, late=0.0, ttft=ttft, seconds=1.0, itl=0.01, output_tokens=4)
        for ttft in (0.25, 0.25, 0.75, 0.75)
    )
    block = run_events.LoadMeasured(
        arm="compiled", process=0, rate=4.0, seconds=10.0, requests=requests, discarded=False
    )
    assert "4" not in describe_load(builders.run_state({}), load, None).plain
    process = builders.process(
        serving=built_measurements.started_server(), load_blocks=(block, replace(block, rate=2.0))
    )
    state = builders.run_state({builders.BASELINE: builders.process(), "compiled": process})
    state = replace(state, plan=builders.plan("compiled"), finished=False)
    question = builders.question(task="serve", load=load)
    row = next(
        row for row in live_table.process_rows(state, question, "compiled") if row.arm == "compiled"
    )
    assert (row.phase, row.status) == ("serving", "working")
    assert row.is_built
    _, _, *levels = describe_load(state, load, "compiled").plain.splitlines()
    figures = [level.split() for level in levels]
    assert [each[:2] for each in figures] == [["2", "50"], ["4", "50"]]
    assert all(float(each[-2]) > load.ttft_seconds * 1e3 for each in figures)
    assert all(float(each[-1]) == pytest.approx(load.itl_seconds * 1e3 / 5) for each in figures)


def test_times_and_speeds_so_far_are_of_the_same_rounds_and_not_of_a_busy_machine() -> None:
    made = built_answers.answer()
    eager, compiled = (made.results.by_arm[arm].cells[0] for arm in (builders.BASELINE, "compiled"))
    row = live_table.ProcessRow(arm="compiled", status="waiting", phase="measure")
    shown, busy = (live_table.process_cells(row, compiled, 0.0, fit=fit) for fit in (True, False))
    of_baseline = float(str(shown["ms"])) * compiled.speedup.value
    assert of_baseline == pytest.approx(eager.seconds.median * 1e3, rel=0.01)
    assert (busy["ms"], busy["ratio"], busy["progress"]) == (MISSING, MISSING, compiled.speedup)


def test_the_answer_so_far_names_its_word_its_equals_and_what_disturbs() -> None:
    made = built_answers.answer()
    contenders = {advice_of(made).arm: 0.9, builders.BASELINE: 0.26}
    disturbed = with_decision(made, contenders=contenders, as_good=(builders.BASELINE,))
    disturbed = with_results(disturbed, visits=VisitCounts(made=10, discarded=0, unfit=3))
    shown = describe_leader(disturbed, disturbed.advised).plain
    equals = describe_equals(builders.known(AdvisedAnswer.of(disturbed)), advice_of(made).arm)
    word = str(advice_of(made).decision.word)
    assert all(each in shown for each in (word, equals, "3 of 10 visits"))
    assert equals.startswith("perhaps as good: ")
    assert equals[1:] in built_answers.headline(disturbed)[1]
    baseline = next(each for each in made.ranking if each.arm == builders.BASELINE)
    of_baseline = describe_leader(disturbed, baseline).plain
    assert "about as good: Compiled" in of_baseline
    assert baseline.scored.title not in of_baseline
    unknown = without_advice(disturbed, MachineUnfitError("too busy", "wait"))
    shown = describe_leader(unknown, choose_leader(unknown, "")).plain
    assert all(each in shown for each in ("OPEN", unknown.ranking[0].arm, "between", "3 of 10"))
    assert f"{builders.BASELINE}  the baseline" in describe_leader(unknown, baseline).plain
    noisy = with_results(made, noise_floor=4.0)
    value = format_speedup(builders.known(made.advised).speedup)
    lines = [describe_leader(each, each.advised).plain for each in (made, noisy)]
    assert [value in each for each in lines] == [True, False]
    none = without_advice(made, NothingViableError("nothing is viable", ""))
    assert "nothing is viable" in describe_leader(none, None).plain


def test_the_answer_so_far_says_that_little_is_gained() -> None:
    made = with_decision(built_answers.answer(), gains_little=True)
    advised, contenders = advice_of(made).arm, {advice_of(made).arm: 1.0, builders.BASELINE: 0.9}
    as_good = with_decision(made, contenders=contenders, as_good=(builders.BASELINE,))
    first = built_answers.headline(as_good)[0]
    shown = describe_leader(as_good, as_good.advised).plain
    assert (advised in shown, shown.count(as_good.baseline_title)) == (True, 1)
    assert "keep" in shown
    assert shown.splitlines()[1] in first
    assert "keep" not in describe_leader(made, made.advised).plain


def test_the_answer_so_far_stays_while_it_is_about_as_good() -> None:
    made = built_answers.answer()
    best = advice_of(made).arm
    other = next(each.arm for each in made.ranking if each.arm != best)

    def leader(answer: Answer, before: str) -> str:
        return builders.known(choose_leader(answer, before)).arm

    words: tuple[DecisionWord, ...] = ("LIKELY", "LIKELY", "LIKELY", "OPEN", "OPEN")
    as_good = ((), (), (other,), (), ())
    before, shown = ("", other, other, other, "gone"), (best, best, other, other, best)
    for word, equals, earlier, now in zip(words, as_good, before, shown, strict=True):
        contenders = {best: 0.9, other: 0.1}
        changed = with_decision(made, word=word, as_good=equals, contenders=contenders)
        assert leader(changed, earlier) == now
    undecided = without_advice(made, MachineUnfitError("busy", "wait"))
    wide = with_measurement(undecided, other, speedup=Interval(value=1.5, low=0.1, high=90.0))
    assert leader(wide, other) == other
    assert leader(undecided, other) == undecided.ranking[0].arm


def resumed(*events: run_events.RunEvent, **changes: object) -> RunState:
    """Return a run that stopped in a race of two arms, and was resumed; then these events."""
    arms = (builders.BASELINE, "compiled")
    racing = builders.run_state(
        {arm: builders.process(outcome=None) for arm in arms},
        last_groups={1: arms, 2: arms},
        closed={1: "decided"},
    )
    racing = replace(racing, **changes)
    return fold(builders.events(run_events.Resumed(), *events), racing)


def stage_of(state: RunState, active: str | None = None) -> str:
    rows = live_table.process_rows(state, QUESTION, active)
    return live_table.current_stage(state, QUESTION, rows, is_running=True)


def test_a_resumed_race_is_timed_only_when_its_workers_are_ready_again() -> None:
    assert MEASURED not in stage_of(resumed())
    rows = live_table.process_rows(resumed(), QUESTION, None)
    assert {row.phase for row in rows} == {"queued"}
    arms = (builders.BASELINE, "compiled")
    spawned = [run_events.WorkerSpawned(arm=arm, process=1, repeat=0) for arm in arms]
    assert MEASURED not in stage_of(resumed(*spawned))
    ready = [run_events.WorkerReported(arm=arm, process=1, worker_event=Ready()) for arm in arms]
    assert MEASURED not in stage_of(resumed(*spawned, ready[0]))
    assert MEASURED in stage_of(resumed(*spawned, *ready))
    visits = [replace(ready[1], worker_event=each) for each in builders.visits([0.1, 0.1], 2, 3)]
    assert " round 4, " in stage_of(resumed(*spawned, *ready, *visits))


def test_after_the_races_the_stage_names_what_is_repeated() -> None:
    raced = {1: ("compiled",), 2: ("compiled",)}
    done = builders.run_state({"compiled": builders.process()}, last_groups=raced, closed=ENDS)
    done = replace(done, plan=builders.plan("compiled"), finished=False)
    building = builders.process(ready=False, outcome=None, phase="build")
    processes = {**done.processes, "compiled": (building,)}
    assert stage_of(replace(done, processes=processes)).startswith("Compiling, 0 of ")
    skipped = builders.process(ready=False, outcome=Outcome(SKIPPED))
    failed = replace(done, processes={**processes, builders.BASELINE: (skipped,)})
    assert "0 of 2 " in stage_of(failed), "a process that has failed is not ready"
    twin = builders.arm("compiled", id="compiled#duplicate", duplicate_of="compiled")
    plan = replace(done.plan, arms=(*done.plan.arms, twin))
    repeated = replace(done, plan=plan, repeats={1: ("compiled", twin.id)})
    assert stage_of(repeated).endswith(" 1 in fresh processes: compiled")
    again = tuple(builders.process(repeat=each, outcome=Outcome()) for each in (0, 1))
    over = {"compiled": again, "compiled#duplicate": again}
    assert stage_of(replace(repeated, processes=over)) == stage_of(done)


def test_after_the_races_the_stage_is_what_the_active_worker_does() -> None:
    raced = builders.run_state({}, last_groups={1: ("compiled",), 2: ("compiled",)}, closed=ENDS)
    raced = replace(raced, plan=builders.plan("compiled"), finished=False)
    stages = set()
    for phase in ("measure", "sustain", "diagnose", "new-shapes", "done"):
        worker = replace(builders.process(*builders.visits([0.1])), outcome=None, phase=phase)
        state = replace(raced, processes={"compiled": (worker,)})
        stage = stage_of(state, "compiled")
        assert ("final outputs" in stage) == (phase == "done")
        stages.add(stage)
        assert live_table.process_rows(state, QUESTION, None)[-1].phase == "measured", "it waits"
    assert len(stages) == 5
    assert "final outputs" not in stage_of(raced)


def test_no_time_counts_and_no_stage_is_named_while_a_run_waits_for_quiet() -> None:
    state = builders.run_state({}, last_groups={}, closed={})
    activity = MachineActivity(
        seconds=1.0, usable_processors=2, idle_processors=0.0, stolen_share=0.0
    )
    busy: tuple[QuietProblem, ...] = ("cpu-busy",)
    cases = ((0.0, busy, None), (30.0, busy, None), (60.0, busy, 70.0), (30.0, (), 40.0))
    for waited, problems, left in cases:
        check = QuietCheck(
            activity=activity, problems=problems, waited_seconds=waited, allowed_seconds=60.0
        )
        waiting = replace(state, quiet_check=check, finished=False)
        assert live_table.remaining_seconds(waiting, LIMITED, 90.0) == left
        assert ("quiet" in stage_of(waiting)) == (left is None)
        told = live_table.describe_wait(waiting, waiting.at + 20.0)
        is_told = f"in 00:{40 - waited:02.0f} at the latest; x cancels" in told
        assert is_told == (left is None)


def test_an_event_file_read_in_pieces_gives_the_same_state(made_run: Run) -> None:
    file = made_run.directory / "events.jsonl"
    whole, expected = file.read_bytes(), fold(made_run.events())
    file.write_bytes(b"")
    followed = FollowedRun(made_run)
    for end in range(0, len(whole) + 97, 97):
        file.write_bytes(whole[:end])
        followed.refresh()
    assert followed.state == expected


def test_programs_that_open_a_run_at_different_times_show_one_clock(made_run: Run) -> None:
    file = made_run.directory / "events.jsonl"
    file.write_bytes(b"".join(file.read_bytes().splitlines(keepends=True)[:-1]))
    first = FollowedRun(made_run)
    first.refresh()
    with made_run.writer():
        age = 30.0
        os.utime(file, (time.time() - age,) * 2)
        second = FollowedRun(made_run)
        second.refresh()
        assert second.now() == pytest.approx(second.state.at + age, abs=5)
        made_run.control.set_paused(paused=True)
        assert second.now() == second.state.at, "it stands still in a paused run"
    assert second.now() == first.now() == first.state.at, "it stands still in a stopped run"


def test_the_answer_so_far_is_that_of_a_run_that_stops_now(
    made_run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluated: list[object] = []
    monkeypatch.setattr(followed_run, "answer_from_state", lambda *run: evaluated.append(run))
    followed = FollowedRun(made_run)
    followed.refresh()
    builders.known(followed.ranking_job(0.0))()
    assert evaluated == [(followed.header, followed.state)]


def test_a_pause_stops_the_clock() -> None:
    now, states = [10.0], list[bool]()

    def set_paused(*, paused: bool) -> None:
        states.append(paused)
        if paused:
            now[0] += 5
            gate.open()

    gate = Gate(lambda: now[0], set_paused)
    gate.pass_through()
    assert gate.clock() == 10
    gate.close()
    gate.pass_through()
    assert states == [True, False]
    assert gate.clock() == 10


def test_a_run_pauses_only_between_sections() -> None:
    ended = run_events.WorkerEnded(arm="quick", process=0, outcome=Outcome())
    building = run_events.WorkerReported(
        arm="quick", process=0, worker_event=PhaseStarted(phase="build", shape=Shape(1))
    )
    assert [execute_runner._is_between_sections(each) for each in (ended, building)] == [
        True,
        False,
    ]


def test_an_arm_is_skipped_before_its_worker_starts_and_not_after_it_has_ended(
    tui_context: Context, fake_runner: StartRunner
) -> None:
    run = sessions.create_run(tui_context, sessions.short_options("quick"))
    run.control.send("cancel")  # to an earlier process
    followed = FollowedRun(run, fake_runner(run, 0.5))
    followed.refresh()
    assert followed.why_not_skipped("quick") == ""
    followed.skip("quick")
    while not followed.is_finished:
        assert followed.is_running
        time.sleep(0.1)
        followed.refresh()
    failure = sessions.expect_failure(followed.state.processes["quick"][0].outcome, "skipped")
    assert failure.skip_cause == "user"
    assert builders.known(followed.state.quiet_check).allowed_seconds == 0.5


def test_a_detached_run_continues_to_its_end(
    tui_context: Context, fake_runner: StartRunner
) -> None:
    run = sessions.create_run(tui_context, sessions.short_options("quick"))
    runner = fake_runner(run, None)
    followed = FollowedRun(run, runner)
    while not followed.state.last_groups:
        time.sleep(0.01)
        followed.refresh()
    followed.toggle_pause()
    while not followed.is_paused:
        time.sleep(0.01)
    followed.toggle_pause()
    runner.detach()
    workers.wait_until(lambda: run.state().finished and not run.is_active(), 60)
    followed = FollowedRun(run)
    followed.refresh()
    assert followed.is_finished
    assert not runner.is_running or runner._process.wait(10) == 0
