"""Floating-point operations of matrix products and of grouped-query attention."""

from __future__ import annotations

import pytest
from lazy import lazy

torch = lazy("torch")
flops = lazy("probes.subjects.flops")

pytestmark = pytest.mark.stack


def test_a_matrix_product_counts_two_operations_for_each_multiplication() -> None:
    assert flops.count_flops(lambda: torch.ones(3, 5) @ torch.ones(5, 7)) == 2 * 3 * 5 * 7


def test_grouped_query_attention_counts_every_query_head() -> None:
    query, key, value = torch.ones(2, 8, 5, 16), torch.ones(2, 2, 7, 16), torch.ones(2, 2, 7, 16)

    counted = flops.count_flops(
        lambda: torch.nn.functional.scaled_dot_product_attention(query, key, value, enable_gqa=True)
    )

    assert (
        counted
        == 2 * 2 * 8 * 5 * 7 * (16 + 16)
        == flops.attention_flops(query.shape, key.shape, value.shape)
    )


def test_a_call_without_products_has_no_count() -> None:
    assert flops.count_flops(lambda: torch.ones(3) + 1) is None
