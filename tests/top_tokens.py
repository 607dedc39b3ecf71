"""Log probabilities of the likeliest tokens, as an engine reports them."""

from __future__ import annotations

from typing import Any

import numpy as np

from probes.checking.text_reference import KEPT_TOKENS, TokenLogprobs, top_token_ids


def keep_top_tokens(logprobs: Any, count: int = KEPT_TOKENS) -> TokenLogprobs:
    """Return the `count` likeliest tokens of `(rows, positions, vocabulary)`."""
    ids = top_token_ids(logprobs, count)
    return TokenLogprobs(np.take_along_axis(logprobs, ids, -1), ids)
