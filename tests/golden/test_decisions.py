"""Decisions over kept and constructed figures that an experienced engineer would agree with."""

from __future__ import annotations

import pathlib
from typing import Literal

import builders
import built_answers
import built_measurements
import msgspec
import pytest
from kept.runs import read_run

from advisor.ask.option_values import parse_constraints, parse_priorities
from advisor.decide.answers import answer_from_results
from advisor.domain.answer import AdvisedAnswer
from advisor.domain.catalogue import Catalogue
from advisor.domain.measurement import BuildSeconds, Measurement
from advisor.domain.recommendation import DecisionWord

HERE = pathlib.Path(__file__).parent


class Case(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One table of `decisions.toml`."""

    name: str
    reason: str
    acceptable: tuple[str, ...]
    preset: str = "balanced"
    #: Weights that replace the preset.
    priority: str = ""
    document: str = ""
    device: Literal["cpu", "cuda"] = "cpu"
    task: Literal["forward", "generate"] = "forward"
    speedups: dict[str, tuple[float, ...]] = {}
    builds: dict[str, float] = {}
    spread: float = 0.02
    noise_floor: float = 0.005
    require: str = ""
    decision: DecisionWord | None = None


CASES = msgspec.toml.decode((HERE / "decisions.toml").read_bytes(), type=dict[str, list[Case]])[
    "case"
]


def measurement_of(case: Case, arm: str, known: Catalogue) -> Measurement:
    """Return an arm with the speed-ups and the build of the case."""
    workflow, _, option = arm.partition("/")
    assert (option or "default") in next(w for w in known.workflows if w.id == workflow).arms
    spread = 0.0 if arm == builders.BASELINE else case.spread
    speedups, seconds = case.speedups[arm], case.builds.get(arm, 3.0)
    return built_measurements.measured(
        arm,
        *speedups,
        spread=spread,
        build_seconds=BuildSeconds(cold=seconds * len(speedups), warm=None, worst=seconds),
    )


def decide_case(case: Case) -> AdvisedAnswer:
    known = builders.shipped_catalogue()
    weights = (
        parse_priorities(case.priority)
        if case.priority
        else known.presets.priorities[case.preset].priorities
    )
    if case.document:
        kept = answer_from_results(read_run(case.document), known, priorities=weights)
        return built_answers.advised(kept)
    known = known.for_question(builders.question(device=case.device, task=case.task))
    arms = [measurement_of(case, arm, known) for arm in case.speedups]
    sizes = tuple(cell.shape.batch_size for cell in arms[0].cells)
    results = built_measurements.raced(*arms, noise_floor=case.noise_floor)
    asked = builders.question(
        device=case.device,
        task=case.task,
        priorities=weights,
        constraints=parse_constraints(case.require),
        batch_sizes=sizes,
    )
    head = builders.header(question=asked, catalogue=known)
    return built_answers.advised(built_answers.answer_of(results, head))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_decision_is_one_that_an_engineer_would_make(case: Case) -> None:
    found = decide_case(case)
    assert found.advice.arm in case.acceptable, case.reason
    assert case.decision in {None, found.decision.word}


def test_portability_alone_tells_the_kinds_of_workflows_apart() -> None:
    case = next(each for each in CASES if each.name == "portability alone")
    scores = {each.arm: each.score for each in decide_case(case).answer.scores}
    ranked = sorted(scores, key=scores.__getitem__, reverse=True)
    assert ranked == [
        "onnxruntime-cuda/host",
        "pytorch-eager",
        "torch-compile-inductor",
        "onnxruntime-cuda/io-binding",
    ]
    assert len(set(scores.values())) == len(scores)
