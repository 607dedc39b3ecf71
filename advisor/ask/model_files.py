"""Read from the files of a model, without any stack: the number of weights, its functions."""

from __future__ import annotations

import ast
import math
import pathlib
from collections.abc import Container, Mapping
from typing import Any

import msgspec

from advisor.domain.errors import OptionValueError, choose_among, reported_as

#: What reading raises for a file that is damaged or of another kind.
READING_ERRORS = (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError)
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
    """Raise `OptionValueError` for a Python file, which is not executed, without the function.

    A name that the file imports or assigns may be one, too.
    """
    nodes = list(ast.walk(_parse_python(file)))
    bound = {node.id for node in nodes if isinstance(node, ast.Name)}
    bound |= {node.name for node in nodes if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    bound |= {node.asname or node.name for node in nodes if isinstance(node, ast.alias)}
    defined = functions_of(file)
    if not {function, "*"} & bound:
        raise OptionValueError(
            f"{str(file)!r} defines no function {function!r}",
            choose_among(function, defined) if defined else "define it, or name another file",
        )


def check_factory(file: pathlib.Path, function: str, *, has_inputs: bool = True) -> None:
    """Raise `OptionValueError` for what is missing, needs arguments or makes a module alone."""
    check_function(file, function)
    tree = _parse_python(file)
    own = [node for node in _functions(tree) if node.name == function]
    classes = (each for each in tree.body if isinstance(each, ast.ClassDef))
    methods = next((_functions(each) for each in classes if each.name == function), [])
    if not has_inputs and any(each.name == "forward" for each in methods):
        raise OptionValueError(
            f"{function!r} in {str(file)!r} is a class, which makes a module without inputs",
            f"write a function that returns {function}(...) and example inputs, and name it; or"
            " name the inputs with --inputs",
        )
    # A decorator may supply arguments.
    needed = _needed_parameters(own[-1]) if own and not own[-1].decorator_list else []
    if needed:
        raise OptionValueError(
            f"{function!r} in {str(file)!r} needs the arguments {', '.join(needed)}",
            "write a function without parameters that calls it and returns its result",
        )


def functions_of(file: pathlib.Path) -> list[str]:
    """Return the functions of a Python file, which is not executed, that need no arguments.

    Those that are likely to make a model come first, those that are named after inputs last.
    """
    found = [
        node
        for node in _functions(_parse_python(file))
        if not node.name.startswith("_") and not _needed_parameters(node)
    ]
    return [node.name for node in sorted(found, key=_unlikeliness)]


def _functions(place: ast.Module | ast.ClassDef) -> list[ast.FunctionDef]:
    return [node for node in place.body if isinstance(node, ast.FunctionDef)]


def _unlikeliness(node: ast.FunctionDef) -> int:
    """Return a rank: functions that return a pair, functions that may return one, and others."""
    if node.name.endswith("inputs"):
        return 3
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
    what, caught = f"{str(file)!r} cannot be read as Python", (OSError, ValueError, SyntaxError)
    with reported_as(OptionValueError, what, "mend the file", caught):
        return ast.parse(file.read_text(encoding="utf-8-sig"))
