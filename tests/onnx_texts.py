"""ONNX files from the text of their graph."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest

BEGIN = '<ir_version: 9, opset_import: ["": 17, "ai.onnx.ml": 3, "their.operators": 1]>'


def model_of(graph: str, **weights: Any) -> Any:
    """Return the model of a graph in ONNX's own notation, with these arrays as its weights."""
    onnx = pytest.importorskip("onnx")
    model = onnx.parser.parse_model(f"{BEGIN} {graph}")
    for name, values in weights.items():
        model.graph.initializer.append(onnx.numpy_helper.from_array(values, name))
    return model


def write_onnx(file: pathlib.Path, graph: str, **weights: Any) -> pathlib.Path:
    file.write_bytes(model_of(graph, **weights).SerializeToString())
    return file
