"""How far an answer is to be trusted, and what lowers the grade."""

from __future__ import annotations

from typing import Any

import builders
import built_measurements
import pytest
from builders import replace

from advisor.decide import trust
from advisor.domain.measurement import Cell, VisitCounts
from advisor.domain.recommendation import DecisionWord
from advisor.domain.results import Results
from probes.shape import Shape

DISAGREES = built_measurements.sustained(burst_ratio=1.5, sustained_ratio=0.9, agrees=False)


def cell(processes: int = 3, shift: float = 0.0) -> Cell:
    return built_measurements.cell(1.5, 0.07, processes=processes, shift=shift)


def good(**changes: Any) -> Results:
    """Return results that lack nothing."""
    made = builders.results(builders.measurement("compiled", cells=(cell(),)))
    visits = VisitCounts(made=100, discarded=0, unfit=0)
    complete = {"repeats": 2, "visits": visits, "noise_floor": 0.005, "duplicates": 1}
    return replace(made, **{**complete, **changes})


def entries(**changes: Any) -> dict[str, Any]:
    return {"measurements": (builders.measurement("compiled", **changes),)}


UNFIT = VisitCounts(made=10, discarded=3, unfit=6)
DISCARDED = VisitCounts(made=100, discarded=6, unfit=0)
UNCHECKED = (builders.checked(accuracy_class="unchecked"),)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, "A"),
        ({"repeats": 0}, "B not-repeated"),
        (entries(cells=(cell(processes=2),)), "B processes-assumed"),
        (entries(cells=(cell(),), correctness=UNCHECKED), "B unchecked"),
        ({"noise_floor": None}, "B noise-unknown"),
        ({"noise_floor": 0.06}, "B noise"),
        ({"sustained": DISAGREES}, "B not-sustained"),
        ({"visits": DISCARDED}, "B discarded"),
        ({"visits": VisitCounts(made=100, discarded=0, unfit=6)}, "B busy"),
        ({"visits": VisitCounts(made=9, discarded=0, unfit=0, stalled_calls=1)}, "B stalled"),
        (entries(cells=(cell(),), steady=False), "B cold"),
        (entries(cells=(cell(shift=0.1),)), "B shifted"),
        # Two kinds cost two grades, and two faults of one kind cost one.
        ({"repeats": 0, **entries(cells=(cell(processes=1),))}, "C not-repeated processes-assumed"),
        ({"noise_floor": 0.06, "visits": DISCARDED}, "B noise discarded"),
        # What alone causes a D comes first.
        ({"noise_floor": 0.6, "repeats": 0}, "D noise not-repeated"),
        ({"visits": UNFIT, "repeats": 0}, "D busy not-repeated discarded"),
    ],
    ids=str,
)
def test_missing_evidence_costs_a_grade(changes: dict[str, Any], expected: str) -> None:
    found, faults = trust.judge_trust(good(**changes), "CLEAR", gain=1.5)
    assert " ".join([found, *faults]) == expected


def test_an_open_decision_or_missing_sizes_allow_no_trust_and_another_machine_no_a() -> None:
    decided: list[DecisionWord | None] = ["CLEAR", "LIKELY", None]
    assert {trust.judge_trust(good(), each, gain=1.5) for each in decided} == {("A", ())}
    assert trust.judge_trust(good(), "OPEN", gain=1.5) == ("D", ("open",))
    assert trust.judge_trust(good(), "CLEAR", [Shape(16)], gain=1.5) == ("D", ("not-measured",))
    assert trust.judge_trust(good(), "CLEAR", gain=1.5, imported=True) == ("B", ("imported",))
    assert trust.judge_trust(good(), "OPEN", gain=1.5, imported=True) == ("D", ("imported", "open"))


@pytest.mark.parametrize(
    ("arms", "duplicates", "least"), [(2, 1, "A"), (1, 2, "A"), (1, 1, "B"), (2, 0, "B")]
)
def test_arms_in_two_processes_and_duplicates_show_what_processes_differ_by(
    arms: int, duplicates: int, least: str
) -> None:
    twice = (cell(processes=2),)
    entries = [builders.measurement(f"compiled/{number}", cells=twice) for number in range(arms)]
    results = good(measurements=tuple(entries), duplicates=duplicates)
    assert trust.judge_trust(results, "CLEAR", gain=1.5)[0] == least


@pytest.mark.parametrize(
    ("noise", "gain", "expected"),
    [(0.4, 1.5, "C"), (0.4, 2.3, "B"), (0.4, 1 / 2.3, "B"), (0.06, 1.0, "C"), (0.04, 1.0, "A")],
)
def test_noise_beyond_half_of_the_gain_costs_a_grade_and_is_said_once(
    noise: float, gain: float, expected: str
) -> None:
    faults = {"A": (), "B": ("noise",), "C": ("gain-in-doubt",)}[expected]
    assert trust.judge_trust(good(noise_floor=noise), "CLEAR", gain=gain) == (expected, faults)
