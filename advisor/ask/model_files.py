"""Read from the files of a model, without any stack: a fixed batch size, the number of weights."""

from __future__ import annotations

import math
import mmap
import pathlib
import zipfile
import zlib
from collections.abc import Container, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

#: Where `torch.export.save` writes the graph.
PROGRAM_FILE = "models/model.json"
#: Fields of the messages of ONNX; source: https://github.com/onnx/onnx/blob/main/onnx/onnx.proto.
MODEL_GRAPH, GRAPH_INITIALIZER, GRAPH_INPUT, INITIALIZER_NAME = 7, 5, 11, 8
INPUT_NAME, DIMENSION_VALUE = 1, 1
#: From an input to its dimensions: type, tensor type, shape, dimension.
INPUT_DIMENSIONS = (2, 1, 2, 1)
#: Bytes of a field, by wire type; source: https://protobuf.dev/programming-guides/encoding.
FIXED_LENGTHS = {1: 8, 5: 4}
VARINT, DELIMITED = 0, 2
MOST_VARINT_BYTES = 10
LARGEST_BATCH = 65536
#: A larger graph is left to the worker: a small file may unpack to any size.
LARGEST_GRAPH_BYTES = 256 << 20
#: What reading raises for a file that is damaged or of another kind.
READING_ERRORS = (
    OSError,
    ValueError,
    LookupError,
    EOFError,
    RuntimeError,
    zlib.error,
    zipfile.BadZipFile,
    msgspec.DecodeError,
)


class Field(NamedTuple):
    """A field of an encoded message: its number, its whole number, and where its bytes are."""

    number: int
    value: int
    start: int
    end: int


class _Size(msgspec.Struct):
    as_int: int | None = None


class _TensorValue(msgspec.Struct):
    sizes: tuple[_Size, ...]


class _Graph(msgspec.Struct):
    tensor_values: dict[str, _TensorValue]


class _TensorName(msgspec.Struct):
    name: str


class _Argument(msgspec.Struct):
    as_tensor: _TensorName | None = None


class _UserInput(msgspec.Struct):
    arg: _Argument


class _InputSpec(msgspec.Struct):
    user_input: _UserInput | None = None


class _Signature(msgspec.Struct):
    input_specs: tuple[_InputSpec, ...]


class _GraphModule(msgspec.Struct):
    graph: _Graph
    signature: _Signature


class _Program(msgspec.Struct):
    """The part of an exported program that has the shapes of its inputs."""

    graph_module: _GraphModule


def fixed_batch_size(file: str) -> int | None:
    """Return the only batch size of a model file; None if it takes others or cannot be read."""
    read = read_onnx_dimensions if file.endswith(".onnx") else read_exported_dimensions
    try:
        first = set(read(pathlib.Path(file)))
    except READING_ERRORS:
        return None  # the worker that opens the model reports it
    size = first.pop() if len(first) == 1 else None
    return size if size is not None and 1 <= size <= LARGEST_BATCH else None


def read_exported_dimensions(file: pathlib.Path) -> list[int | None]:
    """Return the first dimension of each input of an exported program; None for a free one."""
    with zipfile.ZipFile(file) as archive:
        name = next((each for each in archive.namelist() if each.endswith(PROGRAM_FILE)), "")
        if archive.getinfo(name).file_size > LARGEST_GRAPH_BYTES:
            return []
        program = msgspec.json.decode(archive.read(name), type=_Program)
    tensors = program.graph_module.graph.tensor_values
    inputs = [spec.user_input for spec in program.graph_module.signature.input_specs]
    names = [each.arg.as_tensor.name for each in inputs if each and each.arg.as_tensor]
    return [tensors[name].sizes[0].as_int for name in names if tensors[name].sizes]


def read_onnx_dimensions(file: pathlib.Path) -> list[int | None]:
    """Return the first dimension of each input of an ONNX file; None for a free one."""
    with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as data:
        (graph,) = _select(data, [Field(0, 0, 0, len(data))], MODEL_GRAPH)
        initializers = _select(data, [graph], GRAPH_INITIALIZER)
        weights = _texts(data, initializers, INITIALIZER_NAME)
        inputs = [
            _dimensions(data, each)
            for each in _select(data, [graph], GRAPH_INPUT)
            if _texts(data, [each], INPUT_NAME).isdisjoint(weights)
        ]
        return [_value(data, dimensions[0]) for dimensions in inputs if dimensions]


def _texts(data: mmap.mmap, messages: Iterable[Field], number: int) -> set[bytes]:
    """Return the texts in the fields of the messages that have this number."""
    return {data[each.start : each.end] for each in _select(data, messages, number)}


def _dimensions(data: mmap.mmap, declared: Field) -> list[Field]:
    """Return the dimensions of an input."""
    found: Iterable[Field] = [declared]
    for number in INPUT_DIMENSIONS:
        found = _select(data, found, number)
    return list(found)


def _value(data: mmap.mmap, dimension: Field) -> int | None:
    """Return the size of a dimension; None for a free one."""
    return next((each.value for each in _select(data, [dimension], DIMENSION_VALUE)), None)


def _select(data: mmap.mmap, messages: Iterable[Field], number: int) -> Iterator[Field]:
    """Yield the fields of the messages that have this number."""
    for message in messages:
        yield from (each for each in _fields(data, message) if each.number == number)


def _fields(data: mmap.mmap, message: Field) -> Iterator[Field]:
    """Yield the fields of a message; raise `ValueError` for bytes that are none."""
    position = message.start
    while position < message.end:
        key, position = _varint(data, position)
        value, wire_type = 0, key & 7
        if wire_type in {VARINT, DELIMITED}:
            value, position = _varint(data, position)
        end = position + (value if wire_type == DELIMITED else FIXED_LENGTHS.get(wire_type, 0))
        if end > message.end or wire_type not in {VARINT, DELIMITED, *FIXED_LENGTHS}:
            reason = f"no field of a message at byte {position}"
            raise ValueError(reason)
        yield Field(key >> 3, value, position, end)
        position = end


def _varint(data: mmap.mmap, position: int) -> tuple[int, int]:
    """Return a number of variable length and the position after it."""
    number = 0
    for place in range(MOST_VARINT_BYTES):
        byte = data[position + place]
        number |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:  # noqa: PLR2004 - the last byte of a number has no highest bit
            return number, position + place + 1
    reason = f"no number at byte {position}"
    raise ValueError(reason)


#: A safetensors file begins with the length of its header, which the format limits.
LENGTH_BYTES = 8
MAX_HEADER_BYTES = 100_000_000


def count_in_config(config: Mapping[str, Any], gated_decoders: Container[str]) -> int | None:
    """Return the matrix weights of a decoder whose model type is one of `gated_decoders`.

    Norms and biases, which are not counted, are less than a thousandth of the weights. None for
    other models and for missing sizes.
    """
    try:
        if config["model_type"] not in gated_decoders:
            return None
        hidden, layers, vocabulary = (
            config["hidden_size"],
            config["num_hidden_layers"],
            config["vocab_size"],
        )
        heads, feed_forward = (
            config["num_attention_heads"],
            3 * hidden * config["intermediate_size"],
        )
        width = config.get("head_dim") or hidden // heads
        attention = 2 * hidden * width * (heads + (config.get("num_key_value_heads") or heads))
        embeddings = vocabulary * hidden * (1 if config.get("tie_word_embeddings") else 2)
        return int(embeddings + layers * (attention + feed_forward))
    except (KeyError, TypeError, ZeroDivisionError):
        return None


def count_in_files(directory: pathlib.Path) -> int | None:
    """Return the number of weights in the safetensors files; None without any or with a broken one.

    Only the headers are read.
    """
    files = sorted(directory.glob("*.safetensors"))
    try:
        return sum(_count_in_file(file) for file in files) if files else None
    except (
        OSError,
        ValueError,
        TypeError,
        AttributeError,
        KeyError,
        msgspec.DecodeError,
        RecursionError,
    ):
        return None  # the error is reported when the model is loaded


def _count_in_file(file: pathlib.Path) -> int:
    with file.open("rb") as stream:
        length = int.from_bytes(stream.read(LENGTH_BYTES), "little")
        if length > MAX_HEADER_BYTES:
            message = f"the header of {file} has {length} bytes"
            raise ValueError(message)
        header = msgspec.json.decode(stream.read(length))
    return sum(
        math.prod(tensor["shape"]) for name, tensor in header.items() if name != "__metadata__"
    )
