"""Open a model for the request's task."""

from __future__ import annotations

from typing import TYPE_CHECKING

from probes import protocol
from probes.subjects.opening import TorchSubject, open_torch_subject

if TYPE_CHECKING:
    from probes.subjects.causal_lm import CausalLm


def open_by_task(request: protocol.Request) -> TorchSubject | CausalLm:
    """Return a module with its inputs, or a language model with its prompts."""
    if request.task == protocol.GENERATE:
        from probes.subjects.causal_lm import open_causal_lm  # noqa: PLC0415 - transformers takes seconds to import

        return open_causal_lm(request)
    return open_torch_subject(request)
