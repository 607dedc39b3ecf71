"""The checkpoint's tokenizer words and its info file, and the memory of an engine."""

from __future__ import annotations

import json
import pathlib

import pytest
import workers

from probes.subjects import checkpoint
from probes.subjects.checkpoint import CheckpointInfo, EngineSubject


def test_no_token_word_is_a_prefix_of_another() -> None:
    words = [checkpoint.token_word(token) for token in (0, 1, 2, 20, 2007, 128255, 999_999)]
    assert len({len(word) for word in words}) == 1
    assert len(set(words)) == len(words)
    assert not any(" " in word for word in words)


def test_an_info_file_is_read_as_it_was_written(tmp_path: pathlib.Path) -> None:
    info = CheckpointInfo("LlamaForCausalLM", "bfloat16", 10, 20, {}, 64, None)
    checkpoint.write_info(tmp_path, info)
    assert CheckpointInfo(**json.loads((tmp_path / checkpoint.INFO_FILE).read_text())) == info


@pytest.mark.parametrize(
    ("device", "least_cache_gib", "cache_gib", "share"),
    [
        ("cuda", 0.0, 3, 0.7),
        ("cuda", 4.0, 4, 0.8),
        ("cpu", 4.0, 3, 0.7),
        ("cuda", 7.0, 7, 0.9),
    ],
)
def test_an_engine_gets_memory_for_weights_cache_and_its_overhead(
    device: str, least_cache_gib: float, cache_gib: int, share: float, tmp_path: pathlib.Path
) -> None:
    request = workers.make_request(
        tmp_path / "workflow.py",
        tmp_path,
        device=device,
        batch_sizes=[1, 8],
        input_tokens=32,
        output_tokens=32,
        engine_memory={
            "overhead_gib": 2.0,
            "cache_factor": 3.0,
            "least_cache_gib": least_cache_gib,
            "most_share": 0.9,
        },
    )
    gibibyte = checkpoint.GIBIBYTE
    info = CheckpointInfo("A", "float32", 1, 2 * gibibyte, {}, 16, gibibyte // (8 * 64))
    checkpoint.folder_of(request).mkdir()
    checkpoint.write_info(checkpoint.folder_of(request), info)
    subject = EngineSubject(request)
    assert subject.cache_bytes(request) == gibibyte
    assert subject.engine_cache_bytes(request) == cache_gib * gibibyte
    assert subject.engine_memory_share(request, 10 * gibibyte) == share
