"""Which arm is built next where several are built at the same time."""

from __future__ import annotations

from collections.abc import Sequence

import builders
import msgspec
import pytest
import simulation
from builders import BASELINE

from advisor.domain.plan import Arm
from advisor.domain.run_events import WorkerSpawned
from advisor.execute.build_queue import BuildQueue, order_builds

DUPLICATE = msgspec.structs.replace(
    builders.arm("pytorch-eager"), id="pytorch-eager#duplicate", duplicate_of="pytorch-eager"
)


def expecting(name: str, seconds: float | None) -> Arm:
    return msgspec.structs.replace(builders.arm(name), expected_build_seconds=seconds)


class IdleSession:
    """A session in which no worker runs."""

    def is_running(self, arm: str) -> bool:
        del arm
        return False

    is_prepared = is_warmed_up = has_started = is_running

    def has_memory_headroom(self, running_builds: int = 0) -> bool:
        del running_builds
        return True


def queue_of(arms: Sequence[Arm], shares: int, *, starts_at_once: bool = False) -> BuildQueue:
    return BuildQueue(
        IdleSession(),  # type: ignore[arg-type]
        simulation.new_recorder([arm.id for arm in arms]),
        builders.question(),
        list(arms),
        shares=shares,
        building=[],
        starts_at_once=starts_at_once,
    )


def chosen(queue: BuildQueue, running: int) -> str | None:
    build = queue.choose(running)
    return build.arm.id if build else None


@pytest.mark.parametrize("starts_at_once", [False, True])
def test_builds_wait_for_the_memory_of_the_baseline_or_start_at_once(
    *, starts_at_once: bool
) -> None:
    queue = queue_of([expecting("other", 10.0)], shares=3, starts_at_once=starts_at_once)
    queue.recorder.record(WorkerSpawned(arm=BASELINE, process=0))
    assert chosen(queue, 0) == ("other" if starts_at_once else None)


def test_no_other_arm_is_built_while_one_that_builds_alone_is() -> None:
    engine = msgspec.structs.replace(expecting("engine", 50.0), builds_alone=True)
    other = expecting("other", 10.0)
    queue = queue_of([other, engine, expecting("last", 5.0)], shares=3)
    assert chosen(queue, 0) == "other"
    assert chosen(queue, 1) is None
    assert chosen(queue, 0) == "engine"
    assert chosen(queue, 1) is None
    assert chosen(queue, 0) == "last"


def test_arms_that_build_alone_follow_the_others() -> None:
    engine = msgspec.structs.replace(expecting("engine", 50.0), builds_alone=True)
    arms = [engine, expecting("other", 10.0), DUPLICATE]
    state = simulation.new_recorder(["engine", "other"]).state
    ordered = order_builds(arms, state, builders.question())
    assert [arm.id for arm in ordered] == [DUPLICATE.id, "other", "engine"]


def test_what_brought_most_for_its_seconds_is_built_first() -> None:
    promising = [
        msgspec.structs.replace(expecting(name, seconds), largest_speedup=speedup)
        for name, seconds, speedup in (
            ("slow", 60.0, 4.0),
            ("graph", 1.0, 4.0),
            ("slowdown", 10.0, 0.5),
            ("quick", 20.0, 4.0),
        )
    ]
    arms = [builders.arm("unknown"), *promising]
    state = simulation.new_recorder([arm.id for arm in arms]).state
    ordered = [arm.id for arm in order_builds(arms, state, builders.question())]
    assert ordered == ["graph", "quick", "slow", "slowdown", "unknown"]


def test_a_build_that_cannot_end_in_time_is_not_started() -> None:
    queue = queue_of([expecting("long", 30.0), expecting("short", 5.0)], shares=2)
    queue.seconds_left = lambda: 20.0
    assert chosen(queue, 0) == "short"
    ((arm, failure),) = queue.skipped
    assert (arm.id, failure.skip_cause) == ("long", "out-of-time")


def test_the_expected_time_is_that_of_all_builds_side_by_side() -> None:
    arms = [expecting("long", 30.0), expecting("one", 10.0), expecting("two", 8.0)]
    queue = queue_of(arms, shares=2)
    found = [queue.choose(0) for _ in arms]
    assert [each.expected_seconds_left for each in found if each] == [30.0, 10.0, 8.0]


def test_one_arm_of_each_workflow_precedes_the_variants_of_others() -> None:
    promising = [
        msgspec.structs.replace(expecting(name, 10.0), largest_speedup=speedup)
        for name, speedup in (("fast/one", 4.0), ("fast/two", 3.0), ("slow/one", 1.1))
    ]
    state = simulation.new_recorder([arm.id for arm in promising]).state
    ordered = [arm.id for arm in order_builds(promising, state, builders.question())]
    assert ordered == ["fast/one", "slow/one", "fast/two"]
