"""Explain why ONNX Runtime has no kernel for a node of a model: by its operator and types."""

from __future__ import annotations

import pathlib
import re

NO_KERNEL = re.compile(r"implementation for (?P<operator>\w+)\(\d+\) node with name '(?P<node>.*)'")
#: Types that the kernels of most operators have.
COMMON_TYPES = {"FLOAT", "DOUBLE", "INT32", "INT64", "BOOL"}


def explain_missing(message: str, file: pathlib.Path) -> tuple[str, str | None]:
    """Return why a session cannot run the model in `file`, and what helps if a type is the cause.

    `message` is what ONNX Runtime raised. Without a node in it, it is the reason.
    """
    found = NO_KERNEL.search(message)
    if found is None:
        return message, None
    types = sorted(_types_of(file, found["node"]) - COMMON_TYPES)
    reason = f"ONNX Runtime has no kernel for the operator {found['operator']}"
    if not types:
        return f"{reason} of node {found['node']}", None
    listed = " and ".join(each.lower() for each in types)
    fix = (
        f"compute this part of the model in float32: change its layers, or use --dtype float32 if"
        f" the code of the model does not convert to {listed}"
    )
    return f"{reason} in {listed}, as in node {found['node']}", fix


def _types_of(file: pathlib.Path, name: str) -> set[str]:
    """Return the types of the tensors that a node reads and writes, as far as the file has them.

    Without the package `onnx`, which an ONNX file can be run without, there are none.
    """
    try:
        import onnx  # noqa: PLC0415 - see above
    except ImportError:
        return set()
    graph = onnx.load(file, load_external_data=False).graph
    node = next((each for each in graph.node if each.name == name), None)
    if node is None:
        return set()
    values = (*graph.value_info, *graph.input, *graph.output)
    types = {each.name: each.type.tensor_type.elem_type for each in values}
    types |= {each.name: each.data_type for each in graph.initializer}
    used = (types.get(each) for each in (*node.input, *node.output))
    return {onnx.TensorProto.DataType.Name(each) for each in used if each}
