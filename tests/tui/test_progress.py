"""The estimate of the remaining time of a run."""

from __future__ import annotations

import builders
import msgspec
import pytest

from advisor.domain.plan import Plan
from advisor.domain.run_state import RunState
from advisor.domain.worker_events import Built
from advisor.tui.run.progress import progress_rows
from advisor.tui.run.remaining_time import remaining_seconds

QUESTION = builders.question(batch_sizes=(1, 2))
MEASURING = QUESTION.budget.measuring_seconds


def state_with(expected: float | None, **changes: object) -> RunState:
    """Return a run whose baseline is built and whose other arm has these expected seconds."""
    plan = builders.plan("compiled")
    arms = tuple(
        msgspec.structs.replace(arm, expected_build_seconds=expected)
        if arm.id == "compiled"
        else arm
        for arm in plan.arms
    )
    state = builders.run_state({builders.BASELINE: builders.process()})
    return msgspec.structs.replace(state, plan=Plan(arms=arms, excluded=()), **changes)


def test_the_estimate_is_the_builds_and_the_measuring_time_that_are_left() -> None:
    state = state_with(30.0, closed={})
    assert remaining_seconds(state, QUESTION, 0.0) == pytest.approx(30 + MEASURING)
    building = msgspec.structs.replace(builders.process(), ready=False, building_since=10.0)
    building = msgspec.structs.replace(building, outcome=None)
    changed = msgspec.structs.replace(state, processes={**state.processes, "compiled": (building,)})
    assert remaining_seconds(changed, QUESTION, 20.0) == pytest.approx(20 + MEASURING)
    assert remaining_seconds(changed, QUESTION, 500.0) == pytest.approx(MEASURING)


def test_builds_of_this_run_that_take_longer_make_the_estimate_longer() -> None:
    plan = builders.plan("first", "second")
    arms = tuple(
        msgspec.structs.replace(arm, expected_build_seconds=expected)
        for arm, expected in zip(plan.arms, (0.1, 0.1, 10.0, 40.0), strict=True)
    )
    times = {1: Built(batch_size=1, build_seconds=24.0, first_call_seconds=1.0)}
    built = builders.process(built=times)
    state = builders.run_state({arms[0].id: built, arms[1].id: built, "first": built})
    state = msgspec.structs.replace(state, plan=Plan(arms=arms, excluded=()), closed={})
    assert remaining_seconds(state, QUESTION, 0.0) == pytest.approx(40 * 25 / 10 + MEASURING)


def test_nothing_is_estimated_before_anything_is_known() -> None:
    state = msgspec.structs.replace(state_with(None), processes={})
    assert remaining_seconds(state, QUESTION, 0.0) is None


def test_the_second_process_of_the_baseline_has_a_name_that_explains_it() -> None:
    state = builders.run_state({builders.BASELINE: builders.process()})
    state = msgspec.structs.replace(state, plan=builders.plan("compiled"))
    names = [row.name for row in progress_rows(state, QUESTION, None)]
    assert f"{builders.BASELINE} (noise check)" in names
    assert not any("#" in name for name in names)
