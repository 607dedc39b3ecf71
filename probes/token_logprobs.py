"""Log probabilities of generated tokens, as programs that generate text return them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from probes.arrays import np

TOP_TOKENS = 5
#: The most likely tokens whose log probabilities a reference keeps for every row. Near ties are
#: among them.
KEPT_TOKENS = 64


@dataclasses.dataclass(frozen=True)
class TokenLogprobs:
    """Natural logarithms of the next token's probability, at each position of each row.

    `logprobs` is `(rows, positions, tokens)` in a floating-point dtype. `ids` has the tokens of its
    last axis, `(rows, positions, tokens) int64`; None if that axis is the whole vocabulary.
    """

    logprobs: Any
    ids: Any = None
    method: str = "teacher-forced"


def log_softmax(logits: Any) -> Any:
    """Along the last axis of `(..., vocabulary)`, in the dtype of `logits`."""
    shifted = logits - logits.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


def top_token_ids(logprobs: Any, count: int = TOP_TOKENS) -> Any:
    """Return `(..., count) int64` indices on the last axis, that of the largest value first."""
    count = min(count, logprobs.shape[-1])
    unordered = np.argpartition(logprobs, -count, axis=-1)[..., -count:]
    order = np.argsort(-np.take_along_axis(logprobs, unordered, -1), axis=-1)
    return np.take_along_axis(unordered, order, -1)


def keep_top_tokens(scores: TokenLogprobs, count: int = KEPT_TOKENS) -> TokenLogprobs:
    columns = top_token_ids(scores.logprobs, count)
    values = np.take_along_axis(scores.logprobs, columns, -1)
    ids = columns if scores.ids is None else np.take_along_axis(scores.ids, columns, -1)
    return TokenLogprobs(values, ids, scores.method)


def logprobs_from_top_tokens(
    tops: Sequence[Sequence[Mapping[int, float]]], count: int
) -> TokenLogprobs:
    """Take log probabilities by token id, `count` or more of them, for each row and position."""
    chosen = [
        [sorted(position.items(), key=lambda entry: -entry[1])[:count] for position in row]
        for row in tops
    ]
    # `(rows, positions, count, 2)`: float64 holds every token id.
    ids, logprobs = np.moveaxis(np.array(chosen, dtype="float64"), -1, 0)
    method = f"teacher-forced through the prompt, {count} likeliest tokens"
    return TokenLogprobs(logprobs.astype("float32"), ids.astype("int64"), method)
