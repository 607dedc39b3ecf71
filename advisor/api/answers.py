"""Turn keywords of Python into the answers that the command line gives."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, TypedDict, TypeVar

import msgspec
from typing_extensions import ParamSpec

from advisor.errors import SizeError, UserError
from advisor.question.answers import Answers

Arguments = ParamSpec("Arguments")
Returned = TypeVar("Returned")


class SweepOptions(TypedDict, total=False):
    """Options of a question but its lengths; `p3-advisor recommend --help` describes them."""

    task: Literal["auto", "forward", "generate", "serve"]
    ttft: str
    itl: str
    lengths: str
    rate: float
    percentile: float
    gpu: str
    gpus_per_model: int
    dtype: Literal["auto", "float32", "float16", "bfloat16"]
    batch_sizes: Sequence[int] | int | str
    accuracy: str | float
    quantised: Sequence[str] | str
    data: str
    metric: str
    require: Sequence[str] | str
    budget: str | float
    wait_for_quiet: str
    max_load_seconds: float
    max_build_seconds: float
    max_build_times: Mapping[str, str] | str
    build_minutes: float
    requests: int
    price_per_hour: float
    sandbox: bool
    workflows: Sequence[str] | str
    weights_from: str
    python: str
    rubric: str
    seed: int
    offline: bool
    trust_remote_code: bool
    allow_pickle: bool


class Options(SweepOptions, total=False):
    """Options of a question; `p3-advisor recommend --help` describes them."""

    input_tokens: int
    output_tokens: int


def make_answers(
    model: str, priorities: Mapping[str, float] | str | None, options: Options | SweepOptions
) -> Answers:
    """Return the answers.

    Raise `TypeError` for an unknown option and `SizeError` for a wrong value.
    """
    unknown = [name for name in options if name not in Options.__annotations__]
    if unknown:
        message = f"unknown options: {', '.join(unknown)}"
        raise TypeError(message)
    fields = {name: _as_text(value) for name, value in options.items()}
    for name in ("budget", "accuracy", "batch_sizes"):
        if name in fields:
            fields[name] = str(fields[name])
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
