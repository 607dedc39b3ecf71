"""How far an answer is to be trusted, and what lowers the grade."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import builders
import built_measurements
import pytest
from builders import replace

from advisor.decide import trust
from advisor.domain.measurement import Cell, VisitCounts
from advisor.domain.recommendation import DecisionWord, Trust
from advisor.domain.results import Results
from probes.shape import Shape

DISAGREES = built_measurements.sustained(burst_ratio=1.5, sustained_ratio=0.9, agrees=False)


def cell(processes: int = 3, shift: float = 0.0) -> Cell:
    return built_measurements.cell(1.5, 0.07, processes=processes, shift=shift)


def good(**changes: Any) -> Results:
    """Return results that lack nothing."""
    made = builders.results(builders.measurement("compiled", cells=(cell(),)))
    complete = replace(
        made,
        repeats=2,
        visits=VisitCounts(made=100, discarded=0, unfit=0),
        noise_floor=0.005,
        duplicates=1,
    )
    return replace(complete, **changes)


def grade(
    results: Results,
    word: DecisionWord | None = "CLEAR",
    missing: Sequence[Shape] = (),
    gain: float = 1.5,
) -> tuple[Trust, tuple[str, ...]]:
    return trust.grade(results, word, missing, gain=gain)


def entries(**changes: Any) -> dict[str, Any]:
    return {"measurements": (builders.measurement("compiled", **changes),)}


@pytest.mark.parametrize("decision", ["CLEAR", "LIKELY", None])
def test_complete_evidence_for_a_decision_is_trusted_most(decision: DecisionWord | None) -> None:
    assert grade(good(), decision) == ("A", ())


DOUBTS: list[dict[str, Any]] = [
    {"repeats": 0},
    entries(cells=(cell(processes=2),)),
    {"noise_floor": None},
    {"noise_floor": 0.06},
    {"sustained": DISAGREES},
    {"visits": VisitCounts(made=100, discarded=6, unfit=0)},
    {"visits": VisitCounts(made=100, discarded=0, unfit=6)},
    {"visits": VisitCounts(made=100, discarded=0, unfit=0, stalled_calls=1)},
    entries(cells=(cell(),), steady=False),
    entries(cells=(cell(shift=0.1),)),
]


@pytest.mark.parametrize("changes", DOUBTS, ids=str)
def test_one_missing_kind_of_evidence_costs_the_best_grade(changes: dict[str, Any]) -> None:
    found, reasons = grade(good(**changes))
    assert found == "B"
    assert len(reasons) == 1


@pytest.mark.parametrize(("unfit", "compiled"), [(0, True), (60, False)])
def test_slow_calls_of_a_busy_machine_have_no_guessed_cause(unfit: int, *, compiled: bool) -> None:
    visits = VisitCounts(made=100, discarded=0, unfit=unfit, stalled_calls=1)
    assert ("the stack compiled" in "".join(grade(good(visits=visits))[1])) == compiled


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
    single = entries(cells=(cell(processes=1),))
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
    assert " ".join(reasons).count("may differ by") == (expected != "A"), "said once"
    assert any("the choice is clear" in reason for reason in reasons) == (expected == "C")


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
    "unfit", [{"noise_floor": 0.6}, {"visits": VisitCounts(made=10, discarded=3, unfit=6)}], ids=str
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
