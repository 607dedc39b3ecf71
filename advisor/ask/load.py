"""`--ttft`, `--itl`, `--lengths`, `--rate` and `--percentile`: the load of the task `serve`."""

from __future__ import annotations

import pathlib

import msgspec

from advisor.ask.answers import Answers
from advisor.ask.constraints import parse_duration
from advisor.domain.catalogue import Catalogue
from advisor.domain.model import Model, TransformersModel
from advisor.domain.question import LoadQuestion, RequestLengths
from advisor.domain.serving import ServingRules
from advisor.errors import SizeError, TaskError

SERVE = "serve"
DEFAULT_PERCENTILE = 95.0
#: Limits that a form proposes; the command line has no default.
FIRST_TTFT, FIRST_ITL = "500ms", "50ms"
LEAST_PERCENTILE = 50.0
#: Options that only the task `serve` has.
OPTIONS = ("ttft", "itl", "lengths", "rate", "percentile")


def parse_load(
    answers: Answers, task: str, model: Model, catalogue: Catalogue
) -> LoadQuestion | None:
    """Return the load of the task `serve`; None for another task.

    Raise `TaskError` for options that do not fit the task and `SizeError` for wrong values.
    """
    given = [name for name in OPTIONS if getattr(answers, name)]
    if task != SERVE:
        if given:
            raise TaskError(
                f"--{given[0]} is about servers, which the task {task} does not measure",
                "add --task serve",
            )
        return None
    missing = [f"--{name}" for name in ("ttft", "itl") if not getattr(answers, name)]
    if missing:
        raise TaskError(
            f"--task serve needs limits on the latency: {' and '.join(missing)}",
            "add for example --ttft 500ms --itl 50ms",
        )
    if answers.sandbox:
        raise TaskError(
            "a server in a sandbox without a network cannot be asked anything",
            "leave out --sandbox",
        )
    percentile = answers.percentile or DEFAULT_PERCENTILE
    if percentile < LEAST_PERCENTILE:
        raise SizeError(
            f"--percentile {percentile:g} is out of range",
            f"use a number from {LEAST_PERCENTILE:g} to below 100, such as 95",
        )
    name, lengths = parse_request_lengths(answers.lengths, catalogue.serving)
    load = LoadQuestion(
        name=name,
        lengths=lengths,
        ttft_seconds=parse_duration("--ttft", answers.ttft),
        itl_seconds=parse_duration("--itl", answers.itl),
        share=percentile / 100,
        rate=answers.rate or None,
    )
    _check_length(load, model)
    return load


def parse_request_lengths(
    text: str, rules: ServingRules | None
) -> tuple[str, tuple[RequestLengths, ...]]:
    """Return the name of a mix of lengths, or of a file, and the lengths."""
    mixes = rules.lengths if rules else {}
    name = text or (rules.default_lengths if rules else "")
    if name in mixes:
        return name, mixes[name].requests
    example = '{"input_tokens": 512, "output_tokens": 128}'
    advice = f"use one of {', '.join(mixes)}, or a file of JSON lines such as {example}"
    try:
        lines = pathlib.Path(name).read_bytes().splitlines()
        lengths = tuple(
            msgspec.json.decode(line, type=RequestLengths) for line in lines if line.strip()
        )
    except (OSError, ValueError) as problem:
        raise SizeError(
            f"--lengths {name!r} is neither a known mix nor a file of lengths: {problem}", advice
        ) from problem
    if not lengths:
        raise SizeError(f"--lengths {name!r} has no lines", advice)
    return pathlib.Path(name).name, lengths


def _check_length(load: LoadQuestion, model: Model) -> None:
    """Raise `SizeError` for requests that are longer than the model's positions, where known."""
    config = model.config if isinstance(model, TransformersModel) else None
    most = (config or {}).get("max_position_embeddings") or (config or {}).get("n_positions")
    if isinstance(most, int) and load.most_tokens > most:
        raise SizeError(
            f"requests of up to {load.most_tokens} tokens do not fit the {most} positions of "
            f"{model.name}",
            "choose shorter ones with --lengths",
        )
