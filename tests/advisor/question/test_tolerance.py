"""`--accuracy`: exact, a number or a percentage."""

from __future__ import annotations

import pytest

from advisor.errors import SizeError
from advisor.question.option_values import parse_tolerance


@pytest.mark.parametrize(
    ("text", "tolerance"),
    [("", None), ("exact", 0.0), (" EXACT ", 0.0), ("1e-3", 1e-3), ("1%", 0.01), ("0.5 %", 0.005)],
)
def test_a_tolerance_is_a_share(text: str, tolerance: float | None) -> None:
    assert parse_tolerance(text) == (tolerance if tolerance is None else pytest.approx(tolerance))


@pytest.mark.parametrize("text", ["-1", "2", "150%", "close", "nan", "1e-3x", "%"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(SizeError):
        parse_tolerance(text)
