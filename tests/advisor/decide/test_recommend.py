"""The advice: the arm, its runner-up, when there is none, what it costs; guidelines; whole results.

`--update-goldens` writes the golden files again; review the difference before you commit it.
"""

from __future__ import annotations

import pathlib
import random
from collections.abc import Sequence
from typing import Any, Literal

import builders
import built_answers
import built_measurements
import msgspec
import pytest
from builders import replace
from built_answers import recommend_for
from drawn import weights
from golden_files import Expect
from hypothesis import given
from hypothesis import strategies as st
from recorded_runs import SECONDS, make_header, make_run

from advisor.decide import recommend, scoring
from advisor.decide.costs import break_even, find_break_even, first_to_serve, price
from advisor.domain import measurement
from advisor.domain.answer import RankedArm, UnmeasuredArm
from advisor.domain.constraints import Constraint, FailedConstraint, Priorities
from advisor.domain.errors import MachineUnfitError
from advisor.domain.question import Question
from advisor.domain.recommendation import Recommendation
from advisor.domain.results import Results, ScoredArm
from advisor.domain.workflow import Environment
from advisor.report.advice_lines import describe_steps, trust_reasons
from advisor.report.answer_files import answer_of_run
from advisor.store.store import Store


def advise_scored(
    arms: Sequence[ScoredArm],
    results: Results | None = None,
    question: Question | None = None,
    excluded: Sequence[UnmeasuredArm] = (),
    *,
    while_running: bool = False,
) -> Recommendation:
    made = results or builders.results(
        *(builders.measurement(each.arm, speedup=each.speedup) for each in arms)
    )
    head = builders.header(question=question or builders.question())
    return recommend_for(made, arms, head, excluded=excluded, while_running=while_running)


@given(
    st.lists(st.sampled_from([0.9, 1.06, 1.07, 1.3, 1.31]), min_size=1, max_size=5),
    st.randoms(use_true_random=False),
    weights(),
)
def test_the_order_of_arms_does_not_matter(
    speeds: list[float], chance: random.Random, priorities: Priorities
) -> None:
    arms = [
        builders.measurement(f"arm{place}", speedup=speedup) for place, speedup in enumerate(speeds)
    ]
    known = builders.catalogue(
        *(
            builders.workflow(measured.arm, declared=builders.declared(lines_changed=10 * place))
            for place, measured in enumerate(arms)
        )
    )
    question = builders.question(priorities=priorities)

    def whole(measurements: Sequence[measurement.Measurement]) -> Recommendation:
        results = builders.results(*measurements)
        return advise_scored(scoring.score_arms(results, question, known), results, question)

    assert whole(chance.sample(arms, len(arms))) == whole(arms)


def two(second: float = 1.5, **changes: Any) -> tuple[list[ScoredArm], Results]:
    """Return two arms, the second with this speed-up, and their results."""
    made = [builders.scored_arm("one"), builders.scored_arm("two", speedup=second)]
    measurements = [builders.measurement(each.arm, speedup=each.speedup) for each in made]
    return list(scoring.rank(made)), builders.results(*measurements, **changes)


def test_the_runner_up_is_the_best_of_another_workflow() -> None:
    arms = [
        builders.scored_arm("one/default", tiers=(3, 3, 3, 3, 3)),
        builders.scored_arm("one/tuned", tiers=(3, 3, 3, 3, 2)),
        builders.scored_arm("two", tiers=(2, 2, 2, 2, 2)),
    ]
    advice = advise_scored(scoring.rank(arms))
    assert (advice.arm, advice.workflow, advice.runner_up) == ("one/default", "one", "two")
    assert advice.margin == pytest.approx(1)
    assert advise_scored(scoring.rank(arms[:2])).runner_up == "one/tuned"
    alone = advise_scored(arms[:1])
    assert (alone.runner_up, alone.margin, alone.flips) == (None, None, ())


def test_during_a_run_an_unfit_machine_has_leaders_that_more_rounds_may_settle() -> None:
    arms, results = two(1.49, noise_floor=0.9, races=(builders.race_result(noise_floor=0.9),))
    rating = builders.rating(3, fact="speedup", grade=2.8)
    arms = [replace(each, ratings={**each.ratings, "performance": rating}) for each in arms]
    with pytest.raises(MachineUnfitError) as problem:
        advise_scored(arms, results)
    assert (problem.value.name, problem.value.exit_code) == ("machine-unfit", 4)
    advice = advise_scored(arms, results, while_running=True)
    assert advice.decision.word == "OPEN"
    assert set(advice.decision.contenders) == {"one", "two"}
    busy = replace(results, visits=measurement.VisitCounts(made=10, discarded=0, unfit=9))
    late = [builders.unmeasured("late", skip_cause="out-of-time")]
    head = builders.header_of(builders.workflow("late"))
    with pytest.raises(MachineUnfitError, match="not measured: Late"):
        recommend_for(busy, arms, head, excluded=late, while_running=True)


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
    assert builders.known(recommend.choose_guideline(SHIPPED.guidelines, asked)).id == expected


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
    assert recommend.agrees_with(research, advised, as_good, measured) is agrees


def timed(
    arm: str,
    seconds: dict[int, float],
    *,
    build: float = 0.0,
    warm: float | None = None,
    speedup: measurement.Interval | None = None,
    unit: Literal["tokens/s", "samples/s"] = "samples/s",
    **changes: Any,
) -> measurement.Measurement:
    """Return an arm with these times at batch sizes; the baseline takes one second by default."""
    cells = tuple(
        built_measurements.cell(
            size=size,
            seconds=measurement.CallSeconds(median=each, low=None, high=None, samples=9),
            throughput=measurement.Throughput(value=size / each, unit=unit),
            speedup=speedup or built_measurements.interval(1 / each),
        )
        for size, each in seconds.items()
    )
    built = measurement.BuildSeconds(cold=build, warm=warm)
    return builders.measurement(arm, cells=cells, build_seconds=built, **changes)


EAGER = timed("eager", {1: 1.0, 4: 1.0})


def test_a_build_is_paid_by_what_each_request_saves() -> None:
    first, second = find_break_even(timed("fast", {1: 0.5, 4: 0.5}, build=100), EAGER)
    assert (first.shape.batch_size, first.requests) == (1, 200)
    assert (second.shape.batch_size, second.requests) == (4, 800)
    bounds = measurement.Interval(value=2.0, low=1.5, high=2.5)
    (found,) = find_break_even(timed("fast", {1: 0.5}, build=90, speedup=bounds), EAGER)
    assert (found.low, found.requests, found.high) == (150, 180, 270), "by the interval"


@pytest.mark.parametrize(
    ("requests", "first"), [(100, "eager"), (201, "fast"), (10**6, "fast"), (None, None)]
)
def test_the_first_to_serve_changes_where_the_build_is_paid(
    requests: int | None, first: str | None
) -> None:
    found = first_to_serve([EAGER, timed("fast", {1: 0.5}, build=100)], requests)
    assert found == ({"1": first, "4": "eager"} if requests else {})


def test_an_arm_that_fails_a_constraint_has_no_costs_and_is_no_runner_up() -> None:
    (one, other), _ = two()
    results = builders.results(*(timed(each.arm, {1: 0.5}) for each in (one, other)))
    failed = FailedConstraint(index=0, constraint=Constraint("speedup", ">=", 9.0), value=1.5)
    question = builders.question(price_per_hour=3.6)
    advice = advise_scored([one, replace(other, failures=(failed,))], results, question)
    assert ({each.arm for each in advice.costs}, advice.runner_up) == ({one.arm}, None)


def test_costs_are_of_tokens_where_tokens_are_made_and_of_requests_elsewhere() -> None:
    (requests,) = price([timed("one", {4: 2.0})], 3.6)
    assert requests.value == pytest.approx(0.5)
    assert requests.unit == "thousand requests"
    (tokens,) = price([timed("one", {4: 2.0}, unit="tokens/s")], 3.6)
    assert tokens.value == pytest.approx(500)
    assert tokens.unit == "million tokens"
    assert price([EAGER], None) == ()


@pytest.mark.parametrize(
    ("more", "saved", "requests"),
    [
        (10.0, 0.005, 2000),
        (10.0, 0.0, None),
        (10.0, -0.01, None),
        (-0.5, 0.005, 0),
        (-0.5, -0.01, None),
        (0.0, 0.0, 0),
    ],
)
def test_a_build_has_paid_when_both_have_taken_as_long(
    more: float, saved: float, requests: float | None
) -> None:
    assert break_even(more, saved) == requests


OWN = Environment(kind="own", requirements=("elsewhere==1.0",))


def at_two_sizes(
    arm: str, speedup: float, *, build: float = 3.0, peak: int = 60, **changes: Any
) -> measurement.Measurement:
    made = timed(
        arm,
        {size: 0.08 * size / speedup for size in (1, 4)},
        build=build,
        speedup=measurement.Interval(value=speedup, low=speedup * 0.95, high=speedup * 1.05),
        unit="tokens/s",
        memory_bytes=measurement.MemoryBytes(peak=peak, source="a test"),
        **changes,
    )
    return replace(
        made, speedup=measurement.Interval(value=speedup, low=speedup * 0.95, high=speedup)
    )


KNOWN = builders.catalogue(
    builders.workflow(
        "compiled",
        deployment_steps=("keep the cache",),
        declared=builders.declared(new_shapes="recompiles", lines_changed=2),
    ),
    builders.workflow(
        "alike", declared=builders.declared(new_shapes="recompiles", lines_changed=2)
    ),
    builders.workflow(
        "engine",
        environment=OWN,
        declared=builders.declared(
            lines_changed=40,
            export_step=True,
            vendors=1,
            artefact_scope="gpu-model",
            architectures="listed",
        ),
    ),
)
GPU_MACHINE = builders.gpu_machine(builders.gpu(memory_bytes=100))
MEASURED = (
    at_two_sizes(builders.BASELINE, 1.0, build=0.5),
    at_two_sizes("compiled", 1.5, build=30.0, warm=2.0, peak=90),
    at_two_sizes("alike", 1.5, build=40.0, new_shape_behaviour="served"),
    at_two_sizes("engine", 3.0, build=1000.0, peak=95),
)
CHECK = built_measurements.sustained(
    arms=("compiled", "engine"),
    burst_ratio=0.5,
    sustained_ratio=0.6,
    agrees=False,
    joules_per_call={"compiled": 14.4, "engine": None},
)
CASES: dict[str, dict[str, Any]] = {
    "balanced": {"requests": 5000, "price_per_hour": 3.6},
    "serving": {"priorities": builders.priorities(80, 10, 10), "task": "generate"},
    "bound": {
        "priorities": builders.priorities(80, 10, 10),
        "constraints": (Constraint("portability", ">=", 2), Constraint("productivity", ">=", 3)),
    },
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("noise", [0.03, 0.4], ids=["steady", "noisy"])
def test_tiers_and_recommendations_match_their_golden_files(
    case: str, noise: float, expect: Expect
) -> None:
    results = built_measurements.raced(*MEASURED, noise_floor=noise, sustained=CHECK)
    asked = {"device": "cuda", "gpu": "GPU-0000", "batch_sizes": (1, 4), **CASES[case]}
    head = builders.header(
        question=builders.question(**asked), machine=GPU_MACHINE, catalogue=KNOWN
    )
    left_out = [
        builders.unmeasured("absent", fix="make it"),
        builders.unmeasured("vllm", status="unsupported", reason="no", fix=None),
        builders.unmeasured("unfixed", fix=None),
    ]
    answer = built_answers.answer_of(results, head, unmeasured=tuple(left_out))
    if noise == 0.03:
        expect(f"tiers-{case}", answer.scores)
    advice = msgspec.to_builtins(answer.recommendation)
    texts = {"headline": built_answers.headline(answer), "next_steps": describe_steps(answer)}
    expect(f"advice-{case}-{noise:g}", {**texts, "trust_reasons": trust_reasons(answer), **advice})


def test_an_open_decision_is_measured_again_for_its_contenders_alone() -> None:
    made = built_answers.with_question(built_answers.answer(), workflows=("vllm", "openvino"))
    question, contenders = made.question, {"openvino": 0.6, "iree": 0.5}
    undecided, clear = (
        built_answers.with_decision(made, word=word, contenders=contenders).recommendation
        for word in ("OPEN", "CLEAR")
    )
    assert recommend.undecided_workflows(undecided, question) == ("openvino", "iree")
    assert recommend.undecided_workflows(clear, question) == question.workflows
    assert recommend.undecided_workflows(None, question) == question.workflows


@pytest.mark.parametrize(
    ("spent", "following"),
    [("quick", "thorough"), ("standard", "thorough"), ("thorough", "thorough")],
)
def test_a_further_run_has_the_budget_that_the_headline_names(
    spent: str, following: str, tmp_path: pathlib.Path
) -> None:
    """The duplicate is slower than the baseline, so the two leaders are not told apart."""
    made, presets = make_header(generates=False), builders.shipped_catalogue().presets
    run = make_run(
        Store(tmp_path),
        finished=True,
        seconds_of={**SECONDS, "exported": 0.0037, builders.DUPLICATE: 0.0125},
        catalogue=replace(made.catalogue, presets=presets),
        question=replace(
            made.question, priorities=builders.priorities(90, 5, 5), budget=presets.budgets[spent]
        ),
    )
    answer = answer_of_run(run)
    certainty = built_answers.advised(answer).decision
    assert (certainty.word, bool(certainty.needed_repetitions)) == ("OPEN", True)
    line = " ".join(describe_steps(answer))
    named = {name for name in presets.budgets if f"--budget {name}" in line}
    assert named == {following} - {spent}
    assert recommend.further_budget(answer, run.header().catalogue).name == following


def test_a_run_without_an_answer_names_the_budget_of_a_further_run(expect: Expect) -> None:
    noisy = builders.results(builders.measurement("one"), noise_floor=3.0)
    again = builders.question().ask_again(budget="test")
    (measured,) = noisy.measurements
    ends = measurement.Interval(value=2.0, low=1.4, high=4.0)
    leader = RankedArm(builders.scored_arm("one"), replace(measured, speedup=ends))
    further, last = (recommend.machine_unfit(noisy, each, leader, leader) for each in (again, ""))
    fast = replace(measured, speedup=measurement.Interval(value=5.0, low=4.4, high=6.0))
    fastest = RankedArm(builders.scored_arm("two"), fast)
    told = recommend.machine_unfit(noisy, "", leader, fastest).what
    nothing = replace(measured, speedup=measurement.Interval(value=5.0, low=None, high=None))
    unknown = RankedArm(builders.scored_arm("two"), nothing)
    undecided = recommend.machine_unfit(noisy, "", unknown, unknown).what
    slower = replace(measured, speedup=measurement.Interval(value=4.2, low=0.6, high=8.0))
    maybe_slower = RankedArm(builders.scored_arm("two"), slower)
    assert recommend.machine_unfit(noisy, "", maybe_slower, maybe_slower).what == undecided
    late = [builders.unmeasured("three", fix="ask again with --budget 5min")]
    busy = replace(noisy, visits=measurement.VisitCounts(made=10, discarded=0, unfit=6))
    longer = recommend.machine_unfit(busy, "", unknown, unknown, late=late).next_step
    texts = [further.what, further.next_step, last.next_step, told, undecided, longer]
    expect("machine-unfit", texts)
