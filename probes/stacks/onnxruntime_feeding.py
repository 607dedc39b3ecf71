"""The ways to feed an ONNX Runtime session: from the host, with bound host values, or with tensors that stay on the GPU."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import onnxruntime as ort
import torch

from probes.adapter import UnsupportedError
from probes.stacks import pytorch
from probes.subjects.onnx_file import ARRAY_TYPES
from probes.subjects.opening import collect

#: ONNX's numbers of element types, with PyTorch's types for them, by ONNX Runtime's names.
BFLOAT16 = "tensor(bfloat16)"
ELEMENTS: dict[str, tuple[int, torch.dtype]] = {
    "tensor(float)": (1, torch.float32),
    "tensor(int32)": (6, torch.int32),
    "tensor(int64)": (7, torch.int64),
    "tensor(bool)": (9, torch.bool),
    "tensor(float16)": (10, torch.float16),
    "tensor(double)": (11, torch.float64),
    BFLOAT16: (16, torch.bfloat16),
}


@dataclasses.dataclass(frozen=True)
class HostFeeding:
    """numpy arrays in, numpy arrays out: the way most examples show."""

    session: ort.InferenceSession

    def feed(self, inputs: list[Any]) -> dict[str, Any]:
        """Give the arrays the names and types that the session declares."""
        return named_arrays(self.session, inputs)

    def __call__(self, fed: dict[str, Any]) -> list[Any]:
        """Run once; on a device this copies in and out."""
        return self.session.run(None, fed)  # type: ignore[no-any-return]

    def collect(self, output: list[Any]) -> list[Any]:
        """Return the arrays as they are."""
        return output


@dataclasses.dataclass(frozen=True)
class HostValues:
    """ONNX Runtime's own values on the host, for types that numpy does not have; copied in and out like arrays."""

    session: ort.InferenceSession

    def feed(self, inputs: list[Any]) -> dict[str, Any]:
        """Give the tensors the names and types that the session declares."""
        return {
            name: host_value(tensor)
            for name, tensor in named_tensors(self.session, inputs, "cpu").items()
        }

    def __call__(self, fed: dict[str, Any]) -> Any:
        """Run once; on a device this copies in and out."""
        return self.session.run_with_ort_values(None, fed)

    def collect(self, output: Any) -> list[Any]:
        """Return the values as arrays."""
        return [array for value in output for array in collect(torch.from_dlpack(value))]


@dataclasses.dataclass(frozen=True)
class IoBinding:
    """Inputs and outputs stay where they are: nothing is copied or allocated by a call."""

    session: ort.InferenceSession
    device: str

    def feed(self, inputs: list[Any]) -> Any:
        """Bind the inputs, run once to learn the outputs' shapes, and bind outputs of those shapes."""
        binding = self.session.io_binding()
        for name, array in named_arrays(self.session, inputs).items():
            binding.bind_ortvalue_input(name, ort.OrtValue.ortvalue_from_numpy(array, self.device))
        names = [value.name for value in self.session.get_outputs()]
        for name in names:
            binding.bind_output(name, self.device)
        self.session.run_with_iobinding(binding)
        for name, made in zip(names, binding.get_outputs(), strict=True):
            binding.bind_ortvalue_output(name, made)
        return binding

    def __call__(self, fed: Any) -> Any:
        """Run once into the bound outputs."""
        self.session.run_with_iobinding(fed)
        return fed

    def collect(self, output: Any) -> list[Any]:
        """Copy the bound outputs to the host."""
        return [value.numpy() for value in output.get_outputs()]


@dataclasses.dataclass(frozen=True)
class Bound:
    """A binding with the tensors it refers to, which have to live as long."""

    binding: Any
    inputs: tuple[torch.Tensor, ...]
    outputs: tuple[torch.Tensor, ...]


@dataclasses.dataclass(frozen=True)
class TensorBinding:
    """PyTorch's tensors bound where they lie: nothing is copied by a call, in any type that both have."""

    session: ort.InferenceSession
    device: str

    def feed(self, inputs: list[Any]) -> Bound:
        """Bind the inputs, run once to learn the outputs' shapes, and bind tensors of those shapes."""
        tensors = named_tensors(self.session, inputs, self.device)
        binding = self.session.io_binding()
        for value in self.session.get_inputs():
            self._bind(binding.bind_input, value, tensors[value.name])
        for value in self.session.get_outputs():
            binding.bind_output(value.name, self.device)
        pytorch.synchronise()  # the session has a stream of its own
        self.session.run_with_iobinding(binding)
        shapes = [made.shape() for made in binding.get_outputs()]
        outputs = []
        for value, shape in zip(self.session.get_outputs(), shapes, strict=True):
            outputs.append(torch.empty(shape, dtype=element_of(value)[1], device=self.device))
            self._bind(binding.bind_output, value, outputs[-1])
        return Bound(binding, tuple(tensors.values()), tuple(outputs))

    def _bind(self, bind: Any, value: Any, tensor: torch.Tensor) -> None:
        bind(
            value.name, self.device, 0, element_of(value)[0], tuple(tensor.shape), tensor.data_ptr()
        )

    def __call__(self, fed: Bound) -> Bound:
        """Run once into the bound outputs."""
        self.session.run_with_iobinding(fed.binding)
        return fed

    def collect(self, output: Bound) -> list[Any]:
        """Copy the bound outputs to the host."""
        return [array for tensor in output.outputs for array in collect(tensor)]


def host(session: ort.InferenceSession) -> HostFeeding | HostValues:
    """Return host feeding with arrays where numpy has all the types, else with ONNX Runtime's own values."""
    values = [*session.get_inputs(), *session.get_outputs()]
    return (
        HostValues(session)
        if any(value.type == BFLOAT16 for value in values)
        else HostFeeding(session)
    )


def host_value(tensor: torch.Tensor) -> ort.OrtValue:
    """Return a tensor on the host as ONNX Runtime's value; bfloat16 goes through numpy as 16 plain bits."""
    if tensor.dtype == torch.bfloat16:
        return ort.OrtValue.ortvalue_from_numpy_with_onnx_type(
            tensor.view(torch.uint16).numpy(), ELEMENTS[BFLOAT16][0]
        )
    return ort.OrtValue.ortvalue_from_numpy(tensor.numpy())


def element_of(value: Any) -> tuple[int, torch.dtype]:
    """Return ONNX's number and PyTorch's type for a value of the session; raise `UnsupportedError` for one that PyTorch lacks."""
    if value.type not in ELEMENTS:
        message = f"{value.type} cannot be fed from PyTorch's tensors"
        raise UnsupportedError(message)
    return ELEMENTS[value.type]


def named_tensors(
    session: ort.InferenceSession, inputs: list[Any], device: str
) -> dict[str, torch.Tensor]:
    """Return `inputs` on `device` by the session's input names, in its types."""
    declared = session.get_inputs()
    return {
        value.name: torch.from_numpy(array)
        .to(device=device, dtype=element_of(value)[1])
        .contiguous()
        for value, array in zip(declared, inputs, strict=True)
    }


def named_arrays(session: ort.InferenceSession, inputs: list[Any]) -> dict[str, Any]:
    """Return `inputs` by the session's input names, in its types; raise `UnsupportedError` for a type numpy does not have."""
    declared = session.get_inputs()
    missing = [value.type for value in declared if value.type not in ARRAY_TYPES]
    if missing:
        message = f"{missing[0]} cannot be fed through numpy"
        raise UnsupportedError(message)
    return {
        value.name: np.ascontiguousarray(array, dtype=ARRAY_TYPES[value.type])
        for value, array in zip(declared, inputs, strict=True)
    }
