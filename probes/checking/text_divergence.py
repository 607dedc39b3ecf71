"""Find where generated text diverges from the reference's, and by how much it preferred its own."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, Protocol

from probes.checking.logprobs import TokenLogprobs

#: Number of tokens of each text that a reason quotes at a divergence.
EXCERPT_TOKENS = 4


class Continuations(Protocol):
    """Generated tokens by input set, and the most likely tokens along them."""

    @property
    def tokens(self) -> list[Any]:
        """By input set, `(rows, output tokens) int64`."""

    @property
    def vocabulary(self) -> int:
        """The number of different tokens."""

    def top_tokens(self, number: int) -> TokenLogprobs:
        """Return the most likely tokens of input set `number`, by row and position."""


@dataclasses.dataclass(frozen=True)
class Divergence:
    """Where rows of tokens diverge from the reference's."""

    sequences: int
    #: Rows that do not diverge.
    identical: int
    #: The earliest position at which a row diverges, and the largest gap; None where none does.
    first: int | None
    gap: float | None
    #: Both texts at the largest gap; empty where no row diverges.
    excerpt: str
    #: Share of all tokens that are equal.
    equal: float = 1.0


def find_divergence(
    produced: Sequence[Any], reference: Continuations, rows: Sequence[Sequence[int]] | None = None
) -> Divergence:
    """Compare the tokens of each input set with the reference's.

    `produced` has, by input set, `(rows, output tokens)` of integers. `rows` maps them to rows of
    the reference; by default all rows are compared in order.
    """
    positions, gaps, sequences, equal = [], [], 0, []
    for number, tokens in enumerate(produced):
        chosen = rows[number] if rows is not None else range(len(tokens))
        expected = reference.tokens[number][list(chosen)]
        sequences += len(tokens)
        equal += [float((one == other).mean()) for one, other in zip(tokens, expected, strict=True)]
        diverging = [
            (row, int((one != other).argmax()))
            for row, (one, other) in enumerate(zip(tokens, expected, strict=True))
            if (one != other).any()
        ]
        positions += [position for _, position in diverging]
        top_tokens = reference.top_tokens(number) if diverging else None
        for row, position in diverging:
            gap = measure_gap(
                top_tokens,
                (chosen[row], position),
                expected[row, position],
                tokens[row, position],
                reference.vocabulary,
            )
            texts = (each[row, position : position + EXCERPT_TOKENS] for each in (tokens, expected))
            found, wanted = (" ".join(map(str, text.tolist())) for text in texts)
            gaps.append((gap, f"after {position} tokens it generates {found} for {wanted}"))
    largest, excerpt = max(gaps, default=(None, ""))
    identical = sequences - len(positions)
    return Divergence(
        sequences,
        identical,
        min(positions, default=None),
        largest,
        excerpt,
        sum(equal) / len(equal) if equal else 1.0,
    )


def measure_gap(
    top_tokens: Any, position: tuple[int, int], own: int, other: int, vocabulary: int
) -> float:
    """Return by how much the reference prefers its `own` token to the `other`, in nats.

    `top_tokens` are the reference's `TokenLogprobs`; `position` is a row and a position of them. If
    a token is not among them, the result is a lower bound. It is infinite for an `other` outside of
    the vocabulary, such as the padding of a text that ended early.
    """
    if not 0 <= other < vocabulary:
        return math.inf
    known = dict(
        zip(top_tokens.ids[position].tolist(), top_tokens.logprobs[position].tolist(), strict=True)
    )
    least = min(known.values())
    return float(known.get(int(own), least) - known.get(int(other), least))
