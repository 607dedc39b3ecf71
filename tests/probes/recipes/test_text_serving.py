from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from probes.checking.logprobs import keep_likeliest
from probes.recipes.text_serving import Expected, compare_texts

#: Logarithms of the probabilities of three tokens at two places: the first is all but even between
#: 0 and 1, the second is not.
LOGARITHMS = np.log(np.array([[[0.5, 0.49, 0.01], [0.9, 0.09, 0.01]]]))


def expected() -> Expected:
    return Expected(
        inputs=[],
        tokens=[np.array([[0, 0]])],
        scores=keep_likeliest(LOGARITHMS),
        vocabulary=3,
        seconds=1.0,
    )


@pytest.mark.parametrize(
    ("tokens", "share"),
    [([0, 0], 0.0), ([1, 2], np.log(0.5 / 0.49) / 0.1)],
    ids=["the same", "another text after a near tie"],
)
def test_a_text_that_departs_at_a_near_tie_is_right(tokens: list[int], share: float) -> None:
    assert compare_texts([np.array([tokens])], expected(), 0.1) == pytest.approx(share)


@pytest.mark.parametrize(
    "tokens",
    [[0, 1], [2, 0], [-1, 0]],
    ids=["at the second token", "at the first", "no token at all"],
)
def test_a_text_that_departs_elsewhere_is_refused(tokens: list[int]) -> None:
    with pytest.raises(ArithmeticError, match=r"it writes .* for 0.*: do not serve"):
        compare_texts([np.array([tokens])], expected(), 0.1)


def test_of_other_weights_it_is_not_known_what_is_allowed() -> None:
    produced: list[Any] = [np.array([[0, 1]])]
    assert compare_texts(produced, expected(), None) is None


def test_a_text_that_is_too_short_is_refused_whatever_the_weights() -> None:
    with pytest.raises(ArithmeticError, match="tokens instead of"):
        compare_texts([np.array([[0]])], expected(), None)
