"""The reference of generated text, and the file in which measured workers find it."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Iterable, Sequence
from typing import Any, Literal

from probes import arrays
from probes.adapter import ModelError, TokenLogprobs
from probes.arrays import np

#: Log probabilities that are kept for one shape. Beyond that, only the first rows have them.
MAX_LOGPROBS = 1 << 26


@dataclasses.dataclass(frozen=True)
class ReferenceRun:
    """The reference's run of one input set, and eager PyTorch's log probabilities along it."""

    #: `(rows, output tokens) int64`.
    tokens: Any
    #: Along `tokens`, of the whole vocabulary, for the first rows.
    exact: TokenLogprobs
    #: Along `tokens`, of the most likely tokens, for every row.
    top_tokens: TokenLogprobs
    eager: TokenLogprobs


@dataclasses.dataclass(frozen=True)
class TokenReference:
    """What other workers need. The log probabilities stay in the file until they are read."""

    name: str
    file: Any
    #: One array of prompts for each input set: `(rows, input tokens) int64`.
    inputs: list[list[Any]]
    #: The reference's continuation of each input set: `(rows, output tokens) int64`.
    tokens: list[Any]
    #: How many rows of each input set have log probabilities of the whole vocabulary.
    rows: int
    vocabulary: int
    eager: FidelityMetrics

    def logprobs(self, number: int) -> Any:
        """Return `(rows, output tokens, vocabulary)` of input set `number`, floating-point."""
        return arrays.read(self.file, f"logprobs-{number}")

    def top_tokens(self, number: int, *, of: Literal["", "eager-"] = "") -> TokenLogprobs:
        """Return the likeliest tokens of every row, the reference's or those of eager PyTorch."""
        return TokenLogprobs(
            *(arrays.read(self.file, f"{of}{kind}-{number}") for kind in ("top", "ids"))
        )


def rows_with_logprobs(
    batch_size: int, output_tokens: int, vocabulary: int, input_sets: int
) -> int:
    return max(1, min(batch_size, MAX_LOGPROBS // (output_tokens * vocabulary * input_sets)))


def save_reference(
    file: pathlib.Path, name: str, inputs: Sequence[Sequence[Any]], runs: Iterable[ReferenceRun]
) -> None:
    """Raise `ModelError` for log probabilities that are not finite."""
    large: dict[str, Any] = {}
    tokens, eager = [], []
    shape: tuple[int, ...] = ()
    for number, run in enumerate(runs):
        exact = run.exact.logprobs
        if not (np.isfinite(exact).all() and np.isfinite(run.eager.logprobs).all()):
            raise ModelError(
                "the model's probabilities are NaN or infinite",
                "choose another precision with --dtype, such as bfloat16",
            )
        large[f"logprobs-{number}"] = exact
        for prefix, kept in (("", run.top_tokens), ("eager-", keep_top_tokens(run.eager))):
            large |= {f"{prefix}top-{number}": kept.logprobs, f"{prefix}ids-{number}": kept.ids}
        tokens.append(run.tokens)
        eager.append(measure_fidelity(run.eager, exact))
        shape = exact.shape
    prompts = [list(arguments) for arguments in inputs]
    reference = TokenReference(name, "", prompts, tokens, shape[0], shape[-1], merge(eager))
    arrays.save(file, reference, large)


def load_reference(file: pathlib.Path) -> TokenReference:
    """Read what `save_reference` wrote, except for the log probabilities."""
    return dataclasses.replace(arrays.load(file, TokenReference, FidelityMetrics), file=file)


TOP_TOKENS = 5
#: The most likely tokens whose log probabilities a reference keeps for every row. Near ties are
#: among them.
KEPT_TOKENS = 64
#: Least probability of all tokens that are left out.
LEAST_REST = 1e-9


@dataclasses.dataclass(frozen=True)
class FidelityMetrics:
    """Agreement with the reference in a run that is forced to generate the reference's tokens."""

    #: Mean Kullback-Leibler divergence from the reference in nats.
    kl_mean: float
    #: Share of positions with the same most likely token.
    top1: float
    #: `top1`, where a near tie counts as the same token.
    top1_or_tie: float
    #: Largest error of the log probabilities of the most likely tokens.
    largest: float
    positions: int


def measure_fidelity(scores: TokenLogprobs, exact: Any, near_tie: float = 0.0) -> FidelityMetrics:
    """Compare `scores` with the reference's log probabilities.

    `exact` is `(rows, positions, vocabulary)` in a floating-point dtype. It may have more rows than
    `scores`. Tokens that `scores` leaves out count as one with their total probability. Two tokens
    are a near tie where the reference prefers its own by at most `near_tie` nats.
    """
    values, ids = scores.logprobs.astype("float64"), scores.ids
    target = exact[: len(values)].astype("float64")
    target_ids = top_token_ids(target)
    if ids is None:
        divergence = (np.exp(target) * (target - values)).sum(-1)
        found_ids = top_token_ids(values)
        errors = np.take_along_axis(values - target, target_ids, -1)
    else:
        known = np.take_along_axis(target, ids, -1)
        divergence = measure_divergence(known, values)
        found_ids = np.take_along_axis(ids, top_token_ids(values), -1)
        errors = values - known
    own, other = (
        np.take_along_axis(target, each[..., :1], -1)[..., 0] for each in (target_ids, found_ids)
    )
    return FidelityMetrics(
        # A mean below zero is rounding.
        kl_mean=max(float(divergence.mean()), 0.0),
        top1=float((target_ids[..., 0] == found_ids[..., 0]).mean()),
        top1_or_tie=float((own - other <= near_tie).mean()),
        largest=float(abs(errors).max()),
        positions=int(divergence.size),
    )


def measure_divergence(target: Any, own: Any, known: Any = True) -> Any:  # noqa: FBT002 - or an array
    """Return the Kullback-Leibler divergence of each position, `(rows, positions) float64`.

    `target` and `own` are log probabilities in nats, `(rows, positions, tokens) float64`. Tokens
    that are not `known`, which may be a bool array of the same shape, count as one.
    """
    probability = np.where(known, np.exp(target), 0.0)
    rest = [
        np.log(np.clip(1 - np.where(known, np.exp(each), 0.0).sum(-1), LEAST_REST, 1))
        for each in (target, own)
    ]
    total = (probability * np.where(known, target - own, 0.0)).sum(-1)
    return total + np.exp(rest[0]) * (rest[0] - rest[1])


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


def merge(metrics: Sequence[FidelityMetrics]) -> FidelityMetrics:
    count = len(metrics)
    # All input sets have as many positions, so the mean of their means is that of all.
    return FidelityMetrics(
        kl_mean=sum(one.kl_mean for one in metrics) / count,
        top1=sum(one.top1 for one in metrics) / count,
        top1_or_tie=sum(one.top1_or_tie for one in metrics) / count,
        largest=max(one.largest for one in metrics),
        positions=sum(one.positions for one in metrics),
    )
