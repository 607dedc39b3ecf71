"""The checkpoint's tokenizer words and its info file."""

from __future__ import annotations

import json
import pathlib

from probes.subjects import checkpoint
from probes.subjects.checkpoint import CheckpointInfo


def test_no_token_word_is_a_prefix_of_another() -> None:
    words = [checkpoint.token_word(token) for token in (0, 1, 2, 20, 2007, 128255, 999_999)]
    assert len({len(word) for word in words}) == 1
    assert len(set(words)) == len(words)
    assert not any(" " in word for word in words)


def test_an_info_file_is_read_as_it_was_written(tmp_path: pathlib.Path) -> None:
    info = CheckpointInfo("LlamaForCausalLM", "bfloat16", 10, 20, "seeded random", 64, None)
    checkpoint.write_info(tmp_path, info)
    assert CheckpointInfo(**json.loads((tmp_path / checkpoint.INFO_FILE).read_text())) == info
