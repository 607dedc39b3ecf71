"""References of the models that do unusual things in a call."""

from __future__ import annotations

import dataclasses
import pathlib
from typing import Any, cast

import numpy as np
import workers
from kinds_source import MODELS
from lazy import by_request, pytorch_eager, torch

from probes import protocol
from probes.adapter import Workflow
from probes.checking import program_cell, stored_reference
from probes.checking.stored_reference import Reference
from probes.runtime.cells import Job
from probes.runtime.reference import write_reference
from probes.shape import Shape


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


#: Of a module that calls a function with its layers.
MODEL = """
import os
import random

import numpy as np
import torch


class Model(torch.nn.Module):
    def __init__(self, call, **layers):
        super().__init__()
        self.call = call
        self.layers = torch.nn.ModuleDict(layers)

    def forward(self, *inputs):
        return self.call(self.layers, *inputs)


"""


class Factories:
    """The code of factories in the working directory, and the settings of their requests."""

    def __init__(self, code: str, **settings: Any) -> None:
        self._code = code
        self._settings = {"dtype": "own", "batch_sizes": [2]} | settings

    def request(self, function: str, **changes: Any) -> protocol.Request:
        directory = pathlib.Path.cwd()
        file = directory / "nets.py"
        file.write_text(self._code)
        settings = self._settings | changes
        subject = {"kind": "factory", "name": f"{file}:{function}"}
        return workers.subject_request(subject, directory, **settings)

    def open(self, function: str, **changes: Any) -> Any:
        return by_request.open_torch_subject(self.request(function, **changes))

    def make_case(self, function: str, **changes: Any) -> Case:
        request = self.request(function, **changes)
        subject = by_request.open_torch_subject(request)
        (rows,) = request.batch_sizes
        inputs = [subject.inputs(rows, number) for number in range(request.input_sets)]
        before = [[array.copy() for array in arrays] for arrays in inputs]
        file = program_cell.reference_file(request, Shape(rows))
        with torch.no_grad():
            job = Job(request, cast("Any", None), Workflow(pytorch_eager), subject)
            write_reference(job, Shape(rows), inputs)
            outputs = [subject.run(each) for each in inputs]
        for olds, news in zip(before, inputs, strict=True):
            assert all(map(np.array_equal, olds, news))
        return Case(subject, inputs, stored_reference.load_reference(file), outputs)

    def make_reference(self, function: str, **changes: Any) -> Reference:
        return self.make_case(function, **changes).reference


def make_case(function: str, **changes: Any) -> Case:
    """Return the case of a model that does unusual things in a call."""
    return Factories(MODELS, input_sets=4).make_case(f"of_{function}", **changes)
