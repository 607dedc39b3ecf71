"""Which arms are built first, how many at once, and what they wait for."""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Any

import builders
import pytest
from builders import replace
from simulation import SimulatedSession, new_recorder, progress_of

from advisor.domain.constraints import Constraint
from advisor.domain.plan import REFERENCE, Arm
from advisor.domain.run_events import RunEvent
from advisor.domain.run_state import Header
from advisor.execute import building

BASELINE, DUPLICATE = builders.plan().arms
EARLY_SECONDS = 15.0


@pytest.mark.parametrize(
    ("device", "awaited", "seconds"), [("cpu", None, 75.0), ("cuda", {REFERENCE}, 25.0)]
)
def test_on_a_gpu_builds_wait_for_the_import_of_the_reference_alone_which_has_less_time(
    device: str, awaited: object, seconds: float
) -> None:
    found: list[object] = []

    def start(*_: object, awaited: object, **__: object) -> Iterator[RunEvent]:
        found.append(awaited)
        yield from ()

    def start_reference(_: Arm, __: int, seconds: float, **___: object) -> Iterator[RunEvent]:
        found.append(seconds)
        yield from ()

    session = types.SimpleNamespace(
        start=start,
        start_reference=start_reference,
        is_running=lambda arm: arm == REFERENCE,
        has_started=lambda _: True,
        check_memory=lambda: (),
        send_and_wait=lambda *_: (),
        create_models=lambda: (),
        machine=types.SimpleNamespace(clock=lambda: 0.0),
    )
    progress = progress_of(
        session,
        builders.run_state({}),
        builders.question(device=device),
        builds_at_once=2,
        seconds=100.0,
    )
    assert list(building._prepare(progress, [BASELINE, builders.arm("slow-import")])) == []
    assert found == [seconds, awaited]


def expecting(name: str, seconds: float | None, **changes: Any) -> Arm:
    return builders.arm(name, expected_build_seconds=seconds, **changes)


def early_names(*arms: Arm, at_once: int = 2) -> list[str]:
    every = [BASELINE, DUPLICATE, *arms]
    return [each.id for each in building.early_arms(every, EARLY_SECONDS, BASELINE, at_once)]


def shipped_header() -> Header:
    return builders.header(catalogue=builders.shipped_catalogue())


def test_cheap_arms_come_first_with_the_controls() -> None:
    found = early_names(expecting("slow", 40.0), expecting("cheap", 5.0), expecting("new", None))
    assert found == [BASELINE.id, DUPLICATE.id, "cheap"]


def test_all_arms_come_at_once_without_a_cheap_one() -> None:
    arms = [expecting("slow", 40.0), expecting("new", None)]
    assert early_names(*arms) == [BASELINE.id, DUPLICATE.id, "slow", "new"]


@pytest.mark.parametrize(
    ("at_once", "early"), [(1, ["a", "c"]), (3, ["a", "c"]), (4, ["a", "b", "c"])]
)
def test_further_arms_of_a_workflow_come_later_where_builds_would_queue(
    at_once: int, early: list[str]
) -> None:
    arms = [expecting(name, 5.0) for name in "abc"]
    arms[1] = replace(arms[1], workflow=arms[0].workflow)
    assert early_names(*arms, at_once=at_once) == [BASELINE.id, DUPLICATE.id, *early]


def test_the_first_race_waits_for_no_arm_that_waits_for_it() -> None:
    """A quick build of a workflow is not early where a slower one promises more."""
    arms = [
        BASELINE,
        DUPLICATE,
        expecting("compile/dynamic", 13.0, possible_gain=0.4, workflow="compile"),
        expecting("compile/graphs", 25.0, possible_gain=1.4, workflow="compile"),
        expecting("graph", 1.0, possible_gain=0.9),
    ]
    skipping = replace(builders.question().budget, skips_losing_arms=True)
    question = builders.question(budget=skipping)
    recorder = new_recorder([each.id for each in arms[2:]])
    header = replace(shipped_header(), question=question)
    session = SimulatedSession({BASELINE.id: 0.0})
    progress = progress_of(session, recorder, question, header=header)
    found = building._arms_that_race_first(progress, arms)
    assert [each.id for each in found] == [BASELINE.id, DUPLICATE.id, "graph"]


@pytest.mark.parametrize(("processors", "at_once"), [(1, 1), (2, 2), (16, 8)])
def test_builds_at_once_follow_the_processors(processors: int, at_once: int) -> None:
    header = shipped_header()
    cpu = replace(header.machine.cpu, usable_processors=processors)
    machine = replace(header.machine, cpu=cpu)
    assert building.builds_at_once(replace(header, machine=machine)) == at_once


def test_arms_are_built_one_at_a_time_where_memory_is_a_constraint() -> None:
    header = shipped_header()
    limited = replace(header.question, constraints=(Constraint("memory", "<=", 1e9),))
    assert building.builds_at_once(replace(header, question=limited)) == 1
