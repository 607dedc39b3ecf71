"""`--priority` and `--preset`."""

from __future__ import annotations

import builders
import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.ask.answers import Answers
from advisor.ask.option_values import choose_priorities, parse_priorities
from advisor.domain.constraints import PILLARS
from advisor.errors import PriorityError, UnknownPresetError

PRESETS = builders.shipped_catalogue().presets


def test_the_default_is_the_default_preset() -> None:
    assert (
        choose_priorities(Answers(), builders.catalogue())
        == PRESETS.priorities[PRESETS.default_preset].priorities
    )


def test_priority_may_set_the_weights_of_the_other_criteria() -> None:
    weights = parse_priorities(
        "performance=60.5, productivity = 24.5,portability=15,"
        "input-flexibility=20,architecture_support=0"
    )
    assert weights == builders.priorities(
        60.5, 24.5, 15, input_flexibility=20, architecture_support=0
    )


def test_rounding_errors_of_the_sum_are_accepted() -> None:
    third = 100 / 3
    weights = parse_priorities(",".join(f"{pillar}={third!r}" for pillar in PILLARS))
    assert weights == builders.priorities(third, third, third)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("performance", "'performance'"),
        ("performance=60,speed=40", "'speed=40'"),
        ("performance=60,performance=40", "'performance=40'"),
        ("performance=60,,productivity=40", "''"),
        ("performance=high,productivity=25,portability=15", "'high'"),
        ("performance=nan,productivity=25,portability=15", "not between 0 and 100"),
        ("performance=-1,productivity=86,portability=15", "not between 0 and 100"),
        ("performance=100", "productivity, portability"),
        ("performance=60,productivity=25,portability=25", "110"),
        ("performance=60,productivity=25,portability=14.99", "99.99"),
        (
            "performance=60,productivity=25,portability=15,input_flexibility=60,architecture_support=41",
            "exceed 100",
        ),
    ],
)
def test_invalid_weights_are_errors(text: str, words: str) -> None:
    with pytest.raises(PriorityError) as problem:
        parse_priorities(text)
    assert words in problem.value.what
    assert problem.value.next_step


def test_priority_and_preset_together_are_an_error() -> None:
    with pytest.raises(PriorityError, match="both"):
        choose_priorities(
            Answers(priority="performance=60,productivity=25,portability=15", preset="serving"),
            builders.catalogue(),
        )


def test_the_error_of_an_unknown_preset_lists_the_presets() -> None:
    with pytest.raises(UnknownPresetError) as problem:
        choose_priorities(Answers(preset="fastest"), builders.catalogue())
    assert all(name in problem.value.next_step for name in PRESETS.priorities)


fragments = st.lists(
    st.sampled_from(["performance", "=", ">=", ",", "60", "1e999", " ", "\n", "portability", "-"]),
    max_size=12,
).map("".join)


@given(st.text(max_size=30) | fragments)
def test_any_text_is_parsed_or_a_one_line_error(text: str) -> None:
    error = builders.error_of(lambda: parse_priorities(text))
    assert error is None or "\n" not in error.what + error.next_step
