"""A metric for `--metric retrieval_metric.py:score`: how well an encoder finds the rest of a text.

`trained_encoder.py` copies this file next to the `tokens.npy` that it reads.
"""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np

TOKENS_FILE = "tokens.npy"


def score(model: Any) -> float:
    """Return the mean reciprocal rank of the second half of a text, by its first half."""
    tokens = np.load(pathlib.Path(__file__).with_name(TOKENS_FILE))
    first, second = (embed(model, tokens[:, half]) for half in range(2))
    similarity = first @ second.T
    ranks = (similarity >= np.diagonal(similarity)[:, None]).sum(axis=1)
    return float((1 / ranks).mean())


def embed(model: Any, rows: Any) -> Any:
    """Return the normalised mean of the last states, `(rows, hidden)`, of `(rows, tokens)`."""
    vectors = []
    for start in range(0, len(rows), model.batch_size):
        batch = rows[start : start + model.batch_size]
        missing = model.batch_size - len(batch)
        (states,) = model(np.concatenate([batch, np.repeat(batch[:1], missing, axis=0)]))
        vectors.append(states[: len(batch)].mean(axis=1))
    stacked = np.concatenate(vectors)
    return stacked / np.linalg.norm(stacked, axis=1, keepdims=True)
