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
from advisor.domain.question import Question
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
    question = builders.question(device=device)
    asked: Any = {"builds_at_once": 2, "seconds": 100.0}
    progress = progress_of(session, builders.run_state({}), question, **asked)
    assert list(building._prepare(progress, [BASELINE, builders.arm("slow-import")])) == []
    assert found == [seconds, awaited]


def expecting(name: str, seconds: float | None, **changes: Any) -> Arm:
    return builders.arm(name, expected_build_seconds=seconds, **changes)


def early_names(*arms: Arm, at_once: int = 2) -> list[str]:
    every = [BASELINE, DUPLICATE, *arms]
    return [each.id for each in building.early_arms(every, EARLY_SECONDS, BASELINE, at_once)]


def header_of(question: Question, processors: int) -> Header:
    header = builders.header(catalogue=builders.shipped_catalogue())
    cpu = replace(header.machine.cpu, usable_processors=processors)
    return replace(header, question=question, machine=replace(header.machine, cpu=cpu))


def test_cheap_arms_come_first_with_the_controls_and_without_one_all() -> None:
    slow, new = expecting("slow", 40.0), expecting("new", None)
    assert early_names(slow, new) == [BASELINE.id, DUPLICATE.id, "slow", "new"]
    assert early_names(slow, expecting("cheap", 5.0), new) == [BASELINE.id, DUPLICATE.id, "cheap"]


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
    header = header_of(question, processors=2)
    session = SimulatedSession({BASELINE.id: 0.0})
    progress = progress_of(session, recorder, question, header=header)
    found = building._arms_that_race_first(progress, arms)
    assert [each.id for each in found] == [BASELINE.id, DUPLICATE.id, "graph"]


MEMORY = Constraint("memory", "<=", 1e9)


@pytest.mark.parametrize(
    ("processors", "constraints", "at_once"),
    [(1, (), 1), (2, (), 2), (16, (), 8), (16, (MEMORY,), 1)],
)
def test_builds_at_once_follow_the_processors_unless_memory_is_a_constraint(
    processors: int, constraints: tuple[Constraint, ...], at_once: int
) -> None:
    question = builders.question(constraints=constraints)
    assert building.builds_at_once(header_of(question, processors)) == at_once
