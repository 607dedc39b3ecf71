"""Sessions of ONNX Runtime as programs, fed from the host or with what is bound on the device."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import torch

from probes.adapter import UnsupportedError
from probes.stacks import pytorch
from probes.subjects.onnx_file import ARRAY_TYPES
from probes.subjects.outputs import collect

BFLOAT16 = "tensor(bfloat16)"
#: ONNX's number and PyTorch's type of each element type, by ONNX Runtime's name.
ELEMENT_TYPES: dict[str, tuple[int, torch.dtype]] = {
    name: (onnx.helper.np_dtype_to_tensor_dtype(kind), torch.from_numpy(np.empty(0, kind)).dtype)
    for name, kind in ARRAY_TYPES.items()
} | {BFLOAT16: (onnx.TensorProto.BFLOAT16, torch.bfloat16)}


@dataclasses.dataclass(frozen=True)
class SessionProgram:
    """Takes PyTorch's tensors on the host as arrays, and returns arrays, as most examples do.

    On a device a run copies in and out.
    """

    session: ort.InferenceSession
    #: For which the session was opened.
    provider: str
    #: The model's file if its weights are quantised.
    quantised: pathlib.Path | None = None

    def feed(self, inputs: list[Any]) -> Any:
        return host_tensors(self.session, inputs)

    def __call__(self, device_inputs: Any) -> Any:
        feeds = {name: tensor.numpy() for name, tensor in device_inputs.items()}
        return self.session.run(None, feeds)

    def collect(self, output: Any) -> list[Any]:
        return collect(output)


class HostValues(SessionProgram):
    """Takes and returns `OrtValue`s on the host, for element types that numpy does not have."""

    def feed(self, inputs: list[Any]) -> dict[str, torch.Tensor]:
        return named_tensors(self.session, inputs, "cpu")

    def __call__(self, device_inputs: dict[str, torch.Tensor]) -> Any:
        from_tensor = ort.OrtValue.from_dlpack
        feeds = {name: from_tensor(tensor.contiguous()) for name, tensor in device_inputs.items()}
        return self.session.run_with_ort_values(None, feeds)

    def collect(self, output: Any) -> list[Any]:
        return collect([torch.from_dlpack(value) for value in output])


class ArrayBinding(SessionProgram):
    """Binds the caller's tensors on the CPU at each call; a run does not copy them.

    The outputs are the caller's until the next call, which writes to the same memory.
    """

    def feed(self, inputs: list[Any]) -> tuple[Any, dict[str, torch.Tensor]]:
        binding = self.session.io_binding()
        for value in self.session.get_outputs():
            binding.bind_output(value.name, "cpu")
        return binding, host_tensors(self.session, inputs)

    def __call__(self, device_inputs: tuple[Any, dict[str, torch.Tensor]]) -> list[torch.Tensor]:
        binding, tensors = device_inputs
        for name, tensor in tensors.items():
            binding.bind_cpu_input(name, tensor.contiguous().numpy())
        self.session.run_with_iobinding(binding)
        return [torch.from_dlpack(value) for value in binding.get_outputs()]


@dataclasses.dataclass(frozen=True)
class BoundTensors:
    """A binding with the tensors that it points to, which must outlive it."""

    binding: Any
    #: Pairs of an input of the session and the tensor that a call binds to it.
    inputs: tuple[tuple[Any, torch.Tensor], ...]
    outputs: tuple[torch.Tensor, ...]


@dataclasses.dataclass(frozen=True)
class TensorBinding(SessionProgram):
    """Binds PyTorch's tensors in every type that both have: inputs at each call, outputs once.

    The outputs are the caller's until the next call. A run neither copies nor allocates.
    """

    device: str = "cuda"

    def feed(self, inputs: list[Any]) -> BoundTensors:
        """Bind the inputs, run once to learn the outputs' shapes, and bind tensors of them."""
        tensors = named_tensors(self.session, inputs, self.device)
        pairs = tuple((value, tensors[value.name]) for value in self.session.get_inputs())
        binding = self.session.io_binding()
        for value, tensor in pairs:
            self._bind(binding.bind_input, value, tensor)
        declared = self.session.get_outputs()
        for value in declared:
            binding.bind_output(value.name, self.device)
        pytorch.synchronise()  # the session runs on its own stream
        self.session.run_with_iobinding(binding)
        outputs = tuple(
            torch.empty(made.shape(), dtype=element_type_of(value)[1], device=self.device)
            for value, made in zip(declared, binding.get_outputs(), strict=True)
        )
        for value, tensor in zip(declared, outputs, strict=True):
            self._bind(binding.bind_output, value, tensor)
        return BoundTensors(binding, pairs, outputs)

    def _bind(self, bind: Callable[..., None], value: Any, tensor: torch.Tensor) -> None:
        number, _ = element_type_of(value)
        bind(value.name, self.device, 0, number, tuple(tensor.shape), tensor.data_ptr())

    def __call__(self, device_inputs: BoundTensors) -> BoundTensors:
        for value, tensor in device_inputs.inputs:
            self._bind(device_inputs.binding.bind_input, value, tensor)
        self.session.run_with_iobinding(device_inputs.binding)
        return device_inputs

    def collect(self, output: BoundTensors) -> list[Any]:
        return collect(output.outputs)


def element_type_of(value: Any) -> tuple[int, torch.dtype]:
    """Raise `UnsupportedError` for a type that PyTorch does not have."""
    if value.type not in ELEMENT_TYPES:
        raise UnsupportedError(f"{value.type} cannot be fed from PyTorch's tensors")
    return ELEMENT_TYPES[value.type]


def named_tensors(
    session: ort.InferenceSession, inputs: list[Any], device: str
) -> dict[str, torch.Tensor]:
    return {
        value.name: torch.from_numpy(array)
        .to(device=device, dtype=element_type_of(value)[1])
        .contiguous()
        for value, array in zip(session.get_inputs(), inputs, strict=True)
    }


def host_tensors(session: ort.InferenceSession, inputs: list[Any]) -> dict[str, torch.Tensor]:
    """Raise `UnsupportedError` for a type that numpy does not have: a call turns them to arrays."""
    missing = [each.type for each in session.get_inputs() if each.type not in ARRAY_TYPES]
    if missing:
        raise UnsupportedError(f"{missing[0]} cannot be fed through numpy")
    return named_tensors(session, inputs, "cpu")
