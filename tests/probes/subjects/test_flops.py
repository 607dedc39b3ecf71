"""What a call computes, counted from shapes: products, and attention whose keys have fewer heads than its queries."""

from __future__ import annotations

import pytest

torch = pytest.importorskip(
    "torch", reason="the stack is not installed: pip install 'p3-advisor[stack]'"
)

from probes.subjects.flops import attention_flops, count_flops  # noqa: E402 - needs torch

pytestmark = pytest.mark.stack


def test_a_product_counts_two_operations_for_each_multiplication() -> None:
    assert count_flops(lambda: torch.ones(3, 5) @ torch.ones(5, 7)) == 2 * 3 * 5 * 7


def test_attention_with_grouped_heads_counts_every_head_of_the_queries() -> None:
    query, key, value = torch.ones(2, 8, 5, 16), torch.ones(2, 2, 7, 16), torch.ones(2, 2, 7, 16)

    counted = count_flops(
        lambda: torch.nn.functional.scaled_dot_product_attention(query, key, value, enable_gqa=True)
    )

    assert (
        counted
        == 2 * 2 * 8 * 5 * 7 * (16 + 16)
        == attention_flops(query.shape, key.shape, value.shape)
    )


def test_a_call_without_products_has_none() -> None:
    assert count_flops(lambda: torch.ones(3) + 1) is None
