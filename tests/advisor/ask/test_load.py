from __future__ import annotations

import pathlib
from typing import Any

import builders
import pytest

from advisor.ask.answers import Answers
from advisor.ask.task import parse_load
from advisor.domain.model import TransformersModel
from advisor.errors import SizeError, TaskError, UserError

KNOWN = builders.shipped_catalogue()
MODEL = TransformersModel(
    name="demo/llama", weights="random", config={"max_position_embeddings": 2048}
)


def serve(**changes: Any) -> Answers:
    return Answers(**{"task": "serve", "ttft": "500ms", "itl": "0.05s", **changes})


def test_limits_and_lengths_become_values_of_the_question() -> None:
    load = parse_load(serve(lengths="rag", percentile=99, rate=2.5), "serve", MODEL, KNOWN)
    assert load is not None
    assert (load.ttft_seconds, load.itl_seconds, load.share, load.rate) == (0.5, 0.05, 0.99, 2.5)
    assert KNOWN.serving is not None
    assert load.lengths == KNOWN.serving.lengths["rag"].requests


def test_the_default_is_a_named_mix_and_95_percent() -> None:
    load = parse_load(serve(), "serve", MODEL, KNOWN)
    assert load is not None
    assert (load.name, load.share, load.rate) == ("chat", 0.95, None)


def test_lengths_can_come_from_a_file(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "mine.jsonl"
    file.write_text(
        '{"input_tokens": 5, "output_tokens": 7}\n\n{"input_tokens": 9, "output_tokens": 2}\n'
    )
    load = parse_load(serve(lengths=str(file)), "serve", MODEL, KNOWN)
    assert load is not None
    assert load.name == "mine.jsonl"
    assert [(each.input_tokens, each.output_tokens) for each in load.lengths] == [(5, 7), (9, 2)]
    assert load.most_tokens == 12


@pytest.mark.parametrize(
    ("answers", "task", "error"),
    [
        (Answers(task="serve"), "serve", TaskError),
        (serve(itl=""), "serve", TaskError),
        (serve(ttft=""), "serve", TaskError),
        (Answers(ttft="500ms"), "generate", TaskError),
        (Answers(percentile=99.0), "forward", TaskError),
        (Answers(rate=5.0), "generate", TaskError),
        (serve(sandbox=True), "serve", TaskError),
        (serve(percentile=20.0), "serve", SizeError),
        (serve(ttft="soon"), "serve", SizeError),
        (serve(lengths="no-such-mix"), "serve", SizeError),
        (serve(lengths="/dev/null"), "serve", SizeError),
    ],
)
def test_what_does_not_fit_is_refused(answers: Answers, task: str, error: type[UserError]) -> None:
    with pytest.raises(error):
        parse_load(answers, task, MODEL, KNOWN)


@pytest.mark.parametrize(
    "line",
    [
        '{"input_tokens": 0, "output_tokens": 7}',
        '{"input_tokens": 1}',
        '{"input_tokens": 2, "output_tokens": 1}',
        "word",
    ],
)
def test_lengths_that_no_request_has_are_refused(tmp_path: pathlib.Path, line: str) -> None:
    file = tmp_path / "lengths.jsonl"
    file.write_text(f"{line}\n")
    with pytest.raises(SizeError):
        parse_load(serve(lengths=str(file)), "serve", MODEL, KNOWN)


def test_requests_longer_than_the_models_positions_are_refused(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "lengths.jsonl"
    file.write_text('{"input_tokens": 2048, "output_tokens": 2}\n')
    with pytest.raises(SizeError, match="2048 positions"):
        parse_load(serve(lengths=str(file)), "serve", MODEL, KNOWN)


def test_every_named_mix_has_a_source_and_a_reason_where_it_is_not_confirmed() -> None:
    assert KNOWN.serving is not None
    for mix in KNOWN.serving.lengths.values():
        assert mix.source.startswith("https://")
        assert mix.basis == "stated" or mix.because
