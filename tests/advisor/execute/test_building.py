"""Which arms are built first, and how many at the same time."""

from __future__ import annotations

import builders
import msgspec
import pytest

from advisor.ask.planning import list_arms
from advisor.decide import rounds
from advisor.domain.constraints import Constraint
from advisor.domain.plan import Arm
from advisor.domain.run_state import Header, ProcessState
from advisor.execute import building
from probes.wire.outcome import Failure, Outcome

EARLY_SECONDS = 15.0
BASELINE = builders.arm("pytorch-eager")
DUPLICATE = msgspec.structs.replace(
    BASELINE, id="pytorch-eager#duplicate", duplicate_of=BASELINE.id
)


def expecting(name: str, seconds: float | None) -> Arm:
    return msgspec.structs.replace(builders.arm(name), expected_build_seconds=seconds)


def early_names(*arms: Arm, at_once: int = 2) -> list[str]:
    every = [BASELINE, DUPLICATE, *arms]
    return [arm.id for arm in building.early_arms(every, EARLY_SECONDS, BASELINE, at_once)]


def test_a_baseline_that_differs_from_its_reference_has_a_next_step_of_its_own() -> None:
    def fix_for(failure: Failure) -> str:
        state = builders.run_state({BASELINE.id: ProcessState(outcome=Outcome(failure))})
        return rounds.baseline_error(state, BASELINE.id).next_step

    differs = fix_for(Failure("incorrect", phase="correctness", reason="its error is too large"))
    assert differs != fix_for(Failure("incorrect", phase="done", reason="its clock differs"))
    assert differs != fix_for(Failure("build-failed", phase="correctness", reason="no kernel"))


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
    arms[1] = msgspec.structs.replace(arms[1], workflow=arms[0].workflow)
    assert early_names(*arms, at_once=at_once) == [BASELINE.id, DUPLICATE.id, *early]


@pytest.mark.parametrize(("processors", "at_once"), [(1, 1), (2, 2), (16, 8)])
def test_builds_at_once_follow_the_processors(processors: int, at_once: int) -> None:
    header = shipped_header()
    cpu = msgspec.structs.replace(header.machine.cpu, usable_processors=processors)
    machine = msgspec.structs.replace(header.machine, cpu=cpu)
    assert building.builds_at_once(msgspec.structs.replace(header, machine=machine)) == at_once


def test_arms_are_built_one_at_a_time_where_memory_is_a_constraint() -> None:
    header = shipped_header()
    limited = msgspec.structs.replace(
        header.question, constraints=(Constraint(criterion="memory", at_most=1e9),)
    )
    assert building.builds_at_once(msgspec.structs.replace(header, question=limited)) == 1


@pytest.mark.parametrize(("workflow", "builds_alone"), [("sglang", True), ("vllm", False)])
def test_an_engine_whose_cache_is_a_share_of_the_free_gpu_memory_builds_alone(
    workflow: str, builds_alone: bool
) -> None:
    engine = next(each for each in builders.shipped_catalogue().workflows if each.id == workflow)
    arms = list_arms(engine, "cuda")
    assert {arm.builds_alone for arm in arms} == {builds_alone}
