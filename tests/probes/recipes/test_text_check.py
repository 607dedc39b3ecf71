"""The comparison of generated text with that of eager PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from top_tokens import keep_top_tokens

from probes.recipes.text_check import EagerText, compare_texts

#: Log probabilities of three tokens at two positions. At the first, tokens 0 and 1 are nearly tied.
LOGPROBS = np.log(np.array([[[0.5, 0.49, 0.01], [0.9, 0.09, 0.01]]]))


def eager_text() -> EagerText:
    return EagerText(
        inputs=[],
        tokens=[np.array([[0, 0]])],
        logprobs=keep_top_tokens(LOGPROBS),
        vocabulary=3,
        seconds=1.0,
    )


@pytest.mark.parametrize(
    ("tokens", "share"),
    [([0, 0], 0.0), ([1, 2], np.log(0.5 / 0.49) / 0.1)],
    ids=["the same text", "another text after a near tie"],
)
def test_a_text_that_diverges_at_a_near_tie_is_correct(tokens: list[int], share: float) -> None:
    assert compare_texts([np.array([tokens])], eager_text(), 0.1) == pytest.approx(share)


@pytest.mark.parametrize(
    "tokens",
    [[0, 1], [2, 0], [-1, 0]],
    ids=["at the second token", "at the first", "no token at all"],
)
def test_a_text_that_diverges_elsewhere_is_refused(tokens: list[int]) -> None:
    with pytest.raises(ArithmeticError, match=r"it generates .* for 0.*: do not use this recipe"):
        compare_texts([np.array([tokens])], eager_text(), 0.1)


def test_without_an_allowed_gap_the_agreement_is_unknown() -> None:
    produced: list[Any] = [np.array([[0, 1]])]
    assert compare_texts(produced, eager_text(), None) is None


def test_a_text_that_is_too_short_is_refused_without_an_allowed_gap() -> None:
    with pytest.raises(ArithmeticError, match="tokens instead of"):
        compare_texts([np.array([[0]])], eager_text(), None)
