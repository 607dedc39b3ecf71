"""`--input-tokens` and `--output-tokens` as lists, and `--length-mix`: the lengths of a sweep."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence

import msgspec

from advisor.domain.model import ExportedModel, FactoryModel
from advisor.domain.question import Question
from advisor.domain.sweep import Lengths, MixedLengths
from advisor.errors import SizeError, SweepError
from advisor.question.answers import Answers
from advisor.question.load import SERVE

MOST_TOKENS = 1 << 20
MIX_EXAMPLE = "write it like 32:70,512:20,2048:10, or 32/16:70,512/128:30 with output lengths"


class LengthAnswers(msgspec.Struct, frozen=True, kw_only=True):
    """Lengths of inputs and outputs and their shares, as the user writes them."""

    input_tokens: str = str(Answers().input_tokens)
    output_tokens: str = str(Answers().output_tokens)
    length_mix: str = ""

    @classmethod
    def of(cls, answers: Answers) -> LengthAnswers:
        """Return the single length of the options of a run."""
        return cls(input_tokens=str(answers.input_tokens), output_tokens=str(answers.output_tokens))

    def parse(self) -> tuple[MixedLengths, ...]:
        """Return every pair with its share; raise `SizeError` or `SweepError`."""
        return parse_lengths(self.input_tokens, self.output_tokens, self.length_mix)


DEFAULT_LENGTHS = LengthAnswers()


def parse_lengths(input_tokens: str, output_tokens: str, mix: str = "") -> tuple[MixedLengths, ...]:
    """Return every pair of an input and an output length with its share, the shortest first.

    `mix` has shares in any unit, such as percent; lengths that it does not name have none. Without
    a mix all pairs have the same share. Raise `SizeError` or `SweepError`.
    """
    pairs = [
        Lengths(input_tokens=one, output_tokens=two)
        for one, two in itertools.product(
            parse_token_counts("--input-tokens", input_tokens),
            parse_token_counts("--output-tokens", output_tokens),
        )
    ]
    if mix and len(pairs) == 1:
        raise SweepError(
            "--length-mix needs several lengths",
            "add them, such as --input-tokens 32,512,2048, or leave out --length-mix",
        )
    shares = _parse_mix(mix, pairs) if mix else dict.fromkeys(pairs, 1.0)
    total = math.fsum(shares.values())
    return tuple(MixedLengths(lengths=pair, share=shares[pair] / total) for pair in sorted(pairs))


def parse_token_counts(option: str, text: str) -> tuple[int, ...]:
    """Return the numbers of tokens in ascending order, each once; raise `SizeError`."""
    try:
        counts = sorted({int(part) for part in text.split(",")})
    except ValueError as problem:
        raise SizeError(
            f"{option} {text!r} is neither a whole number nor a list of them",
            "write it like 512, or 32,512,2048 for a sweep",
        ) from problem
    for count in counts:
        if not 1 <= count <= MOST_TOKENS:
            raise SizeError(
                f"{option} {count} is out of range", f"use whole numbers from 1 to {MOST_TOKENS}"
            )
    return tuple(counts)


def _parse_mix(text: str, pairs: Sequence[Lengths]) -> dict[Lengths, float]:
    """Return the share of each pair; an input length shares its part among its output lengths."""
    by_name = _names_of(pairs)
    shares = dict.fromkeys(pairs, 0.0)
    named: set[Lengths] = set()
    for part in text.split(","):
        name, _, number = (each.strip() for each in part.partition(":"))
        share = _parse_share(part, number)
        if name not in by_name:
            raise SweepError(
                f"--length-mix names {name!r}, which is not a length of the sweep",
                f"use {', '.join(by_name)}",
            )
        if named & {*by_name[name]}:
            raise SweepError(f"--length-mix names {name!r} twice", "name each length once")
        named.update(by_name[name])
        for pair in by_name[name]:
            shares[pair] = share / len(by_name[name])
    if not any(shares.values()):
        raise SweepError("the shares of --length-mix are all 0", MIX_EXAMPLE)
    return shares


def _names_of(pairs: Sequence[Lengths]) -> Mapping[str, list[Lengths]]:
    """Return the pairs by the names that a mix may use: `32` and `32/16`."""
    names: dict[str, list[Lengths]] = {}
    for pair in pairs:
        names.setdefault(f"{pair.input_tokens}", []).append(pair)
    return names | {f"{pair.input_tokens}/{pair.output_tokens}": [pair] for pair in pairs}


def _parse_share(part: str, number: str) -> float:
    try:
        share = float(number.removesuffix("%"))
    except ValueError:
        share = -1.0
    if not (math.isfinite(share) and share >= 0):
        raise SweepError(
            f"--length-mix has {part!r}, which is not a length with its share", MIX_EXAMPLE
        )
    return share


def check_answers(answers: Answers) -> None:
    """Raise `SweepError` for options that do not go together with several lengths."""
    if answers.task == SERVE:
        raise SweepError(
            "a server is measured with one mix of request lengths, not with a sweep",
            "leave out the lists, and choose the mix with --lengths",
        )


def check_question(question: Question, mix: Sequence[MixedLengths]) -> None:
    """Raise `SweepError` for a question whose answer does not depend on the swept lengths."""
    if isinstance(question.model, (FactoryModel, ExportedModel)):
        raise SweepError(
            f"{question.model.name!r} has inputs of its own, whose length is fixed",
            "give one length, or sweep a Hugging Face or synthetic model",
        )
    if question.task == "forward" and len({each.lengths.output_tokens for each in mix}) > 1:
        raise SweepError(
            "a forward pass generates no text, so output lengths change nothing",
            "sweep --input-tokens only, or use --task generate with a causal language model",
        )
