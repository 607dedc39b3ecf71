"""A model given as an ONNX file, for the stacks that take one."""

from __future__ import annotations

import collections
import copy
import re
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from onnxruntime.capi import onnxruntime_pybind11_state as ort_state

from probes import arrays
from probes.adapter import NO_LENGTH, Findings, ModelError, Subject
from probes.checking import program_cell
from probes.events import Workload
from probes.facts import InputSpec
from probes.protocol import Request
from probes.shape import Shape
from probes.subjects import onnx_inputs

#: numpy's type of each tensor type, by ONNX Runtime's name; numpy has no bfloat16.
ARRAY_TYPES: dict[str, Any] = {"tensor(float)": np.dtype("float32")} | {
    f"tensor({name})": np.dtype(name)
    for name in (
        *("float16", "double", "int64", "int32", "int16", "int8"),
        *("uint64", "uint32", "uint16", "uint8", "bool"),
    )
}
WEIGHT_PRECISIONS = {
    onnx.TensorProto.FLOAT: "float32",
    onnx.TensorProto.FLOAT16: "float16",
    onnx.TensorProto.BFLOAT16: "bfloat16",
    onnx.TensorProto.DOUBLE: "float64",
}
#: Limits of integers that are tried one after the other where nothing tells their range.
INTEGER_LIMITS = (onnx_inputs.INTEGERS_BELOW, 2, 1)
#: What ONNX Runtime raises for a file that it cannot load: no model, an unknown operator, or
#: weights that are missing. They have no base class in common but `Exception`.
LOADING_ERRORS = (
    ort_state.Fail,
    ort_state.InvalidArgument,
    ort_state.InvalidGraph,
    ort_state.InvalidProtobuf,
    ort_state.NotImplemented,
)
#: What it raises for inputs that a file does not take.
CALL_ERRORS = (ort_state.Fail, ort_state.InvalidArgument, ort_state.RuntimeException)
#: How to export an output that is no tensor, by the beginning of its type.
TENSOR_OUTPUTS = {
    "seq(map": 'export the classifier without ZipMap: skl2onnx has options={"zipmap": False}',
    "seq(": "end the graph with ConcatFromSequence or SequenceAt, which return a tensor",
    "map(": "leave out the last node, so that the output is the tensor that the map is made of",
    "optional(": "end the graph with OptionalGetElement, which returns a tensor",
    "tensor(string)": "leave this output out: the index of a label is a number",
}
#: What stands before the reason in their messages: a number, a name and the path.
BEFORE_REASON = re.compile(r"^\[ONNXRuntimeError\] : \d+ : \w+ : (Load model from .*? failed:)?\s*")


class OnnxSubject(Subject):
    """An ONNX file with inputs of its declared shapes; see `probes.adapter.Subject`.

    Its reference is the same file, run by ONNX Runtime without graph optimisation.
    """

    def __init__(self, request: Request) -> None:
        self.file = request.subject["name"]
        self._request = request
        self._device = request.device
        options = ort.SessionOptions()
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        # Some operators race with several threads, and the reference must not vary.
        options.intra_op_num_threads = 1
        self._unoptimised = open_session(self.file, options)
        refuse_other_types(self.file, self._unoptimised)
        graph = onnx.load(self.file, load_external_data=False).graph
        self._demands, weights = onnx_inputs.InputDemands(graph), graph.initializer
        self._integers_below = INTEGER_LIMITS[0]
        self._given = self._read_given(request.subject.get("inputs", ""))
        self.parameters = sum(int(np.prod(tensor.dims)) for tensor in weights)
        self.parameter_bytes = sum(
            int(np.prod(tensor.dims)) * item_bytes(tensor.data_type) for tensor in weights
        )
        types = [ARRAY_TYPES[value.type] for value in self._unoptimised.get_inputs()]
        of_inputs = (dtype.name for dtype in types if dtype.kind == "f")
        self.dtype = precision_of(weights) or next(of_inputs, "float32")

    @property
    def has_length(self) -> bool:
        return not self._given and self._sizes(1, 8) != self._sizes(1, 9)

    @property
    def has_batch(self) -> bool:
        """Whether a first dimension is free, or all inputs share it; see `_check_batch_size`."""
        first = self._first_dimensions()
        return len(set(first)) == 1 or not all(isinstance(size, int) for size in first)

    def _first_dimensions(self) -> list[Any]:
        """Return numbers, or names if free. Given inputs stay as they are unless they share it."""
        given = [len(array) for array in self._given if array.ndim]
        if len(set(given)) > 1:
            return given
        return [value.shape[0] for value in self._unoptimised.get_inputs() if value.shape]

    def length(self, request: Request) -> int | None:
        return request.input_tokens if self.has_length else None

    def at(self, request: Request) -> OnnxSubject:
        if not self.has_length:
            raise ModelError(*NO_LENGTH)
        changed = copy.copy(self)
        changed._request = request  # noqa: SLF001 - a copy of this object
        return changed

    def inputs(self, batch_size: int, number: int) -> list[Any]:
        self._check_batch_size(batch_size)
        if self._given:
            return self._rows_of_given(batch_size, number)
        generator = np.random.default_rng([self._request.seed, batch_size, number])
        shapes = self._sizes(batch_size, self._request.input_tokens)
        return [
            self._draw(value, generator, shape)
            for value, shape in zip(self._unoptimised.get_inputs(), shapes, strict=True)
        ]

    def describe_inputs(self) -> tuple[InputSpec, ...]:
        """Describe those of the first shape, which the reference worker has written.

        Integers have the range of all input sets.
        """
        shape = self._request.shapes[0]
        written = program_cell.load_inputs(self._request, shape)
        is_fixed = all(isinstance(size, int) for size in self._first_dimensions())
        declared, specs = self._unoptimised.get_inputs(), list[InputSpec]()
        for value, *sets in zip(declared, *written, strict=True):
            sizes, dtype = sets[0].shape, sets[0].dtype
            is_free = not all(isinstance(size, int) for size in value.shape[:1])
            is_batched = sizes[:1] == (shape.batch_size,) and (is_free or is_fixed)
            values = np.concatenate([each.reshape(-1) for each in sets])
            is_drawn = dtype.kind != "f" and values.size
            bounds = (int(values.min()), int(values.max()) + 1) if is_drawn else (None, None)
            specs.append(InputSpec("", sizes[is_batched:], dtype.name, is_batched, *bounds))
        return tuple(specs)

    def tensors(self, inputs: list[Any]) -> tuple[Any, ...]:
        """Return the inputs as PyTorch's tensors on the device."""
        import torch  # noqa: PLC0415 - most of what opens a file does not need it

        return tuple(torch.from_numpy(array).to(self._device) for array in inputs)

    def settle_inputs(self, batch_size: int, input_sets: int) -> int:
        """Find integers that the file takes; raise `ModelError` if it takes none of them."""
        failure = None
        for self._integers_below in INTEGER_LIMITS:
            failure = self._try_inputs(batch_size, input_sets)
            if failure is None:
                return input_sets
        sizes = ", ".join(
            f"{value.name} {'x'.join(map(str, array.shape)) or 'a number'}"
            for value, array in zip(
                self._unoptimised.get_inputs(), self.inputs(batch_size, 0), strict=True
            )
        )
        raise ModelError(
            f"the file does not take inputs of these sizes and values: {sizes}: {failure}",
            "give inputs that it takes with --inputs FILE.npz, an array for each input by its name",
        )

    def _try_inputs(self, batch_size: int, input_sets: int) -> str | None:
        """Return why the file does not take the inputs; None if it does."""
        try:
            for number in range(input_sets):
                self._run(self.inputs(batch_size, number))
        except CALL_ERRORS as problem:
            if "memory" in str(problem):
                raise
            return reason_of(problem)
        return None

    def _read_given(self, place: str) -> list[Any]:
        if not place:
            return []
        from probes.subjects import factory  # noqa: PLC0415 - imports torch, which files do not need

        arguments, given = factory.read_given(place)
        declared = self._unoptimised.get_inputs()
        given |= zip([value.name for value in declared], arguments, strict=False)
        missing = [value.name for value in declared if value.name not in given]
        if missing:
            reason = f"{place!r} has no array for the inputs {', '.join(missing)} of the file"
            raise ModelError(reason, "name an array, a key, like each input")
        return [np.asarray(given[value.name]).astype(ARRAY_TYPES[value.type]) for value in declared]

    def _rows_of_given(self, batch_size: int, number: int) -> list[Any]:
        """Return the next rows of the given arrays for each input set, or all if they differ."""
        if len({len(array) for array in self._given if array.ndim}) != 1:
            return self._given
        rows = range(number * batch_size, (number + 1) * batch_size)
        return [
            array.take(rows, axis=0, mode="wrap") if array.ndim else array for array in self._given
        ]

    def _draw(self, value: Any, generator: np.random.Generator, shape: tuple[int, ...]) -> Any:
        array_type = ARRAY_TYPES[value.type]
        if array_type.kind == "f":
            return generator.standard_normal(shape).astype(array_type)
        drawn = onnx_inputs.draw_integers(
            value.name,
            shape,
            generator,
            rows=2 if array_type.kind == "b" else self._demands.rows.get(value.name),
            length=self._request.input_tokens,
            below=self._integers_below,
        )
        return drawn.astype(array_type)

    def _sizes(self, batch_size: int, length: int) -> list[tuple[int, ...]]:
        return onnx_inputs.solve_sizes(
            self._unoptimised.get_inputs(), self._demands, batch_size, length
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

    def reference(
        self,
        input_sets: list[list[Any]],
        *,
        quick: bool = False,  # noqa: ARG002
    ) -> tuple[str, Iterator[list[Any]]]:
        return "onnxruntime without optimisation", map(self._run, input_sets)

    def examine_calls(self, input_sets: list[list[Any]]) -> Findings:
        """Call the file twice with each input set: it may draw random numbers."""
        pairs = [[self._run(inputs) for _ in range(2)] for inputs in input_sets]
        return Findings(
            {
                index: None
                for pair in pairs
                for index, (one, other) in enumerate(zip(*pair, strict=True))
                if not arrays.is_same(one, other)
            }
        )

    def _run(self, inputs: list[Any]) -> list[Any]:
        names = [value.name for value in self._unoptimised.get_inputs()]
        outputs: list[Any] = self._unoptimised.run(None, dict(zip(names, inputs, strict=True)))
        return outputs

    def workload(self, shape: Shape, inputs: list[Any]) -> Workload:  # noqa: ARG002
        return Workload(
            shape,
            None,
            fixed_inputs=len(self._given),
            has_length=self.has_length,
            has_batch=self.has_batch,
        )


def refuse_other_types(file: str, session: ort.InferenceSession) -> None:
    for value in session.get_inputs():
        if value.type not in ARRAY_TYPES:
            reason = f"input {value.name!r} of {file!r} has the type {value.type}"
            raise ModelError(reason, f"p3-advisor makes inputs of {', '.join(ARRAY_TYPES)}")
    for value in session.get_outputs():
        for start, fix in TENSOR_OUTPUTS.items():
            if value.type.startswith(start):
                reason = f"output {value.name!r} of {file!r} is {value.type}, no tensor of numbers"
                raise ModelError(reason, fix)


def open_session(file: str, options: ort.SessionOptions) -> ort.InferenceSession:
    """Load the file on the CPU; raise `ModelError` if it cannot be loaded."""
    try:
        return ort.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    except LOADING_ERRORS as problem:
        raise ModelError(
            f"ONNX Runtime {ort.__version__} cannot load {file!r}: {reason_of(problem)}",
            "check the file with onnx.checker.check_model; its external data must be next to it,"
            " and its operators must be standard ones",
        ) from problem


def reason_of(problem: Exception) -> str:
    return BEFORE_REASON.sub("", str(problem).strip().partition("\n")[0])


def precision_of(weights: Iterable[onnx.TensorProto]) -> str:
    """Return the precision that most floating-point weights have; empty without one."""
    elements = collections.Counter[str]()
    for tensor in weights:
        elements[WEIGHT_PRECISIONS.get(tensor.data_type, "")] += int(np.prod(tensor.dims))
    return next((name for name, _ in elements.most_common() if name), "")


def item_bytes(data_type: int) -> int:
    return int(onnx.helper.tensor_dtype_to_np_dtype(data_type).itemsize)
