"""The probabilities that a way of running a language model gives to tokens, and what they lose against a more precise run's."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

LIKELIEST = 5
#: Likeliest tokens of which a reference keeps the probabilities for every row: near ties are among
#: them.
CANDIDATES = 64
PERCENTILE = 99


@dataclasses.dataclass(frozen=True)
class Scores:
    """Logarithms of the next token's probability, by row and position: of all tokens, or of those in `ids` alone."""

    logarithms: Any
    ids: Any = None
    method: str = "teacher-forced"


@dataclasses.dataclass(frozen=True)
class FidelityMetrics:
    """What a way of running the model loses against the reference when the reference's tokens are forced."""

    kl_mean: float
    kl_p99: float
    top1: float
    top5: float
    #: Largest error of the logarithms of the likeliest tokens.
    largest: float
    positions: int


def measure_losses(scores: Scores, exact: Any) -> FidelityMetrics:
    """Compare scores with the reference's logarithms `exact`, both by row, position and token; what is not told is one lump."""
    import numpy as np  # noqa: PLC0415 - the core is importable without any stack

    got, ids = scores.logarithms.astype("float64"), scores.ids
    wanted = exact[: len(got)].astype("float64")
    top = find_likeliest(wanted)
    if ids is None:
        divergence = (np.exp(wanted) * (wanted - got)).sum(-1)
        likeliest = find_likeliest(got)
        errors = np.take_along_axis(got - wanted, top, -1)
    else:
        known = np.take_along_axis(wanted, ids, -1)
        rest = [np.log(np.clip(1 - np.exp(each).sum(-1), 1e-9, 1)) for each in (known, got)]
        divergence = (np.exp(known) * (known - got)).sum(-1) + np.exp(rest[0]) * (rest[0] - rest[1])
        likeliest = np.take_along_axis(ids, find_likeliest(got), -1)
        errors = got - known
    same = [
        [len(set(one) & set(other)) for one, other in zip(*rows, strict=True)]
        for rows in zip(top, likeliest, strict=True)
    ]
    return FidelityMetrics(
        kl_mean=float(divergence.mean()),
        kl_p99=float(np.percentile(divergence, PERCENTILE)),
        top1=float((top[..., 0] == likeliest[..., 0]).mean()),
        top5=float(np.mean(same)) / LIKELIEST,
        largest=float(abs(errors).max()),
        positions=int(divergence.size),
    )


def keep_likeliest(logarithms: Any) -> Scores:
    """Return what a reference keeps for every row."""
    import numpy as np  # noqa: PLC0415

    ids = find_likeliest(logarithms, CANDIDATES)
    return Scores(np.take_along_axis(logarithms, ids, -1), ids)


def find_likeliest(logarithms: Any, most: int = LIKELIEST) -> Any:
    """Return the places of the largest values along the last axis, largest first."""
    import numpy as np  # noqa: PLC0415

    count = min(most, logarithms.shape[-1])
    unordered = np.argpartition(logarithms, -count, axis=-1)[..., -count:]
    order = np.argsort(-np.take_along_axis(logarithms, unordered, -1), axis=-1)
    return np.take_along_axis(unordered, order, -1)


def merge(losses: Sequence[FidelityMetrics]) -> FidelityMetrics:
    """Return the losses of several input sets as one; the largest of those that are no means."""
    count = len(losses)
    return FidelityMetrics(
        kl_mean=sum(one.kl_mean for one in losses) / count,
        kl_p99=max(one.kl_p99 for one in losses),
        top1=sum(one.top1 for one in losses) / count,
        top5=sum(one.top5 for one in losses) / count,
        largest=max(one.largest for one in losses),
        positions=sum(one.positions for one in losses),
    )


def scores_of_likeliest(tops: Sequence[Sequence[Mapping[int, float]]], count: int) -> Scores:
    """Return scores from the `count` likeliest tokens and their logarithms, by row and position; there may be more of them."""
    import numpy as np  # noqa: PLC0415

    chosen = [
        [sorted(position.items(), key=lambda entry: -entry[1])[:count] for position in row]
        for row in tops
    ]
    ids = np.array(
        [[[token for token, _ in position] for position in row] for row in chosen], dtype="int64"
    )
    logarithms = np.array(
        [[[logarithm for _, logarithm in position] for position in row] for row in chosen],
        dtype="float32",
    )
    return Scores(logarithms, ids, f"teacher-forced through the prompt, {count} likeliest tokens")
