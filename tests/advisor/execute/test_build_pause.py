from __future__ import annotations

import types
from collections.abc import Callable, Sequence
from typing import Any

import builders
import pytest
from builders import BASELINE, replace
from simulation import StillSession, active_of

from advisor.domain.plan import Arm, Plan
from advisor.domain.run_state import ProcessState
from advisor.execute.build_pause import BuildPause
from probes.events import Built
from probes.outcome import Phase
from probes.shape import Shape

SIZES = (1, 2, 3)
NEARLY_BUILT_SECONDS = builders.shipped_catalogue().presets.builds.nearly_built_seconds


def pause_of(
    process: ProcessState,
    clock: Callable[[], float],
    *,
    has_raced: bool,
    seconds: float,
    at: float,
    called_for: str | None = None,
    slow: Arm | None = None,
    early: Sequence[str] = ("quick", "slow"),
    **asked: Any,
) -> BuildPause:
    """Return the pauses of a run where `quick` is ready and `slow`, with `process`, is built.

    `quick` is a variant if the model calls for it. Races may last until second 70.
    """
    arms = (
        builders.arm(BASELINE),
        builders.arm("quick", called_for=called_for, possible_points=1.0),
        replace(slow or builders.arm("slow"), id="slow", expected_build_seconds=seconds),
    )
    state = builders.run_state(
        {"quick": ProcessState(), "slow": process},
        last_groups={1: (BASELINE,)} if has_raced else {},
        plan=Plan(arms=arms, excluded=()),
        at=at,
    )
    budget = replace(asked.pop("budget", builders.question().budget), race_share=70 / 78)
    question = builders.question(**{"batch_sizes": SIZES, "budget": budget, **asked})
    session = StillSession(["slow"], [BASELINE, "quick"], clock=clock)
    active = active_of(session, state, question, seconds=78.0)
    running = types.SimpleNamespace(running=["slow"])
    return BuildPause(active, running, early)  # type: ignore[arg-type]


def with_built(count: int, seconds: float = 1.0) -> dict[Shape, Built]:
    return {
        Shape(size): Built(Shape(size), build_seconds=seconds, first_call_seconds=1.0)
        for size in SIZES[:count]
    }


@pytest.mark.parametrize(
    ("sizes", "sizes_built", "has_raced", "seconds", "now", "is_due"),
    [
        (3, 1, True, 30.0, 41.0, True),
        (3, 2, True, 30.0, 41.0, False),
        # A build of one shape is not nearly built when it starts.
        (1, 0, True, 30.0, 41.0, True),
        # The first answer waits for no further shape.
        (3, 2, False, 30.0, 41.0, True),
        (3, 3, False, 30.0, 41.0, False),
        # The last shape of a long build takes too long.
        (3, 2, True, 90.0, 41.0, True),
        (3, 3, True, 90.0, 41.0, False),
        # The time for builds is over.
        (3, 1, False, 30.0, 75.0, True),
        (3, 3, False, 30.0, 75.0, False),
        (3, 3, False, 30.0, 79.0, True),
    ],
)
def test_a_race_that_is_due_waits_for_an_arm_that_is_nearly_built(
    sizes: int, sizes_built: int, has_raced: bool, seconds: float, now: float, is_due: bool
) -> None:
    clock = [0.0]
    process = ProcessState(built=with_built(sizes_built), building_since=0.0)
    asked: dict[str, Any] = {"has_raced": has_raced, "batch_sizes": SIZES[:sizes]}
    pause = pause_of(process, lambda: clock[0], seconds=seconds, at=0.0, **asked)
    assert has_raced or not pause.is_due()
    clock[0] = now
    assert pause.is_due() is is_due


@pytest.mark.parametrize(
    ("device", "phase", "spent", "built", "is_due"),
    [
        ("cuda", "build", 4.0, 0, False),  # all three shapes may be built by second 23
        ("cuda", "build", 5.0, 0, True),  # by second 25
        ("cuda", "build", 1.0, 2, False),  # the third by second 22, like the second
        ("cuda", "build", 1.0, 1, True),  # the last two by second 30
        ("cuda", "open", None, 0, False),
        ("cuda", "import", None, 0, True),
        ("cpu", "build", 4.0, 0, True),
    ],
)
def test_the_first_race_on_a_gpu_waits_for_builds_at_a_quick_pace(
    device: str, phase: Phase, spent: float | None, built: int, *, is_due: bool
) -> None:
    since = None if spent is None else 15.0 - spent
    process = ProcessState(phase=phase, building_since=since, built=with_built(built, 8.0))
    asked: dict[str, Any] = {"seconds": 60.0, "at": 15.0, "device": device, "early": ["quick"]}
    assert pause_of(process, lambda: 0.0, has_raced=False, **asked).is_due() is is_due


@pytest.mark.parametrize(
    ("workflow", "points", "copy_of", "all_arms", "built", "is_due"),
    [
        ("quick", 0.5, None, False, 2, True),
        ("quick", 0.5, None, False, 3, False),
        ("quick", 1.5, None, False, 2, False),
        ("other", 0.5, None, False, 2, False),
        ("quick", 0.5, BASELINE, False, 2, False),
        ("quick", 0.5, None, True, 2, False),
    ],
)
def test_the_first_race_waits_for_no_build_that_it_may_save(
    workflow: str, points: float, copy_of: str | None, *, all_arms: bool, built: int, is_due: bool
) -> None:
    slow = builders.arm("slow", workflow=workflow, possible_points=points, duplicate_of=copy_of)
    quick = replace(builders.question().budget, skips_losing_arms=True)
    pause = pause_of(
        ProcessState(built=with_built(built)),
        lambda: 10.0,
        has_raced=False,
        seconds=10.0,
        at=10.0,
        slow=slow,
        budget=quick,
        all_arms=all_arms,
    )
    assert pause.is_due() is is_due


def test_a_race_waits_for_a_nearly_built_arm_for_a_while() -> None:
    clock = [41.0]
    process = ProcessState(built=with_built(len(SIZES)))
    pause = pause_of(process, lambda: clock[0] - 41.0, has_raced=False, seconds=30.0, at=0.0)
    clock[0] += 41.0
    assert not pause.is_due()
    clock[0] += NEARLY_BUILT_SECONDS
    assert pause.is_due()


@pytest.mark.parametrize(
    ("called_for", "seconds", "at", "now", "later", "is_due"),
    [
        # The time of the run counts, whenever the pauses begin.
        (None, 60.0, 0.0, 6.0, 0.0, False),
        (None, 60.0, 25.0, 6.0, 0.0, True),
        ("convolutions", 15.0, 0.0, 41.0, 0.0, False),
        ("convolutions", 15.0, 0.0, 41.0, NEARLY_BUILT_SECONDS, True),
        ("convolutions", 80.0, 0.0, 41.0, 0.0, True),
        (None, 15.0, 0.0, 41.0, 0.0, True),
    ],
)
def test_the_first_race_waits_a_little_where_only_variants_are_ready(
    called_for: str | None, seconds: float, at: float, now: float, later: float, is_due: bool
) -> None:
    clock = [0.0]
    process = ProcessState(building_since=0.0)
    pause = pause_of(
        process, lambda: clock[0], has_raced=False, seconds=seconds, at=at, called_for=called_for
    )
    clock[0] = now
    assert pause.is_due() is (is_due and not later)
    clock[0] += later
    assert pause.is_due() is is_due


@pytest.mark.parametrize(
    ("since", "seconds", "is_due"), [(10.0, 90.0, True), (10.0, 30.0, False), (None, 90.0, False)]
)
def test_a_later_race_waits_only_for_builds_that_may_end_soon(
    since: float | None, seconds: float, is_due: bool
) -> None:
    process = ProcessState(building_since=since)
    pause = pause_of(process, lambda: 30.0, has_raced=True, seconds=seconds, at=30.0)
    assert pause.is_due() is is_due
