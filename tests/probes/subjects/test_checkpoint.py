"""The words that stand for tokens: an engine that takes text only must get the very tokens."""

from __future__ import annotations

import json
import pathlib

from probes.subjects import checkpoint
from probes.subjects.checkpoint import CheckpointInfo


def test_no_word_is_the_beginning_of_another() -> None:
    words = [checkpoint.word_of(token) for token in (0, 1, 2, 20, 2007, 128255, 999_999)]
    assert len({len(word) for word in words}) == 1
    assert len(set(words)) == len(words)
    assert not any(" " in word for word in words)


def test_a_note_is_read_as_it_was_written(tmp_path: pathlib.Path) -> None:
    note = CheckpointInfo("LlamaForCausalLM", "bfloat16", 10, 20, "seeded random", 64, None)
    checkpoint.write_note(tmp_path, note)
    assert CheckpointInfo(**json.loads((tmp_path / checkpoint.NOTE).read_text())) == note
