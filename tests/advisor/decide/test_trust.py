"""The trust falls with each kind of evidence that is missing, and every reason is listed."""

from __future__ import annotations

from typing import Any

import builders
import built_measurements
import msgspec
import pytest

from advisor.decide import trust
from advisor.domain.measurement import Cell, VisitCounts
from advisor.domain.recommendation import DecisionWord
from advisor.domain.results import Results
from probes.wire.shape import Shape

DISAGREES = built_measurements.sustained(burst_ratio=1.5, sustained_ratio=0.9, agrees=False)


def cell(processes: int = 3, shift: float = 0.0) -> Cell:
    return built_measurements.cell(1.5, 0.07, processes=processes, shift=shift)


def good(**changes: Any) -> Results:
    """Return results that lack nothing."""
    made = builders.results(builders.measurement("compiled", cells=(cell(),)))
    complete = msgspec.structs.replace(
        made, repeats=2, visits=VisitCounts(made=100, discarded=0, unfit=0), noise_floor=0.005
    )
    return msgspec.structs.replace(complete, **changes)


def measured(**changes: Any) -> dict[str, Any]:
    return {"measurements": (builders.measurement("compiled", **changes),)}


@pytest.mark.parametrize("decision", ["CLEAR", "LIKELY", None])
def test_complete_evidence_for_a_decision_is_trusted_most(decision: DecisionWord | None) -> None:
    assert trust.grade(good(), decision) == ("A", ())


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
    grade, reasons = trust.grade(good(**changes), "CLEAR")
    assert grade == "B"
    assert len(reasons) == 1


def test_two_missing_kinds_cost_two_grades_and_two_reasons_of_one_kind_cost_one() -> None:
    single = measured(cells=(cell(processes=1),))
    assert trust.grade(good(repeats=0, **single), "CLEAR")[0] == "C"
    both = good(noise_floor=0.06, visits=VisitCounts(made=100, discarded=6, unfit=0))
    assert trust.grade(both, "CLEAR")[0] == "B"


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
    grade, reasons = trust.grade(good(**changes), decision, [*map(Shape, missing)])
    assert grade == "D"
    assert reasons
    assert all(any(str(size) in reason for reason in reasons) for size in missing)


def test_results_without_measurements_have_a_grade() -> None:
    assert trust.grade(good(measurements=()), "OPEN")[0] == "D"


@pytest.mark.parametrize(
    "unfit",
    [{"noise_floor": 0.6}, {"visits": VisitCounts(made=10, discarded=3, unfit=6)}],
    ids=str,
)
def test_the_reason_of_the_lowest_grade_comes_before_those_that_would_not_cause_it(
    unfit: dict[str, Any],
) -> None:
    (decisive, *_), lesser = (
        trust.grade(good(**changes), "CLEAR")[1] for changes in (unfit, {"repeats": 0})
    )
    grade, reasons = trust.grade(good(**unfit, repeats=0), "CLEAR")
    assert grade == "D"
    assert reasons[0] == decisive
    assert set(lesser) < set(reasons)
    assert len(set(reasons)) == len(reasons)
