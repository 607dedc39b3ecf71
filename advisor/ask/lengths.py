"""`--input-tokens`, `--output-tokens` and `--length-mix`: lengths and their shares of the use."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import msgspec

from advisor.ask.answers import Answers
from advisor.ask.load import SERVE
from advisor.domain.model import ExportedModel, FactoryModel, Model
from advisor.domain.question import Lengths, Task
from advisor.errors import SizeError

MOST_TOKENS = 1 << 20
MIX_EXAMPLE = "write it like 32:70,512:20,2048:10, or 32/16:70,512/128:30 with output lengths"


def choose_lengths(answers: Answers, model: Model, task: Task) -> tuple[Lengths, ...]:
    """Return every pair of an input and an output length, the shortest first.

    Lengths that the mix does not name have no share; without a mix all have the same. Raise
    `SizeError`.
    """
    inputs = parse_token_counts("--input-tokens", answers.input_tokens)
    outputs = parse_token_counts("--output-tokens", answers.output_tokens)
    pairs = [Lengths(input_tokens=one, output_tokens=two) for one in inputs for two in outputs]
    if len(pairs) > 1:
        _check_several(model, task, outputs)
    elif answers.length_mix:
        raise SizeError(
            "--length-mix needs several lengths",
            "add them, such as --input-tokens 32,512,2048, or leave out --length-mix",
        )
    shares = _parse_mix(answers.length_mix, pairs) if answers.length_mix else [1.0] * len(pairs)
    total = math.fsum(shares)
    return tuple(
        msgspec.structs.replace(pair, share=share / total)
        for pair, share in zip(pairs, shares, strict=True)
    )


def parse_token_counts(option: str, text: str) -> tuple[int, ...]:
    """Return the numbers of tokens in ascending order, each once; raise `SizeError`."""
    try:
        counts = sorted({int(part) for part in text.split(",")})
    except ValueError as problem:
        raise SizeError(
            f"{option} {text!r} is neither a whole number nor a list of them",
            "write it like 512, or 32,512,2048 for several lengths",
        ) from problem
    for count in counts:
        if not 1 <= count <= MOST_TOKENS:
            raise SizeError(
                f"{option} {count} is out of range", f"use whole numbers from 1 to {MOST_TOKENS}"
            )
    return tuple(counts)


def _check_several(model: Model, task: Task, outputs: Sequence[int]) -> None:
    """Raise `SizeError` where the figures do not depend on the lengths."""
    if task == SERVE:
        raise SizeError(
            "a server is measured with one mix of request lengths",
            "leave out the lists, and choose the mix with --lengths",
        )
    if isinstance(model, (FactoryModel, ExportedModel)):
        raise SizeError(
            f"{model.name!r} has inputs of its own, whose length is fixed",
            "give one length, or measure a Hugging Face or synthetic model",
        )
    if task == "forward" and len(outputs) > 1:
        raise SizeError(
            "a forward pass generates no text, so output lengths change nothing",
            "list --input-tokens only, or use --task generate with a causal language model",
        )


def _parse_mix(text: str, pairs: Sequence[Lengths]) -> list[float]:
    """Return the share of each pair; an input length shares its part among its output lengths."""
    by_name = _names_of(pairs)
    shares: dict[Lengths, float] = {}
    for part in text.split(","):
        name, _, number = (each.strip() for each in part.partition(":"))
        share = _parse_share(part, number)
        if name not in by_name:
            raise SizeError(
                f"--length-mix names {name!r}, which is not measured", f"use {', '.join(by_name)}"
            )
        if shares.keys() & {*by_name[name]}:
            raise SizeError(f"--length-mix names {name!r} twice", "name each length once")
        shares |= dict.fromkeys(by_name[name], share / len(by_name[name]))
    if not any(shares.values()):
        raise SizeError("the shares of --length-mix are all 0", MIX_EXAMPLE)
    return [shares.get(pair, 0.0) for pair in pairs]


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
        raise SizeError(
            f"--length-mix has {part!r}, which is not a length with its share", MIX_EXAMPLE
        )
    return share
