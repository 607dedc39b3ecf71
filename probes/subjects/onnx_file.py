"""A model given as an ONNX file, for the stacks that take one."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from onnxruntime.capi import onnxruntime_pybind11_state as ort_state

from probes.adapter import ModelError
from probes.protocol import Request

#: numpy's type of each tensor type, by ONNX Runtime's name; numpy has no bfloat16.
ARRAY_TYPES: dict[str, Any] = {
    "tensor(float)": np.float32,
    "tensor(float16)": np.float16,
    "tensor(double)": np.float64,
    "tensor(int64)": np.int64,
    "tensor(int32)": np.int32,
    "tensor(int16)": np.int16,
    "tensor(int8)": np.int8,
    "tensor(uint64)": np.uint64,
    "tensor(uint32)": np.uint32,
    "tensor(uint16)": np.uint16,
    "tensor(uint8)": np.uint8,
    "tensor(bool)": np.bool_,
}
PRECISIONS = {"tensor(float)": "float32", "tensor(float16)": "float16", "tensor(double)": "float64"}
WEIGHT_PRECISIONS = {
    onnx.TensorProto.FLOAT: "float32",
    onnx.TensorProto.FLOAT16: "float16",
    onnx.TensorProto.BFLOAT16: "bfloat16",
    onnx.TensorProto.DOUBLE: "float64",
}
#: A file does not declare the range of its integer inputs; every vocabulary has token ids below
#: this.
INTEGERS_BELOW = 100
#: What ONNX Runtime raises for a file that it cannot load: no model, an unknown operator, or
#: weights that are missing. They have no base class in common but `Exception`.
LOADING_ERRORS = (
    ort_state.Fail,
    ort_state.InvalidArgument,
    ort_state.InvalidGraph,
    ort_state.InvalidProtobuf,
    ort_state.NotImplemented,
)
#: What stands before the reason in their messages: a number, a name and the path.
BEFORE_REASON = re.compile(r"^\[ONNXRuntimeError\] : \d+ : \w+ : (Load model from .*? failed:)?\s*")


class OnnxSubject:
    """An ONNX file with inputs of its declared shapes; see `probes.adapter.Subject`.

    Its reference is the same file, run by ONNX Runtime without graph optimisation.
    """

    unit = "samples"
    units_per_sample = 1
    weights = "from the file"

    def __init__(self, request: Request) -> None:
        self.file = request.subject["name"]
        self._request = request
        options = ort.SessionOptions()
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        # Some operators race with several threads, and the reference must not vary.
        options.intra_op_num_threads = 1
        self._unoptimised = open_session(self.file, options)
        weights = onnx.load(self.file, load_external_data=False).graph.initializer
        self.parameters = sum(int(np.prod(tensor.dims)) for tensor in weights)
        self.parameter_bytes = sum(
            int(np.prod(tensor.dims)) * item_bytes(tensor.data_type) for tensor in weights
        )
        types = [value.type for value in self._unoptimised.get_inputs()]
        of_inputs = (PRECISIONS[kind] for kind in types if kind in PRECISIONS)
        self.dtype = precision_of(weights) or next(of_inputs, "float32")

    @property
    def has_length(self) -> bool:
        """Whether a dimension other than the batch is free, so that `input_tokens` is its size."""
        return any(
            not isinstance(size, int)
            for value in self._unoptimised.get_inputs()
            for size in value.shape[1:]
        )

    @property
    def has_batch(self) -> bool:
        """Whether a first dimension is free, or all inputs share it; see `_check_batch_size`."""
        first = self._first_dimensions()
        return len(set(first)) == 1 or not all(isinstance(size, int) for size in first)

    def _first_dimensions(self) -> list[Any]:
        """Return the first dimension of each input that has one: a number, or a name if free."""
        return [value.shape[0] for value in self._unoptimised.get_inputs() if value.shape]

    def at(self, request: Request) -> OnnxSubject:
        """Return the same file with inputs of the length of `request`.

        Raise `ModelError` for a file without a free length.
        """
        if not self.has_length:
            reason = "no dimension of the inputs is a free length"
            raise ModelError(reason, "give one number to --input-tokens")
        found = copy.copy(self)
        found._request = request  # noqa: SLF001 - a copy of this object
        return found

    def inputs(self, batch_size: int, number: int) -> list[Any]:
        """Return seeded random arrays of the shapes and types that the file declares."""
        generator = np.random.default_rng([self._request.seed, batch_size, number])
        return [
            self._draw(value, generator, batch_size) for value in self._unoptimised.get_inputs()
        ]

    def _draw(self, value: Any, generator: np.random.Generator, batch_size: int) -> Any:
        if value.type not in ARRAY_TYPES:
            reason = f"input {value.name!r} of {self.file!r} has the type {value.type}"
            raise ModelError(reason, f"p3-advisor makes inputs of {', '.join(ARRAY_TYPES)}")
        shape = self._shape(value, batch_size)
        array_type = ARRAY_TYPES[value.type]
        if np.issubdtype(array_type, np.floating):
            return generator.standard_normal(shape).astype(array_type)
        high = 2 if array_type is np.bool_ else INTEGERS_BELOW
        return generator.integers(0, high, size=shape).astype(array_type)

    def _shape(self, value: Any, batch_size: int) -> tuple[int, ...]:
        self._check_batch_size(batch_size)
        return tuple(
            size
            if isinstance(size, int)
            else batch_size
            if dimension == 0
            else self._request.input_tokens
            for dimension, size in enumerate(value.shape)
        )

    def _check_batch_size(self, batch_size: int) -> None:
        """Raise `ModelError` for a batch size that the inputs cannot have.

        If the first dimension of an input is free, that is the batch. Otherwise a first dimension
        that all inputs share is the only batch size; without one the shapes are used as they are,
        which is batch size 1.
        """
        first = self._first_dimensions()
        if not all(isinstance(size, int) for size in first):
            return
        (only, *others) = sorted(set(first)) or [1]
        if others and batch_size != 1:
            sizes = ", ".join(map(str, first))
            reason = f"the inputs of {self.file!r} have the fixed first dimensions {sizes}"
            raise ModelError(reason, "use --batch-sizes 1: the file's shapes are used as they are")
        if not others and batch_size != only:
            reason = f"the inputs of {self.file!r} have a fixed first dimension of {only}"
            raise ModelError(
                reason, f"use --batch-sizes {only}, or export it with a dynamic batch dimension"
            )

    def reference(self, input_sets: list[list[Any]]) -> tuple[str, Iterator[list[Any]]]:
        """Return a name, and an iterator over the unoptimised outputs for each input set."""
        names = [value.name for value in self._unoptimised.get_inputs()]
        outputs = (
            self._unoptimised.run(None, dict(zip(names, inputs, strict=True)))
            for inputs in input_sets
        )
        return "onnxruntime without optimisation", outputs

    def flops(self, inputs: list[Any]) -> int | None:  # noqa: ARG002
        """Return None: the operations of a file are not counted."""
        return None


def open_session(file: str, options: ort.SessionOptions) -> ort.InferenceSession:
    """Return a session on the CPU; raise `ModelError` for a file that cannot be loaded."""
    try:
        return ort.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    except LOADING_ERRORS as problem:
        reason = BEFORE_REASON.sub("", str(problem).strip().partition("\n")[0])
        raise ModelError(
            f"ONNX Runtime {ort.__version__} cannot load {file!r}: {reason}",
            "check the file with onnx.checker.check_model; its external data must be next to it,"
            " and its operators must be standard ones",
        ) from problem


def precision_of(weights: Iterable[onnx.TensorProto]) -> str:
    """Return the precision that most floating-point weights have; empty without one."""
    elements: dict[str, int] = {}
    for tensor in weights:
        if name := WEIGHT_PRECISIONS.get(tensor.data_type, ""):
            elements[name] = elements.get(name, 0) + int(np.prod(tensor.dims))
    return max(elements, key=lambda name: elements[name], default="")


def item_bytes(data_type: int) -> int:
    """Return the bytes of one element of an ONNX tensor type."""
    return int(onnx.helper.tensor_dtype_to_np_dtype(data_type).itemsize)
