"""What names and weights of an ONNX file tell about the sizes and the values of its inputs.

A file declares neither the range of its integers nor how its free dimensions depend on each other.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import onnx

from probes.protocol import IMAGE_SIZE

#: Operators whose outputs have values of their first input.
SAME_VALUES = {
    *("Cast", "Identity", "Reshape", "Squeeze", "Unsqueeze", "Flatten", "Transpose", "Expand"),
    *("Slice", "Split", "Tile", "Gather", "GatherElements", "GatherND", "Pad"),
}
#: Operators that read the rows of tables: the places of a table and of its indices.
TABLES = {
    "Gather": ((0, 1),),
    "GatherBlockQuantized": ((0, 1),),
    "EmbedLayerNormalization": ((2, 0), (4, 1), (3, 8)),
}
#: Operators whose second input is a weight: an axis of the first one, and that of the weight that
#: has as many elements, or elements for each group.
FIXED_SIZES = {
    "Conv": (1, 1),
    "MatMul": (-1, -2),
    "Gemm": (1, 0),
    "LSTM": (2, 2),
    "GRU": (2, 2),
    "LayerNormalization": (-1, -1),
    "BatchNormalization": (1, 0),
}
#: Most numbers that may be added to indices, such as the offset of each column.
MOST_OFFSETS = 1 << 16
#: Names of the height and the width of images.
IMAGE_SIDES = {"height", "width", "h", "w", "image_height", "image_width"}
ARITHMETIC: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.floordiv,
    ast.FloorDiv: operator.floordiv,
}
#: Token ids are below this if no table of them is found: every vocabulary has them.
INTEGERS_BELOW = 100
#: Names of inputs with the types of tokens, and with the lengths of sequences.
TYPES, TOKEN_TYPES = re.compile("token_?type|segment"), 2
LENGTHS = re.compile("length|(^|_)lens?($|_)")


def count_rows(file: str, given: str) -> tuple[int, bool]:
    """Return the only batch size of a file and True, or the rows of the given inputs and False."""
    graph = onnx.load(file, load_external_data=False).graph
    weights = {weight.name for weight in graph.initializer}
    shapes = [value.type.tensor_type.shape for value in graph.input if value.name not in weights]
    first = {shape.dim[0].dim_value for shape in shapes if shape.dim}
    size = first.pop() if len(first) == 1 else 0  # a free dimension has the value 0
    if size or not given:
        return size, bool(size)
    from probes.subjects import factory  # noqa: PLC0415 - imports torch, which files do not need

    return factory.shared_rows(*factory.read_given(given)), False


class InputDemands:
    """What the nodes and weights of a graph demand of its inputs."""

    def __init__(self, graph: onnx.GraphProto) -> None:
        #: Rows of the smallest table that the values of each input are indices of.
        self.rows: dict[str, int] = {}
        #: The size that a weight demands of each input and axis.
        self.sizes: dict[tuple[str, int], int] = {}
        self._weights: dict[str, onnx.TensorProto] = {}
        #: The input whose values each value of the graph has, and what is added to them.
        self._origins = {value.name: (value.name, 0) for value in graph.input}
        for name, part in _parts(graph):
            if isinstance(part, onnx.TensorProto):
                self._weights[name] = part
                self._origins.pop(name, None)
            else:
                self._note_rows(part)
                self._note_size(part)
                self._follow(part)
        self._weights.clear()  # they may be large

    def _note_rows(self, node: onnx.NodeProto) -> None:
        for table, indices in TABLES.get(node.op_type, ()):
            names = dict(enumerate(node.input))
            name, shift = self._origins.get(names.get(indices, ""), ("", 0))
            weight = self._weights.get(names.get(table, ""))
            if name and weight is not None:
                rows = weight.dims[_attribute(node, "axis", 0)] - shift
                self.rows[name] = min(rows, self.rows.get(name, rows))

    def _note_size(self, node: onnx.NodeProto) -> None:
        first, second = (*node.input, "", "")[:2]
        weight = self._weights.get(second)
        if node.op_type not in FIXED_SIZES or weight is None:
            return
        axis, of_weight = FIXED_SIZES[node.op_type]
        of_weight = _attribute(node, "transB", of_weight)
        if self._origins.get(first) == (first, 0) and len(weight.dims) >= abs(of_weight):
            self.sizes[first, axis] = weight.dims[of_weight] * _attribute(node, "group", 1)

    def _follow(self, node: onnx.NodeProto) -> None:
        """Note which outputs have the values of an input, or the dimensions of a weight."""
        first, second = (*node.input, "", "")[:2]
        if node.op_type in {"Cast", "Identity", "DequantizeLinear"} and first in self._weights:
            self._weights[node.output[0]] = self._weights[first]
        elif node.op_type in SAME_VALUES and first in self._origins:
            self._origins.update(dict.fromkeys(node.output, self._origins[first]))
        elif node.op_type == "Add" and first in self._origins and second in self._weights:
            added, (name, shift) = self._weights[second], self._origins[first]
            if np.prod(added.dims) <= MOST_OFFSETS and not added.external_data:
                number = onnx.numpy_helper.to_array(added).max(initial=0)
                self._origins[node.output[0]] = (name, shift + int(number))


def _parts(graph: onnx.GraphProto) -> Iterator[tuple[str, onnx.TensorProto | onnx.NodeProto]]:
    """Yield weights and nodes of a graph, and of the branches in it, by name in their order."""
    yield from ((weight.name, weight) for weight in graph.initializer)
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _parts(attribute.g)
            if node.op_type == "Constant" and attribute.HasField("t"):
                yield node.output[0], attribute.t
        yield node.name, node


def _attribute(node: onnx.NodeProto, name: str, default: int) -> int:
    return next((attribute.i for attribute in node.attribute if attribute.name == name), default)


def solve_sizes(
    declared: Sequence[Any], demands: InputDemands, batch_size: int, length: int
) -> list[tuple[int, ...]]:
    """Return the sizes of each input; `declared` are the inputs of a session.

    A free first dimension is the batch; if some are named so, only those. A weight may demand the
    size of another one, height and width are those of an image, and a name may state a sum, such as
    `past + seq`, which is also the size of masks beside a cache. All others are `length`.
    """
    names = _names(declared)
    others = _names(value for value in declared if not is_mask(value.name))
    own_of_masks = {name for name in names - others if name.isidentifier()}
    first = {value.shape[0] for value in declared if value.shape} & names
    batch = {name for name in first if "batch" in name.lower()} or first
    has_past = any("past" in name.lower() for name in (*names, *(value.name for value in declared)))
    new = [value.shape[-1] for value in declared if value.name.endswith("input_ids")]
    total = length + next((size for size in new if isinstance(size, int)), length)
    sizes = _Sizes(batch, own_of_masks, demands, batch_size, length, total if has_past else None)
    return [
        tuple(sizes.of_axis(value, axis) for axis in range(len(value.shape))) for value in declared
    ]


class _Sizes(NamedTuple):
    """The sizes of free dimensions."""

    #: Names of the batch, and those that only masks have.
    batch: set[str]
    own_of_masks: set[str]
    demands: InputDemands
    batch_size: int
    length: int
    #: Length of the cache and of the new tokens; None without a cache.
    total: int | None

    def of_name(self, name: str) -> int:
        lower = name.lower()
        if name in self.batch or "batch" in lower:
            return self.batch_size
        if lower in IMAGE_SIDES:
            return IMAGE_SIZE
        return self.total if self.total is not None and "total" in lower else self.length

    def of_axis(self, value: Any, axis: int) -> int:
        size = value.shape[axis]
        if isinstance(size, int):
            return size
        name = size or ""
        if axis == 0 or "batch" in name.lower():
            return self.of_name(name) if name else self.batch_size
        is_own = not name or name in self.own_of_masks
        if self.total is not None and is_mask(value.name) and is_own:
            return self.total
        for place in (axis, axis - len(value.shape)):
            if (value.name, place) in self.demands.sizes:
                return self.demands.sizes[value.name, place]
        return _evaluate(name, self.of_name) if name else self.length


def _names(values: Iterable[Any]) -> set[str]:
    """Return the names of the free dimensions."""
    return {size for value in values for size in value.shape if isinstance(size, str)}


def _evaluate(text: str, of_name: Callable[[str], int]) -> int:
    """Return the size that an expression of names states; that of the whole text for none."""

    def value_of(node: ast.expr) -> int:
        match node:
            case ast.Name(id=name):
                return of_name(name)
            case ast.Constant(value=int(number)):
                return number
            case ast.BinOp(left=left, op=op, right=right) if type(op) in ARITHMETIC:
                return ARITHMETIC[type(op)](value_of(left), value_of(right))
        raise ValueError(text)

    try:
        return max(value_of(ast.parse(text, mode="eval").body), 1)
    except (SyntaxError, ValueError, ZeroDivisionError):
        return of_name(text)


def is_mask(name: str) -> bool:
    return "mask" in name.lower()


def draw_integers(
    name: str,
    shape: tuple[int, ...],
    generator: np.random.Generator,
    *,
    rows: int | None,
    length: int,
    below: int,
) -> Any:
    """Return `int64` values of `shape` that an input of this name takes.

    Masks are ones that end early, positions count, and lengths are up to `length`. Others are below
    `rows`, those of the table that they index, or `below` if there is none.
    """
    lower = name.lower()
    if shape and is_mask(name):
        ends = generator.integers(-(-shape[-1] // 2), shape[-1] + 1, size=(*shape[:-1], 1))
        return (np.arange(shape[-1]) < ends).astype(np.int64)
    if shape and "position" in lower:
        return np.broadcast_to(np.arange(shape[-1]) % (rows or shape[-1]), shape).astype(np.int64)
    if LENGTHS.search(lower):
        return generator.integers(-(-length // 2), length + 1, size=shape)
    if TYPES.search(lower):
        rows = min(rows or TOKEN_TYPES, TOKEN_TYPES)
    return generator.integers(0, max(rows or below, 1), size=shape)
