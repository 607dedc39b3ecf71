"""Turn keywords of Python into the answers that the command line gives."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import msgspec
from typing_extensions import ParamSpec

from advisor.ask.answers import Answers
from advisor.errors import SizeError, UserError

Arguments = ParamSpec("Arguments")
Returned = TypeVar("Returned")


def make_answers(
    model: str, priorities: Mapping[str, float] | str | None, options: Mapping[str, object]
) -> Answers:
    """Return the answers; `options` are the fields of `Answers` but those that other arguments set.

    Raise `TypeError` for an unknown option and `SizeError` for a wrong value.
    """
    known = {*Answers.__struct_fields__} - {"model", "priority", "preset"}
    unknown = [name for name in options if name not in known]
    if unknown:
        message = f"unknown options: {', '.join(unknown)}"
        raise TypeError(message)
    fields = {name: _as_text(value) for name, value in options.items()}
    for name in ("budget", "accuracy", "batch_sizes", "input_tokens", "output_tokens"):
        if name in fields:
            fields[name] = str(fields[name])
    if isinstance(mix := options.get("length_mix"), Mapping):
        fields["length_mix"] = ",".join(f"{_pair_name(key)}:{mix[key]:g}" for key in mix)
    if isinstance(priorities, str):
        fields["preset"] = priorities
    elif priorities is not None:
        fields["priority"] = format_priorities(priorities)
    try:
        return msgspec.convert({"model": model, **fields}, Answers)
    except msgspec.ValidationError as problem:
        raise SizeError(
            f"an option has a wrong value: {problem}", "see p3-advisor recommend --help"
        ) from problem


def _pair_name(lengths: int | tuple[int, int]) -> str:
    return "/".join(map(str, lengths)) if isinstance(lengths, tuple) else str(lengths)


def format_priorities(priorities: Mapping[str, float]) -> str:
    """Return weights as `--priority` takes them."""
    return ",".join(f"{name}={weight:g}" for name, weight in priorities.items())


def _as_text(value: object) -> object:
    """Return a sequence or mapping as its items with commas, and anything else unchanged."""
    if isinstance(value, Mapping):
        return ",".join(f"{name}={each}" for name, each in value.items())
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ",".join(map(str, value))
    return value


def reports_errors(function: Callable[Arguments, Returned]) -> Callable[Arguments, Returned]:
    """Return the function with the next step added to the notes of a `UserError`."""

    @functools.wraps(function)
    def call(*args: Arguments.args, **keywords: Arguments.kwargs) -> Returned:
        try:
            return function(*args, **keywords)
        except UserError as problem:
            if hasattr(problem, "add_note"):  # from Python 3.11 on
                problem.add_note(f"next: {problem.next_step}")
            raise

    return call
