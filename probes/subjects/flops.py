"""The arithmetic of a call, counted while it runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

# PyTorch's own counter refuses grouped queries before 2.12 and knows nothing of the CPU's kernel.
ATTENTION = (
    "_scaled_dot_product_flash_attention",
    "_scaled_dot_product_efficient_attention",
    "_scaled_dot_product_cudnn_attention",
    "_scaled_dot_product_flash_attention_for_cpu",
)


def count_flops(call: Callable[[], Any]) -> int | None:
    """Count the operations of matrix products, convolutions and attention in one call; None where it has none of them.

    Causal attention counts in full, as is the custom: kernels differ in what of it they skip.
    """
    formulas = {getattr(torch.ops.aten, name): attention_flops for name in ATTENTION}
    with FlopCounterMode(display=False, custom_mapping=formulas) as counter:
        call()
    return int(counter.get_total_flops()) or None


def attention_flops(query: Any, key: Any, value: Any, *_others: Any, **_options: Any) -> int:
    """Count attention's two products from its shapes, batch x heads x length x width; keys and values may have fewer heads."""
    batch, heads, queries, width = query
    return int(2 * batch * heads * queries * key[2] * (width + value[3]))
