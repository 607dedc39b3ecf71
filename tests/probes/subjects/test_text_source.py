"""The user's texts, along which the losses of a language model are measured."""

from __future__ import annotations

import pathlib
from types import SimpleNamespace

import pytest
from lazy import lazy

from probes.adapter import ModelError

text_source = lazy("probes.subjects.text_source")


@pytest.mark.stack
def test_texts_are_cut_into_windows_and_others_are_refused(tmp_path: pathlib.Path) -> None:
    file, subject = tmp_path / "texts.jsonl", SimpleNamespace(info=SimpleNamespace(vocabulary=50))
    request = SimpleNamespace(long_text={"data": str(file)}, batch_sizes=[1, 2])
    file.write_text('{"tokens": [1, 2, 3]}\n\n{"tokens": [4, 5, 49, 7, 8, 9, 10]}')
    windows = text_source.read_sequences(subject, 4, 3, request)
    assert windows.tolist() == [[1, 2, 3, 4], [5, 49, 7, 8]]
    for tokens, reason in (("[1, 50, 3, 4]", "token 50"), ("[1]", "1 tokens"), ('"a"', "line 1")):
        file.write_text(f'{{"tokens": {tokens}}}')
        with pytest.raises(ModelError, match=reason):
            text_source.read_sequences(subject, 2, 3, request)
