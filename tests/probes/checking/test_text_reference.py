"""The reference of generated text is read as it was saved."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np
import pytest
from top_tokens import keep_top_tokens, run_of

from probes.adapter import ModelError
from probes.checking.text_reference import (
    load_reference,
    rows_with_logprobs,
    save_reference,
)

SETS, ROWS, POSITIONS, VOCABULARY = 2, 3, 4, 50
PROMPTS = [[np.full((ROWS, 5), number)] for number in range(SETS)]


def logprobs(number: int) -> Any:
    drawn = np.random.default_rng(number).standard_normal((ROWS, POSITIONS, VOCABULARY))
    return (drawn - np.log(np.exp(drawn).sum(-1, keepdims=True))).astype("float32")


def test_a_saved_reference_is_loaded_with_all_its_parts(tmp_path: pathlib.Path) -> None:
    file, rows = tmp_path / "reference.npz", 2
    exact = [logprobs(number) for number in range(SETS)]
    save_reference(file, "float64", PROMPTS, [run_of(each, each, rows) for each in exact])
    loaded = load_reference(file)
    assert (loaded.name, loaded.rows, loaded.vocabulary) == ("float64", rows, VOCABULARY)
    for number in range(SETS):
        assert (loaded.inputs[number][0] == PROMPTS[number][0]).all()
        assert (loaded.tokens[number] == exact[number].argmax(-1)).all()
        assert (loaded.logprobs(number) == exact[number][:rows]).all()
        top, kept = loaded.top_tokens(number), keep_top_tokens(exact[number])
        assert (top.ids == kept.ids).all()
        assert (top.logprobs == kept.logprobs).all()
    assert loaded.eager.positions == SETS * rows * POSITIONS
    assert loaded.eager.largest == 0


@pytest.mark.parametrize("faulty", ["exact", "eager"])
def test_probabilities_that_are_not_finite_are_an_error_of_the_model(
    faulty: str, tmp_path: pathlib.Path
) -> None:
    exact, broken = logprobs(0), logprobs(0)
    broken[0, 1, 2] = np.nan
    runs = [run_of(broken, exact, ROWS) if faulty == "exact" else run_of(exact, broken, ROWS)]
    with pytest.raises(ModelError):
        save_reference(tmp_path / "reference.npz", "float64", PROMPTS[:1], runs)
    assert not list(tmp_path.iterdir())


def test_a_large_batch_keeps_all_probabilities_of_its_first_rows_only() -> None:
    assert rows_with_logprobs(64, 32, 32000, 4) == 16
    assert rows_with_logprobs(4, 32, 32000, 4) == 4
    assert rows_with_logprobs(64, 1 << 20, 128256, 4) == 1
