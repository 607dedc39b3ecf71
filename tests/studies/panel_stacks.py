"""Real stacks for `accuracy_panel.py`. A build serves further seeds of weights where it can."""

from __future__ import annotations

import dataclasses
import importlib
import tempfile
from typing import Any

import torch

from probes import protocol
from probes.checking import dispatch
from probes.subjects.torch_subject import TorchSubject

#: Modules of `probes.workflows` by the name in `--stacks`.
STACKS = {
    "inductor": "torch_compile_inductor",
    "aotinductor": "aotinductor",
    "onnxruntime": "onnxruntime_cpu",
}


@dataclasses.dataclass(frozen=True)
class Build:
    """A program of a stack for the weights of a subject."""

    stack: str
    workflow: Any
    program: Any
    subject: TorchSubject
    #: Has the artefacts of the program.
    folder: tempfile.TemporaryDirectory[str]

    def run(self, inputs: list[list[Any]]) -> list[list[Any]]:
        """Return the outputs by input set, as numpy arrays."""
        fed = [self.program.feed(arguments) for arguments in inputs]
        return list(dispatch.run_program(self.workflow, self.program, fed))

    def take_weights(self, module: torch.nn.Module) -> bool:
        """Replace the weights by those of `module`; return False where the stack cannot.

        AOTInductor and ONNX Runtime fold some of them into constants.
        """
        if self.stack != "inductor":
            return False
        own = self.subject.module.state_dict()
        with torch.inference_mode():
            for name, tensor in module.state_dict().items():
                own[name].copy_(tensor)
        return True


def build(stack: str, subject: TorchSubject, inputs: list[Any], request: protocol.Request) -> Build:
    folder = tempfile.TemporaryDirectory()
    options = {"feeding": "host"} if stack == "onnxruntime" else {}
    request = dataclasses.replace(request, scratch_directory=folder.name, options=options)
    workflow = importlib.import_module(f"probes.workflows.{STACKS[stack]}")
    workflow.settings(request)
    return Build(stack, workflow, workflow.build(subject, inputs, request), subject, folder)
