"""Modules of a stack, imported when a test uses them: collecting tests imports no stack."""

from __future__ import annotations

import importlib
from typing import Any

import pytest


class _Lazy:
    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith(("__", "_mock")):
            # pytest asks every global name of a test module for these.
            raise AttributeError(attribute)
        pytest.importorskip("torch", reason="pip install 'p3-advisor[stack]'")
        return getattr(importlib.import_module(self._name), attribute)


def lazy(name: str) -> Any:
    """Return the module; the test that uses it is skipped if the stack is not installed."""
    return _Lazy(name)


onnx = lazy("onnx")
torch = lazy("torch")
cpp_builder = lazy("torch._inductor.cpp_builder")
transformers = lazy("transformers")
cuda_graphs = lazy("probes.stacks.cuda_graphs")
onnx_export = lazy("probes.stacks.onnx_export")
onnxruntime_quantisation = lazy("probes.stacks.onnxruntime_quantisation")
onnxruntime_session = lazy("probes.stacks.onnxruntime_session")
pytorch = lazy("probes.stacks.pytorch")
adjustments = lazy("probes.subjects.adjustments")
by_request = lazy("probes.subjects.by_request")
call_inputs = lazy("probes.subjects.call_inputs")
causal_lm = lazy("probes.subjects.causal_lm")
equal_keys = lazy("probes.subjects.equal_keys")
factory = lazy("probes.subjects.factory")
higher_precision = lazy("probes.subjects.higher_precision")
live_models = lazy("probes.subjects.live_models")
loaded_model = lazy("probes.subjects.loaded_model")
onnx_file = lazy("probes.subjects.onnx_file")
onnx_inputs = lazy("probes.subjects.onnx_inputs")
outputs = lazy("probes.subjects.outputs")
row_parts = lazy("probes.subjects.row_parts")
torch_subject = lazy("probes.subjects.torch_subject")
transformers_generate = lazy("probes.subjects.transformers_generate")
aotinductor = lazy("probes.workflows.aotinductor")
onnxruntime_cpu = lazy("probes.workflows.onnxruntime_cpu")
pytorch_eager = lazy("probes.workflows.pytorch_eager")
