"""The cache of vLLM, and the types and bytes of its weights."""

from __future__ import annotations

import os
import pathlib
import sys
import types
from typing import Any
from unittest import mock

import pytest
import workers
from engine_requests import shipped_engine_memory
from lazy import torch

from probes.protocol import Request
from probes.subjects import checkpoint
from probes.subjects.checkpoint import CheckpointInfo, EngineSubject
from probes.workflows import vllm

#: Bytes of one token of one sequence in the cache, as of a model of 8 billion parameters.
TOKEN_BYTES = 131_072


def make_request(tmp_path: pathlib.Path, device: str, batch_size: int) -> Request:
    """Return a request, whose checkpoint states the size of its cache."""
    request = workers.make_request(
        tmp_path / "workflow.py",
        tmp_path,
        task="generate",
        device=device,
        batch_sizes=[batch_size],
        input_tokens=32,
        output_tokens=32,
        engine_memory=shipped_engine_memory("vllm"),
    )
    folder = checkpoint.folder_of(request)
    folder.mkdir()
    checkpoint.write_info(folder, CheckpointInfo("Llama", "bfloat16", 1, 2, {}, 16, TOKEN_BYTES))
    return request


@pytest.mark.parametrize("batch_size", [1, 4096])
def test_on_a_gpu_the_cache_has_room_for_the_largest_batch_whatever_is_free(
    batch_size: int, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vllm, "memory_share", lambda _subject: 0.5)
    request = make_request(tmp_path, "cuda", batch_size)
    cache_bytes = vllm.engine_arguments(EngineSubject(request))["kv_cache_memory_bytes"]
    assert cache_bytes >= request.engine_memory["least_cache_gib"] * checkpoint.GIBIBYTE
    assert cache_bytes >= batch_size * (32 + 32) * TOKEN_BYTES
    assert vllm.engine_variables(EngineSubject(request)) == {}


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_the_handed_out_lines_have_the_limits_of_the_measured_engine(
    device: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = mock.MagicMock()
    engine.ModelRegistry.get_supported_archs.return_value = ["Llama"]
    monkeypatch.setitem(sys.modules, "vllm", engine)
    monkeypatch.setattr(vllm, "memory_share", lambda _subject: 0.5)
    request, environment = make_request(tmp_path, device, 1), dict[str, str]()
    monkeypatch.setattr(os, "environ", environment)
    subject = EngineSubject(request)
    assert "max_model_len" not in vllm.integration(subject, request), "of no engine"
    vllm.build(subject, [], request)
    measured, variables = engine.LLM.call_args.kwargs, dict(environment)
    environment.clear()
    lines = vllm.integration(subject, request).partition("# Each call")[0]
    exec(lines, {"CHECKPOINT": "a checkpoint"})
    handed_out = engine.LLM.call_args.kwargs
    assert [handed_out.get(name) for name in vllm.LIMITS] == [*map(measured.get, vllm.LIMITS)]
    assert handed_out["max_model_len"] == 32 + 32 + 1
    assert environment == variables


@pytest.mark.parametrize(("batch_size", "gibibytes"), [(1, "1"), (4096, "96")])
def test_on_a_cpu_the_size_of_the_cache_is_a_variable(
    batch_size: int, gibibytes: str, tmp_path: pathlib.Path
) -> None:
    subject, before = EngineSubject(make_request(tmp_path, "cpu", batch_size)), dict(os.environ)
    assert "kv_cache_memory_bytes" not in vllm.engine_arguments(subject)
    assert vllm.engine_variables(subject) == {"VLLM_CPU_KVCACHE_SPACE": gibibytes}
    assert dict(os.environ) == before


def packed_linear(inputs: int, outputs: int, dtype: Any) -> Any:
    """Make a layer as vLLM leaves it on a CPU after packing its weight for oneDNN."""
    layer = torch.nn.Module()
    layer.input_size_per_partition = inputs
    layer.output_size_per_partition = outputs
    layer.weight = torch.nn.Parameter(torch.empty(0, dtype=dtype), requires_grad=False)
    return layer


def engine_of(layer: Any) -> Any:
    """Return the part of vLLM's engine that is used, whose model has this layer and tables."""
    tables = {"embed": torch.nn.Embedding(8, 4), "lm_head": packed_linear(4, 8, torch.bfloat16)}
    model = torch.nn.ModuleDict({**tables, "layer": layer, "norm": torch.nn.LayerNorm(4)})
    return types.SimpleNamespace(apply_model=lambda function: [function(model)])


@pytest.mark.stack
@pytest.mark.parametrize(("kind", "share"), [("bfloat16", 0.0), ("int8", 1.0)])
def test_packed_weights_count_by_the_type_of_what_is_left(kind: str, share: float) -> None:
    found = vllm.quantised_engagement(engine_of(packed_linear(16, 4, getattr(torch, kind))))
    assert found.share == share
    assert found.facts["weights"] == {kind: 64}


@pytest.mark.stack
def test_weights_that_are_kept_count_once() -> None:
    found = vllm.quantised_engagement(engine_of(torch.nn.Linear(4, 16, bias=False)))
    assert found.facts["weights"] == {"float32": 64}
    tables = 8 * 4 * 4 + 4 * 8 * 2
    assert found.weight_bytes == tables + 256 + 2 * 4 * 4
