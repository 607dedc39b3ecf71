"""Open the subject that fits a request's task and kind of model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from probes import protocol
from probes.subjects.torch_subject import TorchSubject, open_torch_subject

if TYPE_CHECKING:
    from probes.subjects.causal_lm import CausalLm
    from probes.subjects.onnx_file import OnnxSubject


def open_by_task(request: protocol.Request) -> TorchSubject | CausalLm:
    """Return a module with its inputs, or a language model with its prompts."""
    if request.task == protocol.GENERATE:
        from probes.subjects.causal_lm import open_causal_lm  # noqa: PLC0415 - imports transformers, which takes seconds

        return open_causal_lm(request)
    return open_torch_subject(request)


def open_torch_or_onnx(request: protocol.Request) -> TorchSubject | OnnxSubject:
    """Return an ONNX file unchanged, any other model as a PyTorch module to be exported."""
    if request.subject["kind"] == "onnx":
        from probes.subjects.onnx_file import OnnxSubject  # noqa: PLC0415 - imports onnxruntime, which other models do not need

        return OnnxSubject(request)
    return open_torch_subject(request)
