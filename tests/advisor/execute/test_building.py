"""How many arms are built at once, and what they wait for."""

from __future__ import annotations

import types
from collections.abc import Iterator

import builders
import pytest
from builders import replace
from simulation import active_of

from advisor.domain.constraints import Constraint
from advisor.domain.plan import REFERENCE, Arm
from advisor.domain.run_events import RunEvent
from advisor.execute import building
from probes.outcome import Failure, Outcome

BASELINE, DUPLICATE = builders.plan().arms


@pytest.mark.parametrize(
    ("device", "awaited", "seconds"), [("cpu", None, 50.0), ("cuda", {REFERENCE}, 25.0)]
)
def test_on_a_gpu_builds_wait_only_for_the_references_import_which_has_less_time(
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
        pool=types.SimpleNamespace(
            is_running=lambda arm: arm == REFERENCE,
            has_started=lambda _: True,
            send_and_wait=lambda *_: (),
        ),
        check_memory=lambda: (),
        create_models=lambda: (),
        stop_compiling=lambda: None,
        machine=types.SimpleNamespace(clock=lambda: 0.0),
    )
    question = builders.question(device=device)
    active = active_of(session, builders.run_state({}), question, seconds=100.0, builds_at_once=2)
    assert list(building._prepare(active, [BASELINE, builders.arm("slow-import")])) == []
    assert found == [seconds, awaited]


@pytest.mark.parametrize(("now", "limits"), [(86.0, [9.0]), (96.0, [])])
def test_the_second_reference_ends_with_the_run(now: float, limits: list[float]) -> None:
    found: list[float] = []

    def start_reference(_: Arm, __: int, seconds: float, **___: object) -> Iterator[RunEvent]:
        found.append(seconds)
        yield from ()

    session = types.SimpleNamespace(
        start_reference=start_reference, machine=types.SimpleNamespace(clock=lambda: now)
    )
    slow = builders.process(outcome=Outcome(Failure("timed-out", phase="correctness", reason="r")))
    state = builders.run_state({REFERENCE: slow})
    active = active_of(session, state, builders.question(), seconds=100.0)
    if building._needs_quick_reference(active):
        list(building._start_reference(active))
    assert found == limits


MEMORY = Constraint("memory", "<=", 1e9)


@pytest.mark.parametrize(
    ("processors", "constraints", "at_once"),
    [(1, (), 1), (2, (), 2), (16, (), 8), (16, (MEMORY,), 1)],
)
def test_builds_at_once_follow_the_processors_unless_memory_is_a_constraint(
    processors: int, constraints: tuple[Constraint, ...], at_once: int
) -> None:
    question = builders.question(constraints=constraints)
    header = builders.header(question=question, catalogue=builders.shipped_catalogue())
    cpu = replace(header.machine.cpu, usable_processors=processors)
    header = replace(header, machine=replace(header.machine, cpu=cpu))
    assert building.builds_at_once(header) == at_once
