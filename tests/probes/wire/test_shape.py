"""Shapes: their order and their texts."""

from __future__ import annotations

import pytest

from probes.wire.shape import Shape


@pytest.mark.parametrize(
    ("shape", "text", "lengths"),
    [
        (Shape(16), "16", ""),
        (Shape(16, 512), "16x512", "512"),
        (Shape(16, 512, 128), "16x512+128", "512+128"),
    ],
)
def test_a_shape_is_written_with_its_lengths(shape: Shape, text: str, lengths: str) -> None:
    assert (str(shape), shape.lengths) == (text, lengths)
    assert lengths in shape.description


def test_shapes_are_ordered_by_length_and_then_by_batch_size() -> None:
    ordered = [Shape(1), Shape(2), Shape(4, 8), Shape(1, 16, 2), Shape(2, 16, 2), Shape(1, 16, 4)]
    assert sorted({*ordered}) == ordered
    assert max(ordered) == ordered[-1]
