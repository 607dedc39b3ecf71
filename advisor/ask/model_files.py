"""Read from the files of a model, without any stack: a batch size, the weights, its functions."""

from __future__ import annotations

import ast
import math
import mmap
import pathlib
import zipfile
import zlib
from collections.abc import Container, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from advisor.domain.errors import OptionFileError, choose_among
from advisor.domain.question import LARGEST_BATCH

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
#: A larger graph is left to the worker: a small file may unpack to any size.
LARGEST_GRAPH_BYTES = 64 << 20
#: What reading raises for a file that is damaged or of another kind.
READING_ERRORS = (
    OSError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    EOFError,
    RuntimeError,
    zlib.error,
    zipfile.BadZipFile,
)


class MessageField(NamedTuple):
    """A field of an encoded message: its number, its whole number, and where its bytes are."""

    number: int
    value: int
    start: int
    end: int


def fixed_batch_size(file: str, *, of_examples: bool = False) -> int | None:
    """Return the only batch size of a model file; None if it takes others or cannot be read.

    With `of_examples` a program that takes others has that of the inputs it was exported with.
    """
    path = pathlib.Path(file)
    try:
        first = {
            *(
                read_onnx_dimensions(path)
                if file.endswith(".onnx")
                else read_exported_dimensions(path, of_examples=of_examples)
            )
        }
    except READING_ERRORS:
        return None  # the worker that opens the model reports it
    size = first.pop() if len(first) == 1 else None
    return size if isinstance(size, int) and 1 <= size <= LARGEST_BATCH else None


def read_exported_dimensions(file: pathlib.Path, *, of_examples: bool = False) -> list[int | None]:
    """Return the first dimension of each input of an exported program; None for a free one."""
    with zipfile.ZipFile(file) as archive:
        name = next((each for each in archive.namelist() if each.endswith(PROGRAM_FILE)), "")
        if archive.getinfo(name).file_size > LARGEST_GRAPH_BYTES:
            return []
        module = msgspec.json.decode(archive.read(name))["graph_module"]
    sizes = {key: each["sizes"] for key, each in module["graph"]["tensor_values"].items()}
    given = [
        spec["user_input"] for spec in module["signature"]["input_specs"] if "user_input" in spec
    ]
    names = [each["arg"]["as_tensor"]["name"] for each in given if "as_tensor" in each["arg"]]
    first = [sizes[name][0] for name in names if sizes[name]]
    if of_examples:
        first = [each["as_expr"]["hint"] if "as_expr" in each else each for each in first]
    return [each.get("as_int") for each in first]


def read_onnx_dimensions(file: pathlib.Path) -> list[int | None]:
    """Return the first dimension of each input of an ONNX file; None for a free one."""
    with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as data:
        (graph,) = _find(data, MessageField(0, 0, 0, len(data)), MODEL_GRAPH)
        names = _find(data, graph, GRAPH_INITIALIZER, INITIALIZER_NAME)
        weights = {data[each.start : each.end] for each in names}
        first = []
        for declared in _find(data, graph, GRAPH_INPUT):
            names = _find(data, declared, INPUT_NAME)
            dimensions = _find(data, declared, *INPUT_DIMENSIONS)
            if dimensions and not any(data[each.start : each.end] in weights for each in names):
                sizes = [each.value for each in _find(data, dimensions[0], DIMENSION_VALUE)]
                first.append(sizes[0] if sizes else None)
        return first


def _find(data: mmap.mmap, message: MessageField, *numbers: int) -> list[MessageField]:
    """Return the fields that these numbers of nested fields lead to."""
    found = [message]
    for number in numbers:
        found = [field for each in found for field in _fields(data, each) if field.number == number]
    return found


def _fields(data: mmap.mmap, message: MessageField) -> Iterator[MessageField]:
    """Yield the fields of a message; raise `ValueError` for bytes that are none."""
    position = message.start
    while position < message.end:
        key, position = _varint(data, position)
        value, wire_type = 0, key & 7
        if wire_type in {VARINT, DELIMITED}:
            value, position = _varint(data, position)
        end = position + (value if wire_type == DELIMITED else FIXED_LENGTHS.get(wire_type, 0))
        if end > message.end or wire_type not in {VARINT, DELIMITED, *FIXED_LENGTHS}:
            raise ValueError(f"no field of a message at byte {position}")
        yield MessageField(key >> 3, value, position, end)
        position = end


def _varint(data: mmap.mmap, position: int) -> tuple[int, int]:
    """Return a number of variable length and the position after it."""
    number = 0
    for place in range(MOST_VARINT_BYTES):
        byte = data[position + place]
        number |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:  # noqa: PLR2004 - the last byte of a number has no highest bit
            return number, position + place + 1
    raise ValueError(f"no number at byte {position}")


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
        hidden, heads = config["hidden_size"], config["num_attention_heads"]
        layers, vocabulary = config["num_hidden_layers"], config["vocab_size"]
        feed_forward = 3 * hidden * config["intermediate_size"]
        width = config.get("head_dim") or hidden // heads
        attention = 2 * hidden * width * (heads + (config.get("num_key_value_heads") or heads))
        embeddings = vocabulary * hidden * (1 if config.get("tie_word_embeddings") else 2)
        return int(embeddings + layers * (attention + feed_forward))
    except (KeyError, TypeError, ZeroDivisionError):
        return None


def count_in_files(directory: pathlib.Path) -> int | None:
    """Read only the headers; return None without a safetensors file or with a broken one."""
    files = sorted(directory.glob("*.safetensors"))
    try:
        return sum(_count_in_file(file) for file in files) if files else None
    except READING_ERRORS:
        return None  # the error is reported when the model is loaded


def _count_in_file(file: pathlib.Path) -> int:
    with file.open("rb") as stream:
        length = int.from_bytes(stream.read(LENGTH_BYTES), "little")
        if length > MAX_HEADER_BYTES:
            raise ValueError(f"the header of {file} has {length} bytes")
        header = msgspec.json.decode(stream.read(length))
    return sum(
        math.prod(tensor["shape"]) for name, tensor in header.items() if name != "__metadata__"
    )


def check_function(file: pathlib.Path, function: str) -> None:
    """Raise `OptionFileError` for a Python file, which is not executed, without the function.

    A name that the file imports or assigns may be one, too.
    """
    nodes = list(ast.walk(_parse_python(file)))
    bound = {node.id for node in nodes if isinstance(node, ast.Name)}
    bound |= {node.name for node in nodes if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    bound |= {node.asname or node.name for node in nodes if isinstance(node, ast.alias)}
    defined = functions_of(file)
    if not {function, "*"} & bound:
        raise OptionFileError(
            f"{str(file)!r} defines no function {function!r}",
            choose_among(function, defined) if defined else "define it, or name another file",
        )


def check_factory(file: pathlib.Path, function: str) -> None:
    """Raise `OptionFileError` for a function that is missing, or needs arguments."""
    check_function(file, function)
    own = [node for node in _functions(file) if node.name == function]
    # A decorator may supply arguments.
    needed = _needed_parameters(own[-1]) if own and not own[-1].decorator_list else []
    if needed:
        raise OptionFileError(
            f"{function!r} in {str(file)!r} needs the arguments {', '.join(needed)}",
            "write a function without parameters that calls it and returns its result",
        )


def functions_of(file: pathlib.Path) -> list[str]:
    """Return the functions of a Python file, which is not executed, that need no arguments.

    Those that are likely to make a model come first.
    """
    found = [
        node
        for node in _functions(file)
        if not node.name.startswith("_") and not _needed_parameters(node)
    ]
    return [node.name for node in sorted(found, key=_unlikeliness)]


def _functions(file: pathlib.Path) -> list[ast.FunctionDef]:
    return [node for node in _parse_python(file).body if isinstance(node, ast.FunctionDef)]


def _unlikeliness(node: ast.FunctionDef) -> int:
    """Return a rank: functions that return a pair, functions that may return one, and others."""
    returned = {type(each.value) for each in ast.walk(node) if isinstance(each, ast.Return)}
    return 0 if ast.Tuple in returned else 1 if {ast.Call, ast.Name} & returned else 2


def _needed_parameters(function: ast.FunctionDef) -> list[str]:
    named = function.args
    positional = [each.arg for each in (*named.posonlyargs, *named.args)]
    by_name = zip(named.kwonlyargs, named.kw_defaults, strict=True)
    return [
        *positional[: len(positional) - len(named.defaults)],
        *(each.arg for each, default in by_name if default is None),
    ]


def _parse_python(file: pathlib.Path) -> ast.Module:
    try:
        return ast.parse(file.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError, SyntaxError) as problem:
        raise OptionFileError(
            f"{str(file)!r} cannot be read as Python: {problem}", "mend the file"
        ) from problem
