"""Which arms are still to build: what is expected of them, and arms that models call for."""

from __future__ import annotations

import pathlib

import builders
import pytest
from builders import BASELINE, replace
from simulation import SimulatedSession, progress_of

from advisor.domain.catalogue import EarlierRuns
from advisor.domain.constraints import Priorities
from advisor.domain.plan import REFERENCE
from advisor.domain.run_state import Header
from advisor.domain.workflow import DeclaredArm
from advisor.execute import remaining
from advisor.execute.remaining import with_expected_builds
from advisor.store.runs import Run
from advisor.store.store import Store

FIGURES = {
    arm: EarlierRuns(build_seconds=seconds, largest_speedup=2.0)
    for arm, seconds in (("pytorch-eager", 0.1), ("compiled", 20.0), ("compiled/short", 10.0))
}
WITH_FIGURES = builders.header(
    catalogue=builders.catalogue(builders.workflow("compiled"), earlier_runs={"cpu": FIGURES})
)


def expected(store: Store, header: Header, *arms: str) -> dict[str, float | None]:
    found = with_expected_builds(builders.plan(*arms).arms, header, store)
    return {each.id: each.expected_build_seconds for each in found}


def test_figures_of_the_catalogue_are_used_without_a_stored_run(tmp_path: pathlib.Path) -> None:
    found = expected(Store(tmp_path), WITH_FIGURES, "compiled", "compiled/other", "unknown")
    assert found == {
        "pytorch-eager": 0.1,
        "pytorch-eager#duplicate": 0.1,
        "compiled": 20.0,
        "compiled/other": 15.0,
        "unknown": None,
    }


def test_a_stored_run_of_the_same_question_comes_first(home: pathlib.Path, made_run: Run) -> None:
    header = replace(made_run.header(), run_id="20991231-000000-0000")
    (built,) = made_run.state().processes["compiled"][0].built.values()
    total = built.build_seconds + built.first_call_seconds
    found = expected(Store(home), header, "compiled", "broken")
    assert (found["compiled"], found["broken"]) == (round(total, 1), None), "it was not built"


def test_an_arm_without_figures_may_gain_as_much_as_its_workflow(tmp_path: pathlib.Path) -> None:
    plan = builders.plan("compiled", "compiled/other", "unknown")
    found = with_expected_builds(plan.arms, WITH_FIGURES, Store(tmp_path))
    gains = {each.id: each.possible_gain for each in found if each.workflow != BASELINE}
    assert builders.known(gains["compiled"]) > 0
    assert gains == {
        "compiled": gains["compiled"],
        "compiled/other": gains["compiled"],
        "unknown": None,
    }


def possible_gain(arm: str, tmp_path: pathlib.Path, **priorities: float) -> float:
    header = builders.header(
        catalogue=builders.shipped_catalogue(),
        question=builders.question(priorities=Priorities(**priorities)),
    )
    (found,) = with_expected_builds(
        [each for each in builders.plan(arm).arms if each.id == arm], header, Store(tmp_path)
    )
    return builders.known(found.possible_gain)


def test_what_an_arm_may_gain_depends_on_the_weights(tmp_path: pathlib.Path) -> None:
    """AOTInductor was at most faster than `torch.compile`, but needs an export."""
    by_speed = {"performance": 100.0, "productivity": 0.0, "portability": 0.0}
    by_effort = {"performance": 50.0, "productivity": 50.0, "portability": 0.0}
    first, other = "aotinductor", "torch-compile-inductor"
    assert possible_gain(first, tmp_path, **by_speed) > possible_gain(other, tmp_path, **by_speed)
    assert possible_gain(first, tmp_path, **by_effort) < possible_gain(other, tmp_path, **by_effort)


@pytest.mark.parametrize(
    ("layers", "named", "added"),
    [
        (1, (), []),
        (2, (), ["images/channels-last"]),
        (2, ("images",), ["images/channels-last"]),
        (2, ("others",), []),
    ],
)
def test_arms_for_convolutions_are_added_if_the_model_has_several(
    layers: int, named: tuple[str, ...], added: list[str]
) -> None:
    images = builders.workflow(
        "images",
        arms={
            "default": DeclaredArm(),
            "channels-last": DeclaredArm(called_for="convolutions"),
            "text": DeclaredArm(called_for="convolutions", tasks=("generate",)),
        },
    )
    figures = {"cpu": {"images/channels-last": EarlierRuns(build_seconds=7.0)}}
    header = builders.header(
        question=builders.question(workflows=named),
        catalogue=builders.catalogue(images, earlier_runs=figures),
    )
    process = builders.process()
    opened = builders.replace(builders.known(process.opened), convolutions=layers)
    reference = builders.replace(process, opened=opened)
    state = builders.run_state({"images": process, REFERENCE: reference})
    session = SimulatedSession({BASELINE: 0.0})
    progress = progress_of(session, state, header.question, header=header)
    found = remaining.arms_to_add(progress)
    arms = [planned for each in found for planned in each.added]
    assert [each.id for each in arms] == added
    assert [each.expected_build_seconds for each in arms] == [7.0] * len(added)
    for each in found:
        progress.recorder.record(each)
    assert remaining.arms_to_add(progress) == []
