"""The grade falls with each thing that is missing or in doubt, and every one of them is said."""

from __future__ import annotations

from typing import Any

import builders
import msgspec
import pytest

from advisor.domain.measurement import Results, SustainedCheck, VerdictKind, VisitCounts
from advisor.recommend import trust

AGREES = SustainedCheck(
    batch_size=1,
    arms=("compiled", builders.BASELINE),
    burst_ratio=1.5,
    sustained_ratio=1.49,
    agrees=True,
    joules_per_call={},
)
DISAGREES = msgspec.structs.replace(AGREES, sustained_ratio=0.9, agrees=False)


def good(**changes: Any) -> Results:
    """Return results that lack nothing."""
    made = builders.results(builders.measurement("compiled"))
    complete = msgspec.structs.replace(
        made,
        repeats=2,
        sustained=AGREES,
        visits=VisitCounts(made=100, discarded=0, unfit=0),
        noise_floor=0.005,
    )
    return msgspec.structs.replace(complete, **changes)


def test_what_lacks_nothing_is_trusted_most_and_says_nothing() -> None:
    assert trust.grade(good(), "PROVEN") == ("A", ())
    assert trust.grade(good(), "TIE") == ("A", ())


DOUBTS: list[tuple[dict[str, Any], str]] = [
    ({"repeats": 0}, "no arm was repeated in a fresh process"),
    ({"sustained": None}, "no sustained check"),
    (
        {"sustained": DISAGREES},
        "called without a pause, pytorch-eager takes 0.90 times as long as compiled, in turns 1.50 times",
    ),
    ({"noise_floor": None}, "the noise floor is not known"),
    ({"noise_floor": 0.02}, "two equal arms may differ by 2.0% here"),
    ({"visits": VisitCounts(made=100, discarded=6, unfit=0)}, "6 of 100 visits were discarded"),
    ({"visits": VisitCounts(made=100, discarded=0, unfit=6)}, "during 6 of 100 visits that count"),
    (
        {"measurements": (builders.measurement("compiled", steady=False),)},
        "had not settled when timing began: compiled",
    ),
]


@pytest.mark.parametrize(("changes", "words"), DOUBTS)
def test_one_doubt_costs_the_best_grade_and_is_said(changes: dict[str, Any], words: str) -> None:
    grade, lacks = trust.grade(good(**changes), "PROVEN")
    assert grade == "B"
    assert len(lacks) == 1
    assert words in lacks[0]


def test_two_doubts_cost_two_grades() -> None:
    assert trust.grade(good(repeats=0, sustained=None), "PROVEN")[0] == "C"


def test_much_noise_allows_no_more_than_the_third_grade() -> None:
    assert trust.grade(good(noise_floor=0.051), "PROVEN")[0] == "C"


@pytest.mark.parametrize(("verdict", "grade"), [("SAFE", "B"), ("INCONCLUSIVE", "D")])
def test_a_verdict_that_is_open_costs_trust(verdict: VerdictKind, grade: str) -> None:
    found, lacks = trust.grade(good(), verdict)
    assert (found, lacks) == (grade, (f"the verdict is {verdict}",))


@pytest.mark.parametrize(
    ("missing", "words"),
    [((16,), "batch size 16 was not measured"), ((16, 64), "batch sizes 16, 64 were not measured")],
)
def test_batch_sizes_of_which_nothing_is_known_are_named(
    missing: tuple[int, ...], words: str
) -> None:
    assert trust.grade(good(), "INCONCLUSIVE", missing) == (
        "D",
        (words, "the verdict is INCONCLUSIVE"),
    )


def test_a_machine_that_was_unfit_for_a_third_of_the_visits_allows_no_trust() -> None:
    assert trust.grade(good(visits=VisitCounts(made=100, discarded=0, unfit=31)), "PROVEN")[0] == "D"


def test_nothing_measured_is_no_reason_to_fail() -> None:
    assert trust.grade(builders.results(noise_floor=None), "INCONCLUSIVE")[0] == "D"
