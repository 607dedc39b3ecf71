"""Count the floating-point operations of a call while it runs."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.utils.flop_counter import FlopCounterMode

# PyTorch's counter refuses grouped queries before 2.12, and does not count the CPU's kernel.
ATTENTION = (
    "_scaled_dot_product_flash_attention",
    "_scaled_dot_product_efficient_attention",
    "_scaled_dot_product_cudnn_attention",
    "_scaled_dot_product_flash_attention_for_cpu",
)


def count_flops(call: Callable[[], object]) -> int | None:
    """Count the operations of matrix products, convolutions and attention; None if there are none.

    Causal attention counts in full, as is the custom: kernels skip different parts of it. A model
    that PyTorch's counter cannot run, such as one that differentiates in its forward, has None.
    """
    formulas = {getattr(torch.ops.aten, name): attention_flops for name in ATTENTION}
    try:
        with FlopCounterMode(display=False, custom_mapping=formulas) as counter:
            call()
    except torch.OutOfMemoryError:
        raise
    except (RuntimeError, TypeError):
        return None
    return int(counter.get_total_flops()) or None


def attention_flops(
    query: tuple[int, ...],
    key: tuple[int, ...],
    value: tuple[int, ...],
    *_others: object,
    **_options: object,
) -> int:
    """Count attention's two matrix products from shapes `(batch, heads, length, width)`.

    Keys and values may have fewer heads than queries.
    """
    batch, heads, queries, width = query
    return int(2 * batch * heads * queries * key[2] * (width + value[3]))
