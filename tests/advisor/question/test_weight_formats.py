"""`--quantised`: names of formats, or any."""

from __future__ import annotations

import pytest

from advisor.domain.question import WeightFormat
from advisor.errors import WeightFormatError
from advisor.question.constraints import parse_constraints
from advisor.question.option_values import FORMATS, choose_weight_formats, parse_weight_formats


@pytest.mark.parametrize(
    ("text", "formats"),
    [
        ("", ()),
        ("int4", ("int4",)),
        (" INT4, int8 ", ("int8", "int4")),
        ("any", ("int8", "int4", "fp8")),
        ("any,int8", ("int8", "int4", "fp8")),
    ],
)
def test_formats_are_named_one_by_one_or_together(
    text: str, formats: tuple[WeightFormat, ...]
) -> None:
    assert parse_weight_formats(text) == formats


@pytest.mark.parametrize("text", ["int2", "int8,q4", "none"])
def test_an_unknown_format_is_refused(text: str) -> None:
    with pytest.raises(WeightFormatError):
        parse_weight_formats(text)


@pytest.mark.parametrize(
    ("text", "require", "formats"),
    [
        ("", "accuracy>=B", FORMATS),
        ("int8", "accuracy>=B", ("int8",)),
        ("", "accuracy<=1e-2,portability>=B", ()),
    ],
)
def test_a_required_class_of_accuracy_asks_for_quantised_weights(
    text: str, require: str, formats: tuple[WeightFormat, ...]
) -> None:
    assert choose_weight_formats(text, parse_constraints(require)) == formats
