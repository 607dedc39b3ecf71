"""The advice: the arm, its runner-up, when there is none; guidelines."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import builders
import msgspec
import pytest
from built_answers import recommend_for
from golden_files import Expect
from hypothesis import given
from hypothesis import strategies as st

from advisor.decide import scoring
from advisor.decide.recommend import agrees_with, choose_guideline
from advisor.domain.answer import UnmeasuredArm
from advisor.domain.constraints import Priorities
from advisor.domain.measurement import Measurement, VisitCounts
from advisor.domain.question import Question
from advisor.domain.recommendation import Recommendation
from advisor.domain.results import Results, ScoredArm
from advisor.errors import MachineUnfitError

#: Weights of the three Ps, which sum to 100.
weights = st.tuples(st.integers(0, 100), st.integers(0, 100)).map(
    lambda cuts: builders.priorities(min(cuts), max(cuts) - min(cuts), 100 - max(cuts))
)


def advise(
    arms: Sequence[ScoredArm],
    results: Results | None = None,
    question: Question | None = None,
    excluded: Sequence[UnmeasuredArm] = (),
    *,
    while_running: bool = False,
) -> Recommendation:
    made = results or builders.results(
        *(builders.measurement(arm.arm, speedup=arm.speedup, workflow=arm.workflow) for arm in arms)
    )
    head = builders.header(question=question or builders.question())
    return recommend_for(made, arms, head, excluded=excluded, while_running=while_running)


@given(
    st.lists(st.sampled_from([0.9, 1.06, 1.07, 1.3, 1.31]), min_size=1, max_size=5),
    st.randoms(use_true_random=False),
    weights,
)
def test_the_order_of_arms_does_not_matter(
    speeds: list[float], chance: random.Random, priorities: Priorities
) -> None:
    arms = [
        builders.measurement(f"arm{place}", speedup=speedup) for place, speedup in enumerate(speeds)
    ]
    known = builders.catalogue(
        *(
            builders.workflow(arm.arm, declared=builders.declared(lines_changed=10 * place))
            for place, arm in enumerate(arms)
        )
    )
    question = builders.question(priorities=priorities)

    def whole(measurements: Sequence[Measurement]) -> Recommendation:
        results = builders.results(*measurements)
        return advise(scoring.score_arms(results, question, known), results, question)

    assert whole(chance.sample(arms, len(arms))) == whole(arms)


def two(
    speedups: tuple[float, float] = (1.5, 1.5), tier: int = 2, **changes: Any
) -> tuple[list[ScoredArm], Results]:
    """Return two arms of which the second has `tier` in Performance, with their results."""
    made = [
        builders.scored_arm("one", speedup=speedups[0]),
        builders.scored_arm("two", tiers=(tier, 2, 2, 2, 2), speedup=speedups[1]),
    ]
    measurements = [builders.measurement(arm.arm, speedup=arm.speedup) for arm in made]
    return list(scoring.rank(made)), builders.results(*measurements, **changes)


def test_the_runner_up_is_the_best_of_another_workflow() -> None:
    arms = [
        builders.scored_arm("one/default", tiers=(3, 3, 3, 3, 3)),
        builders.scored_arm("one/tuned", tiers=(3, 3, 3, 3, 2)),
        builders.scored_arm("two", tiers=(2, 2, 2, 2, 2)),
    ]
    advice = advise(scoring.rank(arms))
    assert (advice.arm, advice.workflow, advice.runner_up) == ("one/default", "one", "two")
    assert advice.margin == pytest.approx(1)
    assert advise(scoring.rank(arms[:2])).runner_up == "one/tuned"
    alone = advise(arms[:1])
    assert (alone.runner_up, alone.margin, alone.flips) == (None, None, ())


def graded(arms: list[ScoredArm]) -> list[ScoredArm]:
    """Return the arms with a grade of Performance that depends on their measured speed."""
    rating = builders.rating(3, fact="speedup", grade=2.8)
    return [
        msgspec.structs.replace(arm, ratings={**arm.ratings, "performance": rating}) for arm in arms
    ]


def test_what_could_be_installed_is_a_next_step(expect: Expect) -> None:
    others = [
        builders.unmeasured("absent", fix="uv pip install absent"),
        builders.unmeasured("impossible", status="unsupported", fix=None),
        builders.unmeasured("left-out", status="excluded", fix="by hand"),
    ]
    advice = advise([builders.scored_arm("one")], excluded=others)
    expect("next-steps-installable", advice.next_steps)


def test_a_batch_size_without_a_race_leaves_the_speeds_open(expect: Expect) -> None:
    arms, results = two((1.5, 1.2))
    advice = advise(arms, results, builders.question(batch_sizes=(1, 16, 64)))
    assert advice.trust == "D"
    expect("reasons-missing-sizes", advice.trust_reasons)


def test_while_a_run_goes_on_an_unfit_machine_has_leaders_that_more_rounds_may_settle() -> None:
    arms, results = two(
        (1.5, 1.49), noise_floor=0.9, races=(builders.race_result(noise_floor=0.9),)
    )
    arms = graded(arms)
    with pytest.raises(MachineUnfitError) as problem:
        advise(arms, results)
    assert (problem.value.name, problem.value.exit_code) == ("machine-unfit", 4)
    advice = advise(arms, results, while_running=True)
    assert advice.decision.word == "OPEN"
    assert set(advice.decision.contenders) == {"one", "two"}
    busy = msgspec.structs.replace(results, visits=VisitCounts(made=10, discarded=0, unfit=9))
    with pytest.raises(MachineUnfitError):
        advise(arms, busy, while_running=True)


SHIPPED = builders.shipped_catalogue()


@pytest.mark.parametrize(
    ("preset", "task", "device", "expected"),
    [
        ("research", "generate", "cuda", "research"),
        ("serving", "generate", "cuda", "production"),
        ("multi-vendor", "generate", "cuda", "device-portability"),
        ("serving", "forward", "cuda", "latency"),
        ("serving", "forward", "cpu", "not-on-nvidia"),
        ("balanced", "generate", "cuda", "paged-attention"),
        ("balanced", "forward", "cpu", "not-on-nvidia"),
        ("balanced", "forward", "cuda", "compile-first"),
    ],
)
def test_each_deployment_has_its_guideline(
    preset: str, task: str, device: str, expected: str
) -> None:
    asked = builders.question(
        task=task, device=device, priorities=SHIPPED.presets.priorities[preset].priorities
    )
    chosen = builders.known(choose_guideline(SHIPPED.guidelines, asked))
    assert chosen.id == expected


def test_guidelines_name_workflows_that_exist() -> None:
    workflows = {workflow.id for workflow in SHIPPED.workflows}
    assert {name for guideline in SHIPPED.guidelines for name in guideline.workflows} <= workflows


@pytest.mark.parametrize(
    ("advised", "as_good", "measured", "agrees"),
    [
        ("torch-compile-inductor/max-autotune", (), (), True),
        ("other", ("torch-compile-inductor",), ("torch-compile-inductor",), None),
        ("other", (), ("torch-compile-inductor",), False),
        ("other", (), ("another",), None),
    ],
    ids=["names the answer", "names what is as good", "names another", "names nothing measured"],
)
def test_the_measurement_agrees_with_a_guideline_or_not(
    advised: str, as_good: tuple[str, ...], measured: tuple[str, ...], *, agrees: bool | None
) -> None:
    research = next(each for each in SHIPPED.guidelines if each.id == "research")
    assert agrees_with(research, advised, as_good, measured) is agrees
