from __future__ import annotations

import os
import pathlib

import pytest
import workers
from engine_requests import shipped_engine_memory

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
    monkeypatch.setattr(vllm, "memory_share", lambda _subject, _request: 0.5)
    request = make_request(tmp_path, "cuda", batch_size)
    arguments = vllm.engine_arguments(EngineSubject(request), request)
    cache_bytes = arguments["kv_cache_memory_bytes"]
    assert cache_bytes >= request.engine_memory["least_cache_gib"] * checkpoint.GIBIBYTE
    assert cache_bytes >= batch_size * (32 + 32) * TOKEN_BYTES
    assert vllm.engine_variables(EngineSubject(request), request) == {}


@pytest.mark.parametrize(("batch_size", "gibibytes"), [(1, "1"), (4096, "96")])
def test_on_a_cpu_the_size_of_the_cache_is_a_variable(
    batch_size: int, gibibytes: str, tmp_path: pathlib.Path
) -> None:
    request = make_request(tmp_path, "cpu", batch_size)
    subject, before = EngineSubject(request), dict(os.environ)
    assert "kv_cache_memory_bytes" not in vllm.engine_arguments(subject, request)
    assert vllm.engine_variables(subject, request) == {"VLLM_CPU_KVCACHE_SPACE": gibibytes}
    assert dict(os.environ) == before
