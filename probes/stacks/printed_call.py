"""Time the lines of a call that are printed for users, so that both do the same work."""

from __future__ import annotations

import dataclasses
import textwrap
from collections.abc import Callable
from typing import Any

import torch

from probes.facts import EACH_CALL
from probes.subjects.by_request import Model, TorchSubject
from probes.subjects.outputs import collect


def compile_call(integration: str, **names: Any) -> Callable[..., Any]:
    """Return a function of tensors that runs the lines of each call and returns their `output`.

    `names` has what the lines above those of the call make, and what they import.
    """
    _, lines = EACH_CALL.split(integration, maxsplit=1)
    body = textwrap.indent(lines, "    ")
    exec(f"def call(*inputs):\n{body}    return output\n", names)  # noqa: S102 - lines of a workflow
    call: Callable[..., Any] = names["call"]
    return call


@dataclasses.dataclass(frozen=True)
class PrintedProgram:
    """Takes PyTorch's tensors, as the printed lines do."""

    subject: Model
    #: The result of `compile_call`.
    call: Callable[..., Any]
    #: Device on which the printed lines have the inputs of an ONNX file.
    device: str = "cpu"

    def feed(self, inputs: list[Any]) -> tuple[torch.Tensor, ...]:
        if isinstance(self.subject, TorchSubject):
            return self.subject.tensors(inputs)
        return tuple(torch.from_numpy(array).to(self.device) for array in inputs)

    def __call__(self, device_inputs: tuple[torch.Tensor, ...]) -> Any:
        return self.call(*device_inputs)

    def collect(self, output: Any) -> list[Any]:
        return collect(output)
