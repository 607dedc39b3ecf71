"""References of the models that do unusual things in a call."""

from __future__ import annotations

import dataclasses
import pathlib
from typing import Any

import workers
from held_out_kinds import HELD_OUT
from kinds_source import MODELS
from lazy import lazy

from probes import protocol
from probes.checking import dispatch, stored_reference
from probes.checking.stored_reference import Reference
from probes.wire.shape import Shape

torch = lazy("torch")
torch_subject = lazy("probes.subjects.torch_subject")
pytorch_eager = lazy("probes.workflows.pytorch_eager")


@dataclasses.dataclass(frozen=True)
class Case:
    """A model with its reference and eager PyTorch's outputs by input set."""

    subject: Any
    inputs: list[list[Any]]
    reference: Reference
    outputs: list[list[Any]]

    @property
    def dtype(self) -> str:
        found: str = self.subject.dtype
        return found


def request_for(function: str, directory: pathlib.Path, **changes: Any) -> protocol.Request:
    file = directory / "kinds.py"
    file.write_text(HELD_OUT if f"def {function}(" in HELD_OUT else MODELS)
    settings = {"dtype": "native", "batch_sizes": [2], "input_sets": 4} | changes
    return workers.make_request(
        pathlib.Path("x.py"),
        directory,
        subject={"kind": "factory", "name": f"{file}:of_{function}"},
        **settings,
    )


def make_case(function: str, directory: pathlib.Path, **changes: Any) -> Case:
    request = request_for(function, directory, **changes)
    subject = torch_subject.open_torch_subject(request)
    inputs = [subject.inputs(2, number) for number in range(request.input_sets)]
    file = dispatch.reference_file(request, Shape(2))
    with torch.inference_mode():
        program = pytorch_eager.build(subject, inputs[0], request)
        dispatch.make_reference(pytorch_eager, subject, program, inputs, file, request)
        outputs = [subject.run(each) for each in inputs]
    return Case(subject, inputs, stored_reference.load_reference(file), outputs)
