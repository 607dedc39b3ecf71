"""`--data` and `--metric` name files that exist; the metric's file is not executed."""

from __future__ import annotations

import pathlib

import pytest

from advisor.errors import LossFileError
from advisor.question.option_values import parse_data, parse_metric


def test_paths_become_absolute(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "texts.jsonl").write_text("{}\n")
    (tmp_path / "metric.py").write_text("def score(model):\n    return 1\nraise SystemExit\n")
    monkeypatch.chdir(tmp_path)
    assert parse_data("texts.jsonl") == str(tmp_path / "texts.jsonl")
    assert parse_metric("metric.py:score") == f"{tmp_path / 'metric.py'}:score"
    assert parse_data("") == parse_metric("") == ""


@pytest.mark.parametrize("text", ["no.py:score", "metric.py", "metric.py:other", "metric.py:a b"])
def test_a_metric_that_cannot_be_called_is_refused(
    text: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "metric.py").write_text("def score(model):\n    return 1\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(LossFileError):
        parse_metric(text)


def test_a_file_that_is_no_python_is_refused(tmp_path: pathlib.Path) -> None:
    (tmp_path / "metric.py").write_text("def score(:\n")
    with pytest.raises(LossFileError):
        parse_metric(f"{tmp_path / 'metric.py'}:score")


def test_missing_texts_are_refused(tmp_path: pathlib.Path) -> None:
    with pytest.raises(LossFileError):
        parse_data(str(tmp_path))
