"""The processors of the load generator."""

from __future__ import annotations

import pytest

from advisor.probing.processors import divide_processors


@pytest.mark.parametrize(
    ("usable", "generator", "expected"),
    [
        ({0, 1}, 1, ({0}, {1})),
        ({3, 5, 7, 9}, 1, ({3, 5, 7}, {9})),
        (set(range(16)), 4, (set(range(12)), {12, 13, 14, 15})),
        ({4}, 1, ({4}, {4})),
    ],
)
def test_the_generator_has_processors_of_its_own_where_there_are_several(
    usable: set[int], generator: int, expected: tuple[set[int], set[int]]
) -> None:
    assert divide_processors(usable, generator) == expected
