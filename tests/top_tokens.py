"""Log probabilities of the likeliest tokens, as engines report them, and a reference of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from probes.adapter import TokenLogprobs
from probes.checking.text_reference import KEPT_TOKENS, ReferenceRun, top_token_ids


def normalised(values: Any) -> Any:
    return (values - np.log(np.exp(values).sum(-1, keepdims=True))).astype("float32")


def keep_top_tokens(logprobs: Any, count: int = KEPT_TOKENS) -> TokenLogprobs:
    """Return the `count` likeliest tokens of `(rows, positions, vocabulary)`."""
    ids = top_token_ids(logprobs, count)
    return TokenLogprobs(np.take_along_axis(logprobs, ids, -1), ids)


def run_of(exact: Any, eager: Any, rows: int | None = None) -> ReferenceRun:
    """Return a reference run with the log probabilities of all tokens of the first `rows`."""
    return ReferenceRun(
        exact.argmax(-1),
        TokenLogprobs(exact[:rows]),
        keep_top_tokens(exact),
        TokenLogprobs(eager[:rows]),
    )
