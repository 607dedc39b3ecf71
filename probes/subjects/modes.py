"""Modes that observe or replace the operators of a model; Dynamo does not run in them."""

from __future__ import annotations

import contextlib
import sys
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode


def leave_out_dynamo() -> None:
    """Let calls in the modes that are defined so far not import Dynamo, which takes seconds.

    PyTorch wraps the method of each mode so that Dynamo does not compile it, and imports Dynamo in
    its first call. Where nothing has imported Dynamo, nothing is compiled. `torch._disable_dynamo`
    keeps the wrapped method in this attribute; without it Dynamo is imported as before.
    """
    if "torch._dynamo" in sys.modules:
        return
    for mode in (*TorchDispatchMode.__subclasses__(), *EagerMode.__subclasses__()):
        method = getattr(mode.__torch_dispatch__, "__wrapped__", None)
        if method is not None:
            method.__dynamo_disable = method  # noqa: SLF001 - nothing public does this


def run_eagerly() -> contextlib.AbstractContextManager[Any]:
    """Let code that compiles itself, such as `flex_attention` and `torch.cond`, compile nothing.

    In a mode Dynamo refuses to compile it, and from then on without a mode too. A model that needs
    Dynamo has imported it in an earlier call, without a mode.
    """
    has_dynamo = "torch._dynamo" in sys.modules
    return torch.compiler.set_stance("force_eager") if has_dynamo else contextlib.nullcontext()


class EagerMode(TorchDispatchMode):
    """A mode in which code that compiles itself runs eagerly."""

    # They are called as they are: what they consist of is not dispatched.
    supports_higher_order_operators = True

    def __enter__(self) -> Any:
        self._eager = contextlib.ExitStack()
        self._eager.enter_context(run_eagerly())
        super().__enter__()
        return self

    def __exit__(self, *raised: object) -> None:
        super().__exit__(*raised)
        self._eager.close()
