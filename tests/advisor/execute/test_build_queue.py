"""Which arm is built next, and which are not built."""

from __future__ import annotations

import types
from collections.abc import Sequence
from typing import Any

import builders
import pytest
import simulation
from builders import BASELINE, replace
from built_answers import with_decision, with_question, with_results
from kept.runs import NAMES, decide_run, read_run

from advisor.ask import catalogue_files
from advisor.decide.decision import decide_again
from advisor.domain.answer import Answer
from advisor.domain.plan import Arm
from advisor.domain.run_events import RaceOpened, WorkerSpawned
from advisor.domain.run_state import ProcessState
from advisor.execute import build_limits, build_queue, remaining
from advisor.execute.build_queue import BuildQueue, arms_that_cannot_lead, order_builds
from advisor.probing.worker_process import BuildLimit
from probes.shape import Shape

DUPLICATE = builders.arm(
    "pytorch-eager", id="pytorch-eager#duplicate", duplicate_of="pytorch-eager"
)


def expecting(name: str, seconds: float | None, **changes: Any) -> Arm:
    return builders.arm(name, expected_build_seconds=seconds, **changes)


class IdleSession:
    """A session in which no worker runs."""

    machine = types.SimpleNamespace(clock=lambda: 0.0)
    headroom = types.SimpleNamespace(fits_another_worker=lambda *_: True)

    def is_running(self, arm: str) -> bool:
        del arm
        return False

    is_prepared = is_built = is_warmed_up = has_started = is_running


class BusySession(IdleSession):
    """A session in which every worker builds."""

    def is_running(self, arm: str) -> bool:
        del arm
        return True


SKIPPING = replace(builders.question().budget, skips_losing_arms=True)


def queue_of(
    arms: Sequence[Arm],
    builds_at_once: int,
    *,
    starts_at_once: bool = False,
    session: Any = None,
    **asked: Any,
) -> BuildQueue:
    recorder = simulation.new_recorder([each.id for each in arms])
    session = session or IdleSession()
    question = builders.question(**asked)
    progress = simulation.progress_of(session, recorder, question)
    return BuildQueue(progress, list(arms), builds_at_once, [], starts_at_once=starts_at_once)


def chosen(queue: BuildQueue, running: int) -> str | None:
    build = queue.choose(running)
    return build.planned.id if build else None


@pytest.mark.parametrize("starts_at_once", [False, True])
def test_builds_wait_for_the_memory_of_the_baseline_or_start_at_once(
    *, starts_at_once: bool
) -> None:
    queue = queue_of([expecting("other", 10.0)], builds_at_once=3, starts_at_once=starts_at_once)
    queue.progress.recorder.record(WorkerSpawned(arm=BASELINE, process=0))
    assert chosen(queue, 0) == ("other" if starts_at_once else None)


def test_no_other_arm_is_built_while_one_that_builds_alone_is() -> None:
    engine = expecting("engine", 50.0, builds_alone=True)
    other = expecting("other", 10.0)
    queue = queue_of([other, engine, expecting("last", 5.0)], builds_at_once=3)
    assert chosen(queue, 0) == "other"
    assert chosen(queue, 1) is None
    assert chosen(queue, 0) == "engine"
    assert chosen(queue, 1) is None
    assert chosen(queue, 0) == "last"


def test_arms_that_build_alone_follow_the_others() -> None:
    arms = [expecting("engine", 50.0, builds_alone=True), expecting("other", 10.0), DUPLICATE]
    state = simulation.new_recorder(["engine", "other"]).state
    ordered = order_builds(arms, state, builders.question())
    assert [each.id for each in ordered] == [DUPLICATE.id, "other", "engine"]


def test_what_brought_most_for_its_seconds_is_built_first() -> None:
    arms = [
        builders.arm("unknown"),
        expecting("slow", 60.0, possible_gain=4.0),
        # Both builds are quicker than an import.
        expecting("instant", 0.1, possible_gain=3.0),
        expecting("graph", 1.0, possible_gain=4.0),
        expecting("slowdown", 10.0, possible_gain=-0.5),
        expecting("quick", 20.0, possible_gain=4.0),
    ]
    state = simulation.new_recorder([each.id for each in arms]).state
    ordered = [each.id for each in order_builds(arms, state, builders.question())]
    assert ordered == ["graph", "instant", "quick", "slow", "slowdown", "unknown"]


@pytest.mark.parametrize(("finder", "arm"), [("waiting_arms", "one"), ("oom_beside_others", "two")])
def test_builds_for_a_later_race_follow_those_that_ran_out_of_memory(
    monkeypatch: pytest.MonkeyPatch, finder: str, arm: str
) -> None:
    monkeypatch.setattr(remaining, finder, lambda *_: {arm})
    arms = [expecting("one", 5.0, possible_gain=4.0), expecting("two", 5.0, possible_gain=2.0)]
    state = simulation.new_recorder(["one", "two"]).state
    assert [each.id for each in order_builds(arms, state, builders.question())] == ["two", "one"]


def test_a_build_that_is_expected_to_exceed_its_limit_is_the_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    limit = BuildLimit(20.0, "", "", "")
    monkeypatch.setattr(build_limits, "limit_build", lambda *_: limit)
    arms = [expecting("long", 50.0, possible_gain=99.0), expecting("short", 5.0, builds_alone=True)]
    state = simulation.new_recorder(["long", "short"]).state
    ordered = order_builds(arms, state, builders.question())
    assert [each.id for each in ordered] == ["short", "long"]


def test_a_race_of_the_baseline_saves_no_build() -> None:
    state, gaining = simulation.new_recorder([]).state, expecting("other", 9.0, possible_gain=1.0)
    assert build_queue.may_save_builds(gaining, state)
    assert not build_queue.may_save_builds(replace(gaining, id=BASELINE), state)


def test_a_build_that_cannot_end_in_time_is_not_started(monkeypatch: pytest.MonkeyPatch) -> None:
    queue = queue_of([expecting("long", 30.0), expecting("short", 5.0)], builds_at_once=2)
    monkeypatch.setattr(build_limits, "seconds_left", lambda _: 20.0)
    assert chosen(queue, 0) == "short"
    ((planned, failure),) = queue.skipped
    assert (planned.id, failure.skip_cause) == ("long", "out-of-time")


def test_an_arm_that_the_user_skips_does_not_wait_for_its_build() -> None:
    queue = queue_of([expecting("long", 30.0), expecting("short", 5.0)], builds_at_once=2)
    queue.progress = replace(queue.progress, to_skip={"long"})
    assert queue.leave_to_user()
    assert not queue.leave_to_user()
    ((planned, failure),) = queue.skipped
    assert (planned.id, failure.skip_cause) == ("long", "user")
    assert chosen(queue, 0) == "short"


def test_the_expected_time_is_that_of_all_builds_side_by_side() -> None:
    arms = [expecting("long", 30.0), expecting("one", 10.0), expecting("two", 8.0)]
    queue = queue_of(arms, builds_at_once=2)
    found = [queue.choose(0) for _ in arms]
    assert [each.expected_seconds_left for each in found if each] == [30.0, 10.0, 8.0]


@pytest.mark.parametrize(
    ("asked", "built"),
    [({}, ["compile", "other", "compile/quick"]), ({"workflows": ("compile",)}, None)],
)
def test_a_further_arm_waits_for_the_race_of_an_arm_of_its_workflow(
    asked: dict[str, object], built: list[str] | None
) -> None:
    arms = [
        expecting("compile", 20.0, possible_gain=2.0),
        expecting("compile/slow", 30.0, possible_gain=2.0),
        expecting("other", 30.0, possible_gain=2.0),
        expecting("compile/quick", 4.0, possible_gain=0.4),
        expecting("useless", 4.0, possible_gain=0.0),
        expecting("unknown", None),
    ]
    queue = queue_of(arms, 4, starts_at_once=True, session=BusySession(), budget=SKIPPING, **asked)
    found = [chosen(queue, 0) for _ in arms]
    expected = [each.id for each in arms] if built is None else [*built, None, None, None]
    assert found == expected
    if built is not None:
        queue.progress.recorder.record(
            RaceOpened(shape=Shape(1), arms=(BASELINE, "compile", "compile/quick"))
        )
        assert [chosen(queue, 0) for _ in range(2)] == ["compile/slow", None]


@pytest.mark.parametrize(("processors", "second"), [(10, "compile/slow"), (9, None)])
def test_no_arm_waits_where_processors_are_free(processors: int, second: str | None) -> None:
    arms = [
        expecting("graph", 1.0, possible_gain=1.0),
        expecting("compile", 20.0, possible_gain=2.0),
        expecting("compile/slow", 30.0, possible_gain=2.0),
        expecting("useless", 30.0, possible_gain=0.0),
    ]
    queue = queue_of(arms, 4, starts_at_once=True, session=BusySession(), budget=SKIPPING)
    header = queue.progress.header
    cpu = replace(header.machine.cpu, usable_processors=processors)
    header = replace(header, machine=replace(header.machine, cpu=cpu))
    queue.progress = replace(queue.progress, header=header)
    assert [chosen(queue, 0) for _ in arms] == ["graph", "compile", second, None]


@pytest.mark.parametrize(("at", "second"), [(40.0, None), (60.0, "unknown")])
def test_no_arm_waits_for_a_build_that_may_hang(at: float, second: str | None) -> None:
    arms = [expecting("hangs", 20.0, possible_gain=2.0), expecting("unknown", None)]
    queue = queue_of(arms, 4, starts_at_once=True, session=BusySession(), budget=SKIPPING)
    assert chosen(queue, 0) == "hangs"
    recorder = queue.progress.recorder
    hanging = ProcessState(building_since=1.0)
    recorder.state = replace(recorder.state, processes={"hangs": (hanging,)}, at=at)
    assert chosen(queue, 1) == second


@pytest.mark.parametrize(
    ("called_for", "running", "second"),
    [
        (None, {"compile"}, None),
        ("convolutions", {"compile/images"}, None),
        ("convolutions", {"compile/images", "compile"}, "compile"),
    ],
)
def test_an_arm_that_the_model_calls_for_precedes_its_siblings(
    called_for: str | None, running: set[str], second: str | None
) -> None:
    """An arm whose worker has already imported the stack is built at the same time."""
    arms = [
        expecting("compile", 20.0, possible_gain=2.0),
        replace(expecting("compile/images", 30.0), possible_gain=1.5, called_for=called_for),
    ]
    session = IdleSession()
    session.is_running = running.__contains__  # type: ignore[assignment]
    queue = queue_of([], 4, starts_at_once=True, session=session, budget=SKIPPING)
    queue.waiting = build_queue.order_builds(arms, queue.progress.state, queue.progress.question)
    first = "compile/images" if called_for else "compile"
    assert [chosen(queue, 0) for _ in arms] == [first, second]


@pytest.mark.parametrize("is_running", [False, True])
def test_an_arm_that_promises_as_much_as_its_sibling_waits_for_it(*, is_running: bool) -> None:
    one, other = (expecting(f"compile/{name}", 20.0, possible_gain=2.0) for name in "ab")
    assert build_queue.promises_as_much(one, other, is_running=is_running)


def test_one_arm_of_each_workflow_precedes_the_other_arms_of_others() -> None:
    promising = [
        expecting(name, 10.0, possible_gain=speedup)
        for name, speedup in (("fast/one", 4.0), ("fast/two", 3.0), ("slow/one", 1.1))
    ]
    state = simulation.new_recorder([each.id for each in promising]).state
    ordered = [each.id for each in order_builds(promising, state, builders.question())]
    assert ordered == ["fast/one", "slow/one", "fast/two"]


KNOWN = catalogue_files.load()
QUICK = KNOWN.presets.budgets["quick"]


def without(answer: Answer, *arms: str) -> Answer:
    """Return the answer as it would be if these arms had not been reached."""
    kept = tuple(each for each in answer.results.measurements if each.arm not in arms)
    waiting = tuple(
        builders.unmeasured(
            arm,
            workflow=arm.partition("/")[0],
            option=arm.partition("/")[2] or "default",
            status="excluded",
        )
        for arm in arms
    )
    so_far = replace(answer, unmeasured=(*answer.unmeasured, *waiting))
    return decide_again(with_results(so_far, measurements=kept), KNOWN)


def left_out(answer: Answer, **question: object) -> set[str]:
    answer = with_question(answer, **{"budget": QUICK, "workflows": (), **question})
    return set(arms_that_cannot_lead(answer, KNOWN.for_question(answer.question)))


@pytest.mark.parametrize(
    ("run", "arm"),
    [
        ("h200-minilm-float32", "onnxruntime-cuda/io-binding"),
        ("h200-resnet-50-float32", "torch-compile-inductor"),
        ("cpu-demo", "torch-compile-inductor/max-autotune"),
    ],
)
def test_an_arm_that_would_not_have_led_is_not_built(run: str, arm: str) -> None:
    answer = without(read_run(run), arm)
    assert left_out(answer) == {arm}
    assert arm not in builders.known(answer.recommendation).decision.outstanding
    # Named workflows, `--all-arms` and a longer budget are exempt.
    assert left_out(answer, workflows=(arm,)) == set()
    assert left_out(answer, all_arms=True) == set()
    assert left_out(answer, budget=catalogue_files.load().presets.budgets["standard"]) == set()


@pytest.mark.parametrize(
    ("run", "arm"),
    [
        ("h200-minilm-float32", "torch-compile-inductor/reduce-overhead"),
        ("h100-resnet-50-bfloat16", "torch-compile-inductor/reduce-overhead-channels-last"),
        ("cpu-demo", "onnxruntime-cpu/host"),
    ],
)
def test_an_arm_that_led_or_was_much_faster_is_built(run: str, arm: str) -> None:
    assert left_out(without(read_run(run), arm)) == set()


@pytest.mark.slow
def test_where_the_advised_arm_is_left_out_another_scores_as_much() -> None:
    near, lost = catalogue_files.load().rubric.decision.near, {}
    for run in NAMES:
        answer = decide_run(run)
        advised = answer.advised
        if advised is None or advised.arm == answer.results.baseline or answer.question.load:
            continue  # A server has no build that could be left out.
        other = without(answer, advised.arm)
        if left_out(other):
            lost[run] = advised.scored.score - builders.known(other.advised).scored.score
    assert lost
    assert {run: points for run, points in lost.items() if points > near} == {}


def test_no_arm_is_left_out_while_the_decision_is_open() -> None:
    answer = without(read_run("h200-minilm-float32"), "torch-tensorrt")
    assert left_out(with_decision(answer, word="OPEN")) == set()


def test_arms_that_are_not_known_to_gain_wait_for_none_that_are_not() -> None:
    arms = [expecting("one", None), expecting("other", 10.0, possible_gain=-0.1)]
    queue = queue_of(arms, 4, starts_at_once=True, session=BusySession(), budget=SKIPPING)
    assert [chosen(queue, 0) for _ in arms] == ["one", "other"]
