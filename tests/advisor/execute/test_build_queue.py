"""Which arm is built next, which are early, and which are not built."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import builders
import pytest
import simulation
from builders import BASELINE, replace

from advisor.domain.plan import Arm
from advisor.domain.run_events import RaceOpened, WorkerSpawned
from advisor.execute import build_rules, remaining
from advisor.execute.build_queue import BuildQueue, arms_to_import, early_arms, order_builds
from advisor.probing.worker_process import BuildLimit
from probes.shape import Shape

DUPLICATE = builders.plan().arms[1]


def expecting(name: str, seconds: float | None, **changes: Any) -> Arm:
    return builders.arm(name, expected_build_seconds=seconds, **changes)


SKIPPING = replace(builders.question().budget, skips_losing_arms=True)


def queue_of(
    arms: Sequence[Arm],
    builds_at_once: int,
    *,
    starts_at_once: bool = False,
    building: Iterable[str] = (),
    **asked: Any,
) -> BuildQueue:
    active = simulation.active_of(
        simulation.StillSession(building),
        simulation.new_recorder([each.id for each in arms]),
        builders.question(**asked),
        builds_at_once=builds_at_once,
    )
    return BuildQueue(active, list(arms), builds_at_once, [], starts_at_once=starts_at_once)


def busy_queue(arms: Sequence[Arm], **asked: Any) -> BuildQueue:
    """Return a queue whose arms are built as soon as they are chosen."""
    building = [each.id for each in arms]
    return queue_of(arms, 4, starts_at_once=True, building=building, budget=SKIPPING, **asked)


def chosen(queue: BuildQueue, running: int) -> str | None:
    build = queue.choose(running)
    return build.planned.id if build else None


@pytest.mark.parametrize("starts_at_once", [False, True])
def test_builds_wait_for_the_memory_of_the_baseline_or_start_at_once(
    *, starts_at_once: bool
) -> None:
    queue = queue_of([expecting("other", 10.0)], builds_at_once=3, starts_at_once=starts_at_once)
    queue.active.recorder.record(WorkerSpawned(arm=BASELINE, process=0))
    assert chosen(queue, 0) == ("other" if starts_at_once else None)


def test_no_other_arm_is_built_while_one_that_builds_alone_is() -> None:
    engine = expecting("engine", 50.0, builds_alone=True)
    queue = queue_of([expecting("other", 10.0), engine], builds_at_once=3, building=["engine"])
    assert [chosen(queue, running) for running in (0, 1, 0)] == ["other", None, "engine"]
    # The queue after a race finds it suspended.
    later = BuildQueue(queue.active, [expecting("last", 5.0)], 3, [engine], starts_at_once=True)
    assert [chosen(later, running) for running in (1, 0)] == [None, "last"]


def order_of(arms: Sequence[Arm]) -> list[str]:
    active = queue_of([each for each in arms if each != DUPLICATE], 1).active
    return [each.id for each in order_builds(arms, active)]


def test_what_brought_most_for_its_seconds_is_built_between_controls_and_engines() -> None:
    arms = [
        expecting("engine", 1.0, possible_points=9.0, builds_alone=True),
        builders.arm("unknown"),
        expecting("slow", 60.0, possible_points=4.0),
        # Both builds are quicker than an import.
        expecting("instant", 0.1, possible_points=3.0),
        expecting("graph", 1.0, possible_points=4.0),
        expecting("slowdown", 10.0, possible_points=-0.5),
        expecting("quick", 20.0, possible_points=4.0),
        DUPLICATE,
    ]
    order = [DUPLICATE.id, "graph", "instant", "quick", "slow", "slowdown", "unknown", "engine"]
    assert order_of(arms) == order


@pytest.mark.parametrize(("finder", "arm"), [("waiting_arms", "one"), ("oom_beside_others", "two")])
def test_builds_for_a_later_race_follow_those_that_ran_out_of_memory(
    monkeypatch: pytest.MonkeyPatch, finder: str, arm: str
) -> None:
    monkeypatch.setattr(remaining, finder, lambda *_: {arm})
    arms = [expecting("one", 5.0, possible_points=4.0), expecting("two", 5.0, possible_points=2.0)]
    assert order_of(arms) == ["two", "one"]


def test_a_build_that_is_expected_to_exceed_its_limit_is_the_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    limit = BuildLimit(20.0, "", "", "")
    monkeypatch.setattr(build_rules, "payback_limit", lambda *_: limit)
    arms = [expecting("long", 50.0, possible_points=99), expecting("short", 5.0, builds_alone=True)]
    assert order_of(arms) == ["short", "long"]


def test_a_build_that_cannot_end_in_time_is_not_started() -> None:
    queue = queue_of([expecting("long", 30.0), expecting("short", 5.0)], builds_at_once=2)
    queue.active.recorder.record(RaceOpened(shape=Shape(1), arms=(BASELINE,)))
    queue.active = replace(queue.active, time=queue.active.time._replace(seconds=20.0))
    assert chosen(queue, 0) == "short"
    ((planned, failure),) = queue.skipped
    assert (planned.id, failure.skip_cause) == ("long", "out-of-time")


def test_an_arm_that_the_user_skips_does_not_wait_for_its_build() -> None:
    queue = queue_of([expecting("long", 30.0), expecting("short", 5.0)], builds_at_once=2)
    queue.active = replace(queue.active, to_skip={"long"})
    assert queue.drop_user_skips()
    assert not queue.drop_user_skips()
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
        expecting("compile", 20.0, possible_points=2.0),
        expecting("compile/slow", 30.0, possible_points=2.0),
        expecting("other", 30.0, possible_points=2.0),
        expecting("compile/quick", 4.0, possible_points=0.4),
        expecting("useless", 4.0, possible_points=0.0),
        expecting("unknown", None),
    ]
    queue = busy_queue(arms, **asked)
    found = [chosen(queue, 0) for _ in arms]
    expected = [each.id for each in arms] if built is None else [*built, None, None, None]
    assert found == expected
    if built is not None:
        queue.active.recorder.record(
            RaceOpened(shape=Shape(1), arms=(BASELINE, "compile", "compile/quick"))
        )
        assert [chosen(queue, 0) for _ in range(2)] == ["compile/slow", None]


@pytest.mark.parametrize(("processors", "second"), [(10, "compile/slow"), (9, None)])
def test_no_arm_waits_where_processors_are_free(processors: int, second: str | None) -> None:
    arms = [
        expecting("graph", 1.0, possible_points=1.0),
        expecting("compile", 20.0, possible_points=2.0),
        expecting("compile/slow", 30.0, possible_points=2.0),
        expecting("useless", 30.0, possible_points=0.0),
    ]
    queue = busy_queue(arms)
    header = queue.active.header
    cpu = replace(header.machine.cpu, usable_processors=processors)
    header = replace(header, machine=replace(header.machine, cpu=cpu))
    queue.active = replace(queue.active, header=header)
    assert [chosen(queue, 0) for _ in arms] == ["graph", "compile", second, None]


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
        expecting("compile", 20.0, possible_points=2.0),
        replace(expecting("compile/images", 30.0), possible_points=1.5, called_for=called_for),
    ]
    queue = queue_of([], 4, starts_at_once=True, building=running, budget=SKIPPING)
    queue.waiting = order_builds(arms, queue.active)
    first = "compile/images" if called_for else "compile"
    assert [chosen(queue, 0) for _ in arms] == [first, second]


def test_one_arm_of_each_workflow_precedes_the_other_arms_of_others() -> None:
    promising = [
        expecting(name, 10.0, possible_points=speedup)
        for name, speedup in (("fast/one", 4.0), ("fast/two", 3.0), ("slow/one", 1.1))
    ]
    assert order_of(promising) == ["fast/one", "slow/one", "fast/two"]


def names_of_early(arms: Sequence[Arm], at_once: int, **asked: Any) -> list[str]:
    active = queue_of(arms, at_once, **asked).active
    return [each.id for each in early_arms(active, [*builders.plan().arms, *arms])]


def test_cheap_arms_come_first_with_the_controls_and_without_one_all() -> None:
    slow, new = expecting("slow", 40.0), expecting("new", None)
    assert names_of_early([slow, new], 2) == [BASELINE, DUPLICATE.id, "slow", "new"]
    assert names_of_early([slow, expecting("cheap", 5.0), new], 2)[2:] == ["cheap"]


def test_the_first_build_is_imported_before_the_duplicate() -> None:
    active = queue_of([expecting("cheap", 5.0)], 2).active
    arms = [*builders.plan().arms, expecting("cheap", 5.0)]
    found = arms_to_import(active, arms, early_arms(active, arms))
    assert [each.id for each in found] == [BASELINE, "cheap"]


@pytest.mark.parametrize(
    ("at_once", "early"), [(1, ["a", "c"]), (3, ["a", "c"]), (4, ["a", "a/b", "c"])]
)
def test_further_arms_of_a_workflow_come_later_where_builds_would_queue(
    at_once: int, early: list[str]
) -> None:
    arms = [expecting(arm, 5.0) for arm in ("a", "a/b", "c")]
    assert names_of_early(arms, at_once) == [BASELINE, DUPLICATE.id, *early]


def test_the_first_race_waits_for_no_arm_that_waits_for_it() -> None:
    """A quick build of a workflow is not early where a slower one promises more."""
    arms = [
        expecting("compile/dynamic", 13.0, possible_points=0.4, workflow="compile"),
        expecting("compile/graphs", 25.0, possible_points=1.4, workflow="compile"),
        expecting("graph", 1.0, possible_points=0.9),
    ]
    assert names_of_early(arms, 1, budget=SKIPPING) == [BASELINE, DUPLICATE.id, "graph"]
