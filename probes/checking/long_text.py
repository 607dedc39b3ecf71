"""How much of a trained language model is lost, along a text of thousands of tokens.

The check of generated text compares a few hundred positions; this one has enough to tell a loss of
a percent. Each arm is forced to generate the text, and its log probabilities are compared with the
reference's in float32. The likeliest tokens of the reference are kept at each position; the others
count as one, so a divergence is a lower bound, and close to the truth for a trained model.
"""

from __future__ import annotations

import dataclasses
import pathlib
import time
from collections.abc import Callable
from typing import Any

from probes import arrays
from probes.accuracy import TextScores
from probes.adapter import TokenLogprobs
from probes.arrays import np
from probes.checking.text_reference import measure_divergence, top_token_ids
from probes.protocol import Request

#: Likeliest tokens of the reference that are kept at each position.
KEPT_TOKENS = 256


@dataclasses.dataclass(frozen=True)
class LongText:
    """The text and the reference's log probabilities; arrays are `(sets, rows, positions, ...)`."""

    #: Where the text comes from.
    source: str
    #: `(sets, rows, input tokens) int64`.
    prompts: Any
    #: `int64`.
    tokens: Any
    #: Log probabilities of `tokens`.
    chosen: Any
    #: The likeliest tokens and their log probabilities, `(..., KEPT_TOKENS)`.
    ids: Any
    logprobs: Any
    #: Eager PyTorch's losses: `(sets, rows)` for each of `FIGURES`.
    eager: dict[str, Any]


#: Means over the positions of each row, `(rows,) float64`: divergence from the reference in nats,
#: share of positions with the same likeliest token, and by how much less likely the text is than in
#: the reference, in nats, without tokens that the arm does not report.
FIGURES = ("divergence", "same_top", "loss")


def make_long_text(
    source: str,
    sequences: Any,
    request: Request,
    exact: Callable[[Any], Any],
    eager: Callable[[Any], Any],
) -> LongText:
    """Return the text with the log probabilities of the reference and the losses of eager PyTorch.

    `sequences` is `(count, input + output tokens) int64`; whole sets of the largest batch are used
    of it. `exact` and `eager` return the log probabilities of the next token at the last
    `output_tokens` positions of sequences: `(rows, output tokens, vocabulary) float32`.
    """
    rows = max(request.batch_sizes)
    sets = len(sequences) // rows
    by_set = sequences[: sets * rows].reshape(sets, rows, -1)
    prompts, tokens = np.split(by_set, [request.input_tokens], axis=-1)
    kept: dict[str, list[Any]] = {name: [] for name in ("chosen", "ids", "logprobs", *FIGURES)}
    for prompt, text in zip(prompts, tokens, strict=True):
        whole = np.concatenate([prompt, text], axis=-1)
        whole_logprobs = exact(whole)
        ids = top_token_ids(whole_logprobs, KEPT_TOKENS)
        reference = {
            "chosen": np.take_along_axis(whole_logprobs, text[..., None], -1)[..., 0],
            "ids": ids,
            "logprobs": np.take_along_axis(whole_logprobs, ids, -1),
        }
        scores, _ = score_rows(TokenLogprobs(eager(whole)), text, **reference)
        for name, value in (reference | scores).items():
            kept[name].append(value)
    stacked = {name: np.stack(values) for name, values in kept.items()}
    eager_losses = {name: stacked.pop(name) for name in FIGURES}
    return LongText(source, prompts, tokens, eager=eager_losses, **stacked)


def score_rows(
    scores: TokenLogprobs, text: Any, chosen: Any, ids: Any, logprobs: Any
) -> tuple[dict[str, Any], bool]:
    """Compare an arm's log probabilities along `text` with the reference's.

    Return each of `FIGURES`, and whether the arm does not report some tokens of the text.

    `text` has the tokens, `(rows, positions) int64`, and `chosen` the reference's log probabilities
    of them, in the same shape. `ids` and `logprobs` are the reference's likeliest tokens and their
    log probabilities, `(rows, positions, KEPT_TOKENS)` in int64 and float32.
    """
    if scores.ids is None:
        own = np.take_along_axis(scores.logprobs, ids, -1).astype("float64")
        token = np.take_along_axis(scores.logprobs, text[..., None], -1)[..., 0]
        top, is_incomplete = scores.logprobs.argmax(-1), False
        known = np.ones(own.shape, dtype=bool)
    else:
        own, known = look_up(scores, ids)
        logprob, has_token = look_up(scores, text[..., None])
        token = np.where(has_token[..., 0], logprob[..., 0], np.nan)
        top = np.take_along_axis(scores.ids, scores.logprobs.argmax(-1)[..., None], -1)[..., 0]
        is_incomplete = not bool(has_token.all())
    # NaN where the arm does not report the token.
    losses = (chosen - token).astype("float64")
    divergence = measure_divergence(logprobs.astype("float64"), own, known).mean(-1)
    loss = np.nansum(losses, -1) / np.maximum((~np.isnan(losses)).sum(-1), 1)
    same_top = (top == ids[..., 0]).mean(-1)
    return dict(zip(FIGURES, (divergence, same_top, loss), strict=True)), is_incomplete


def look_up(scores: TokenLogprobs, ids: Any) -> tuple[Any, Any]:
    """Return the log probabilities of `ids`, and whether the arm reports them; else 0.

    `ids` is `(rows, positions, tokens) int64`; the results have its shape, in float64 and bool.
    """
    order = np.argsort(scores.ids, axis=-1)
    sorted_ids = np.take_along_axis(scores.ids, order, -1)
    values = np.take_along_axis(scores.logprobs, order, -1).astype("float64")
    logprobs, known = np.zeros(ids.shape), np.zeros(ids.shape, dtype=bool)
    for row in np.ndindex(ids.shape[:-1]):
        positions = np.searchsorted(sorted_ids[row], ids[row]).clip(max=len(values[row]) - 1)
        known[row] = sorted_ids[row][positions] == ids[row]
        logprobs[row] = np.where(known[row], values[row][positions], 0.0)
    return logprobs, known


def score_program(program: Any, text: LongText, request: Request) -> TextScores | None:
    """Score as many sets as the time allows; None for a program without probabilities."""
    score = getattr(program, "score", None)
    if score is None:
        return None
    end = time.monotonic() + request.long_text["seconds"]
    kept: list[dict[str, Any]] = []
    is_incomplete = False
    for number, prompts in enumerate(text.prompts):
        if kept and time.monotonic() > end:
            break
        tokens = text.tokens[number]
        scores = score(program.feed([prompts]), tokens, len(tokens))
        reference = (text.chosen[number], text.ids[number], text.logprobs[number])
        losses, lacks_tokens = score_rows(scores, tokens, *reference)
        kept.append(losses)
        is_incomplete |= lacks_tokens
    own: dict[str, Any] = {
        name: tuple(float(value) for each in kept for value in each[name]) for name in FIGURES
    }
    own |= {
        f"{name}_eager": tuple(text.eager[name][: len(kept)].ravel().tolist()) for name in FIGURES
    }
    return TextScores(
        source=text.source,
        positions=len(own["loss"]) * request.output_tokens,
        is_incomplete=is_incomplete,
        **own,
    )


def file_of(request: Request) -> pathlib.Path:
    return pathlib.Path(request.shared_directory) / "long-text.npz"


def load(request: Request) -> LongText:
    return arrays.load(file_of(request), LongText)
