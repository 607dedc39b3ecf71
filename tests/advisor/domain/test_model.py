"""The names of models."""

from __future__ import annotations

import pytest

from advisor.domain.model import MAX_SHORT_NAME, FactoryModel, short_name


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("openai/whisper-base", "openai/whisper-base"),
        ("/models/mine/model.pt2", "model.pt2"),
        ("a" * MAX_SHORT_NAME, "a" * MAX_SHORT_NAME),
    ],
)
def test_the_short_name_has_no_directory(name: str, shown: str) -> None:
    assert short_name(FactoryModel(name=name)) == shown


def test_the_short_name_of_a_long_name_has_both_ends() -> None:
    shown = short_name(FactoryModel(name="a" * 400 + "b" * 100))
    assert len(shown) == MAX_SHORT_NAME
    assert (shown[0], shown[-1]) == ("a", "b")
