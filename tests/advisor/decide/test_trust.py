"""What lowers the trust, and what to do after an answer, and without one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import builders
import built_measurements
import msgspec
import pytest
from built_answers import recommend_for
from golden_files import Expect

from advisor.decide import scoring, trust
from advisor.decide.unmeasured import machine_unfit, nothing_viable
from advisor.domain.answer import RankedArm
from advisor.domain.constraints import Constraint
from advisor.domain.measurement import (
    Cell,
    Interval,
    Measurement,
    MemoryBytes,
    VisitCounts,
)
from advisor.domain.recommendation import DecisionWord, Recommendation, Trust
from advisor.domain.results import Results, StoppedBuild
from advisor.domain.workflow import Environment
from probes.wire.shape import Shape

DISAGREES = built_measurements.sustained(burst_ratio=1.5, sustained_ratio=0.9, agrees=False)


def cell(processes: int = 3, shift: float = 0.0) -> Cell:
    return built_measurements.cell(1.5, 0.07, processes=processes, shift=shift)


def good(**changes: Any) -> Results:
    """Return results that lack nothing."""
    made = builders.results(builders.measurement("compiled", cells=(cell(),)))
    complete = msgspec.structs.replace(
        made,
        repeats=2,
        visits=VisitCounts(made=100, discarded=0, unfit=0),
        noise_floor=0.005,
        duplicates=1,
    )
    return msgspec.structs.replace(complete, **changes)


def grade(
    results: Results,
    word: DecisionWord | None = "CLEAR",
    missing: Sequence[Shape] = (),
    gain: float = 1.5,
) -> tuple[Trust, tuple[str, ...]]:
    return trust.grade(results, word, missing, gain=gain)


def measured(**changes: Any) -> dict[str, Any]:
    return {"measurements": (builders.measurement("compiled", **changes),)}


@pytest.mark.parametrize("decision", ["CLEAR", "LIKELY", None])
def test_complete_evidence_for_a_decision_is_trusted_most(decision: DecisionWord | None) -> None:
    assert grade(good(), decision) == ("A", ())


DOUBTS: list[dict[str, Any]] = [
    {"repeats": 0},
    measured(cells=(cell(processes=2),)),
    {"noise_floor": None},
    {"noise_floor": 0.06},
    {"sustained": DISAGREES},
    {"visits": VisitCounts(made=100, discarded=6, unfit=0)},
    {"visits": VisitCounts(made=100, discarded=0, unfit=6)},
    {"visits": VisitCounts(made=100, discarded=0, unfit=0, stalled_calls=1)},
    measured(cells=(cell(),), steady=False),
    measured(cells=(cell(shift=0.1),)),
]


@pytest.mark.parametrize("changes", DOUBTS, ids=str)
def test_one_missing_kind_of_evidence_costs_the_best_grade(changes: dict[str, Any]) -> None:
    found, reasons = grade(good(**changes))
    assert found == "B"
    assert len(reasons) == 1


@pytest.mark.parametrize(
    ("arms", "duplicates", "least"), [(2, 1, "A"), (1, 2, "A"), (1, 1, "B"), (2, 0, "B")]
)
def test_arms_in_two_processes_and_the_duplicates_show_together_what_processes_differ_by(
    arms: int, duplicates: int, least: str
) -> None:
    twice = (cell(processes=2),)
    entries = [builders.measurement(f"compiled/{number}", cells=twice) for number in range(arms)]
    results = good(measurements=tuple(entries), duplicates=duplicates)
    assert grade(results)[0] == least


def test_two_missing_kinds_cost_two_grades_and_two_reasons_of_one_kind_cost_one() -> None:
    single = measured(cells=(cell(processes=1),))
    assert grade(good(repeats=0, **single))[0] == "C"
    both = good(noise_floor=0.06, visits=VisitCounts(made=100, discarded=6, unfit=0))
    assert grade(both)[0] == "B"


@pytest.mark.parametrize(
    ("noise", "gain", "expected"),
    [(0.4, 1.5, "C"), (0.4, 2.3, "B"), (0.4, 1 / 2.3, "B"), (0.06, 1.0, "C"), (0.04, 1.0, "A")],
)
def test_noise_beyond_half_of_the_gain_costs_a_grade(
    noise: float, gain: float, expected: str
) -> None:
    found, reasons = grade(good(noise_floor=noise), gain=gain)
    assert found == expected
    assert any(f"{gain:.2f}x" in reason for reason in reasons) == (expected == "C")


@pytest.mark.parametrize(
    ("decision", "changes", "missing"),
    [
        ("OPEN", {}, ()),
        ("CLEAR", {}, (16, 64)),
        ("CLEAR", {"noise_floor": 0.6}, ()),
        ("CLEAR", {"visits": VisitCounts(made=100, discarded=0, unfit=60)}, ()),
    ],
)
def test_an_open_decision_missing_sizes_or_an_unfit_machine_allow_no_trust(
    decision: DecisionWord, changes: dict[str, Any], missing: tuple[int, ...]
) -> None:
    found, reasons = grade(good(**changes), decision, [*map(Shape, missing)])
    assert found == "D"
    assert reasons
    assert all(any(str(size) in reason for reason in reasons) for size in missing)


@pytest.mark.parametrize(
    "unfit",
    [{"noise_floor": 0.6}, {"visits": VisitCounts(made=10, discarded=3, unfit=6)}],
    ids=str,
)
def test_the_reason_of_the_lowest_grade_comes_before_those_that_would_not_cause_it(
    unfit: dict[str, Any],
) -> None:
    (decisive, *_), lesser = (grade(good(**changes))[1] for changes in (unfit, {"repeats": 0}))
    found, reasons = grade(good(**unfit, repeats=0))
    assert found == "D"
    assert reasons[0] == decisive
    assert set(lesser) < set(reasons)
    assert len(set(reasons)) == len(reasons)


def advise(measurement: Measurement) -> Recommendation:
    head = builders.header(
        catalogue=builders.catalogue(
            builders.workflow("other", deployment_steps=("another",)),
            builders.workflow("compiled", deployment_steps=("keep the cache",)),
        ),
    )
    arms = [builders.scored_arm("compiled")]
    return recommend_for(builders.results(measurement), arms, head)


def test_what_was_built_is_kept_and_what_was_measured_is_pinned(expect: Expect) -> None:
    measurement = builders.measurement("compiled", versions={"triton": "3.6.0", "torch": "2.12.0"})
    expect("next-steps-pinned", advise(measurement).next_steps)


def test_an_arm_that_was_not_built_in_time_is_named_with_what_allows_more_time(
    expect: Expect,
) -> None:
    results = msgspec.structs.replace(
        builders.results(builders.measurement("compiled", versions={})),
        stopped_builds=(
            StoppedBuild(arm="engine", fix="allow more with --max-build-times"),
            StoppedBuild(arm="exported", started=False, fix="ask for more with --requests"),
        ),
    )
    advice = recommend_for(results, [builders.scored_arm("compiled")])
    expect("next-steps-unbuilt", advice.next_steps)


def test_one_command_creates_all_missing_environments() -> None:
    own = Environment(kind="own", name="shared-by-two")
    known = builders.catalogue(
        builders.workflow("one"),
        builders.workflow("first", environment=own),
        builders.workflow("second", environment=own),
        builders.workflow("third", environment=Environment(kind="own")),
    )
    missing = [builders.unmeasured(name, fix="a command") for name in ("first", "second", "third")]
    head = builders.header(catalogue=known)
    results = builders.results(builders.measurement("compiled", versions={}))
    advice = recommend_for(results, [builders.scored_arm("compiled")], head, excluded=missing)
    assert advice.next_steps == (
        "to measure first, second, third too: p3-advisor env create shared-by-two third",
    )


def test_the_value_nearest_to_each_constraint_is_named_when_nothing_is_left(
    expect: Expect,
) -> None:
    question = builders.question(
        constraints=(
            Constraint(criterion="speedup", at_least=50),
            Constraint(criterion="memory", at_most=2**20),
            Constraint(criterion="ttft", at_most=0.1),
            Constraint(criterion="performance", at_least=3),
        )
    )
    results = builders.results(
        *(
            builders.measurement(
                name, speedup=speedup, memory_bytes=MemoryBytes(peak=peak << 20, source="a test")
            )
            for name, speedup, peak in (("one", 1.2, 300), ("two", 1.9, 200), ("three", 1.0, 400))
        )
    )
    known = builders.catalogue(*map(builders.workflow, ("one", "two", "three")))
    arms = scoring.score_arms(results, question, known)
    problem = nothing_viable(arms, question.constraints, results.measurements)
    expect("nothing-viable", [problem.what, problem.next_step])


def test_a_run_without_an_answer_names_the_budget_of_a_further_run(expect: Expect) -> None:
    noisy = builders.results(builders.measurement("one"), noise_floor=3.0)
    budget = builders.question().budget
    (arm,) = noisy.measurements
    ends = Interval(value=2.0, low=1.4, high=4.0)
    leader = RankedArm(builders.scored_arm("one"), msgspec.structs.replace(arm, speedup=ends))
    further, last = (machine_unfit(noisy, each, leader) for each in (budget, None))
    assert "1.4x and 4x" in further.what
    assert f"--budget {budget.name}" in further.next_step
    assert "--budget" not in last.next_step
    expect("machine-unfit", [further.next_step, last.next_step])
