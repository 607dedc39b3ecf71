"""The reason for a node that ONNX Runtime has no kernel for."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
import workers

# PyTorch's exporter uses classes that it has deprecated.
from lazy import lazy

from probes.adapter import UnsupportedError
from probes.runtime.failures import classify
from probes.stacks.onnx_kernels import explain_missing

torch = lazy("torch")
onnxruntime_session = lazy("probes.stacks.onnxruntime_session")

pytestmark = [pytest.mark.stack, pytest.mark.filterwarnings("ignore::FutureWarning")]


def test_a_layer_in_a_precision_without_kernels_has_a_next_step(tmp_path: pathlib.Path) -> None:
    class PartlyBfloat16(torch.nn.Module):  # type: ignore[name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(8, 8).bfloat16()

        def forward(self, x: Any) -> Any:
            return self.layer(x.bfloat16()).float()

    file = tmp_path / "model.onnx"
    examples = (torch.zeros(2, 8),)
    program = torch.onnx.export(PartlyBfloat16().eval(), examples, dynamo=True, verbose=False)
    assert program is not None
    program.save(file)
    request = workers.make_request(tmp_path / "x.py", tmp_path)
    with pytest.raises(UnsupportedError) as raised:
        onnxruntime_session.open_session(file, [(onnxruntime_session.CPU, {})], request)
    found = classify(raised.value, "build")
    assert found.status == "unsupported"
    assert "bfloat16" in found.reason
    assert "--dtype float32" in (found.fix or "")


def test_a_message_without_a_node_is_the_reason(tmp_path: pathlib.Path) -> None:
    assert explain_missing("no such provider", tmp_path / "x.onnx") == ("no such provider", None)
