"""Losses along a long text: exact for the whole vocabulary, lower bounds for a part of it."""

from __future__ import annotations

import dataclasses
import pathlib
import types
from typing import Any

import numpy as np
import pytest
from lazy import lazy
from top_tokens import keep_top_tokens, normalised

from probes import arrays
from probes.adapter import ModelError, TokenLogprobs
from probes.checking import long_text

text_source = lazy("probes.subjects.text_source")

ROWS, PROMPT, NEW, VOCABULARY, SETS = 2, 3, 4, 40, 3


def request(seconds: float = 60.0, shared_directory: str = "") -> Any:
    return types.SimpleNamespace(
        shared_directory=shared_directory,
        batch_sizes=[1, ROWS],
        input_tokens=PROMPT,
        output_tokens=NEW,
        long_text={"tokens": SETS * ROWS * NEW, "seconds": seconds, "data": ""},
    )


@pytest.fixture
def tables() -> tuple[Any, Any]:
    """Return log probabilities of the next token by token: the reference's and an arm's."""
    values = np.random.default_rng(0).standard_normal((2, VOCABULARY, VOCABULARY))
    return normalised(2 * values[0]), normalised(2 * values[0] + 0.3 * values[1])


def make_text(table: Any, eager: Any) -> long_text.LongText:
    asked = request()
    shape = (SETS * ROWS, PROMPT + NEW)
    sequences = np.random.default_rng(1).integers(0, VOCABULARY, size=shape)

    def scores(found: Any) -> Any:
        return lambda rows: found[rows[:, PROMPT - 1 : -1]]

    return long_text.make_long_text("a test", sequences, asked, scores(table), scores(eager))


@dataclasses.dataclass
class Program:
    """Scores by a table; with `count` it reports so many likeliest tokens."""

    table: Any
    count: int | None = None

    def feed(self, inputs: list[Any]) -> Any:
        return inputs[0]

    def score(self, prompts: Any, tokens: Any, rows: int) -> TokenLogprobs:
        found = self.table[np.concatenate([prompts[:rows, -1:], tokens[:rows, :-1]], axis=1)]
        return TokenLogprobs(found) if self.count is None else keep_top_tokens(found, self.count)


def score(program: Program, text: long_text.LongText, **asked: Any) -> Any:
    scores = long_text.score_program(program, text, request(**asked))
    assert scores is not None
    return scores


def test_a_program_like_the_reference_loses_nothing(tables: tuple[Any, Any]) -> None:
    text = make_text(tables[0], tables[1])
    scores = score(Program(tables[0]), text)
    assert (scores.positions, len(scores.loss)) == (SETS * ROWS * NEW, SETS * ROWS)
    assert np.allclose(scores.divergence, 0, atol=1e-6)
    assert np.allclose(scores.loss, 0, atol=1e-6)
    assert set(scores.same_top) == {1.0}
    assert not scores.is_incomplete
    assert np.mean(scores.divergence_eager) > 0.01, "the losses of eager PyTorch are kept too"


def test_the_divergence_is_that_of_kullback_and_leibler(tables: tuple[Any, Any]) -> None:
    exact, other = (table.astype("float64") for table in tables)
    text = make_text(tables[0], tables[0])
    scores = score(Program(tables[1]), text)
    before = np.concatenate([text.prompts[..., -1:], text.tokens[..., :-1]], axis=-1)
    wanted = (np.exp(exact) * (exact - other)).sum(-1)[before].mean(-1).ravel()
    assert np.allclose(scores.divergence, wanted, atol=1e-5)
    lost = exact[before, text.tokens] - other[before, text.tokens]
    assert np.allclose(scores.loss, lost.mean(-1).ravel(), atol=1e-5)


def test_likeliest_tokens_alone_give_lower_bounds(tables: tuple[Any, Any]) -> None:
    text = make_text(tables[0], tables[0])
    whole = score(Program(tables[1]), text)
    part = score(Program(tables[1], count=8), text)
    assert part.is_incomplete
    assert part.same_top == whole.same_top
    pairs = list(zip(part.divergence, whole.divergence, strict=True))
    assert all(0 <= one <= other + 1e-6 for one, other in pairs)
    assert any(one > other / 2 for one, other in pairs)


def test_tokens_that_are_not_reported_do_not_count_as_likely_ones(tables: tuple[Any, Any]) -> None:
    text = make_text(tables[0], tables[0])
    found = score(Program(tables[0], count=3), text)
    assert found.is_incomplete
    assert np.allclose(found.loss, 0, atol=1e-6)


def test_a_slow_program_scores_one_set(tables: tuple[Any, Any]) -> None:
    scores = score(Program(tables[1]), make_text(tables[0], tables[0]), seconds=-1.0)
    assert len(scores.loss) == len(scores.loss_eager) == ROWS


def test_a_program_without_probabilities_has_no_losses(tables: tuple[Any, Any]) -> None:
    assert long_text.score_program(object(), make_text(*tables), request()) is None


def test_a_text_is_read_as_it_was_written(tables: tuple[Any, Any], tmp_path: pathlib.Path) -> None:
    text, asked = make_text(*tables), request(shared_directory=str(tmp_path))
    arrays.save(long_text.file_of(asked), text)
    found = long_text.load(asked)
    assert found.source == "a test"
    for name in ("prompts", "tokens", "chosen", "ids", "logprobs"):
        assert (getattr(found, name) == getattr(text, name)).all()
    assert found.eager.keys() == text.eager.keys()


@pytest.mark.stack
def test_texts_are_cut_into_windows_and_others_are_refused(tmp_path: pathlib.Path) -> None:
    file, subject = (
        tmp_path / "texts.jsonl",
        types.SimpleNamespace(info=types.SimpleNamespace(vocabulary=50)),
    )
    request = types.SimpleNamespace(long_text={"data": str(file)}, batch_sizes=[1, 2])
    file.write_text('{"tokens": [1, 2, 3]}\n\n{"tokens": [4, 5, 49, 7, 8, 9, 10]}')
    windows = text_source.read_sequences(subject, 4, 3, request)
    assert windows.tolist() == [[1, 2, 3, 4], [5, 49, 7, 8]]
    for tokens, reason in (("[1, 50, 3, 4]", "token 50"), ("[1]", "1 tokens"), ('"a"', "line 1")):
        file.write_text(f'{{"tokens": {tokens}}}')
        with pytest.raises(ModelError, match=reason):
            text_source.read_sequences(subject, 2, 3, request)
