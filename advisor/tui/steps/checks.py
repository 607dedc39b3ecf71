"""Check the text of a field as it is left, and name the field as the screen does."""

from __future__ import annotations

import pathlib
import shutil
from collections.abc import Callable, Mapping

from advisor.domain.catalogue import Catalogue
from advisor.errors import InterpreterError, SizeError, UnknownGpuError, UserError
from advisor.tui.widgets.answer_input import Check


def of_field(name: str, label: str, catalogue: Catalogue) -> Check | None:
    """Return the check of a field of the question about the target; None for a free text."""
    checks: dict[str, Callable[[str], object]] = {
        "absent_gpu": lambda typed: _check_gpu(typed, catalogue),
        "batch_sizes": _check_batch_sizes,
        "input_tokens": lambda typed: _check_tokens("--input-tokens", typed),
        "output_tokens": lambda typed: _check_tokens("--output-tokens", typed),
        "max_build_seconds": _check_seconds,
        "python": _check_interpreter,
        "ttft": lambda typed: _check_duration("--ttft", typed),
        "itl": lambda typed: _check_duration("--itl", typed),
        "request_lengths": lambda typed: _check_lengths(typed, catalogue),
        "rate": lambda typed: _check_number("--rate", typed, float),
        "gpus_per_model": lambda typed: _check_number("--gpus-per-model", typed, int),
    }
    check = checks.get(name)
    return None if check is None else lambda typed: _named(check, name, label, typed)


def _named(check: Callable[[str], object], name: str, label: str, typed: str) -> None:
    """Check a text; an error names the field instead of the option of the command line."""
    try:
        check(typed)
    except UserError as error:
        raise with_labels(error, {name: label}) from error


def with_labels(error: UserError, labels: Mapping[str, str]) -> UserError:
    """Return the error with the labels of fields instead of the options that they stand for."""
    what, next_step = error.what, error.next_step
    for name, label in labels.items():
        option = f"--{name.replace('_', '-')}"
        what, next_step = what.replace(option, label), next_step.replace(option, label)
    return type(error)(what, next_step)


def _check_gpu(typed: str, catalogue: Catalogue) -> None:
    from advisor.question.devices import find_known_gpu  # noqa: PLC0415 - speeds up the start

    if find_known_gpu(typed, catalogue) is None:
        raise UnknownGpuError(
            f"no figures of a GPU {typed!r} are stored or published",
            f"use one of {', '.join(catalogue.gpus)}",
        )


def _check_batch_sizes(typed: str) -> None:
    from advisor.question.resolve import parse_batch_sizes  # noqa: PLC0415 - as above

    parse_batch_sizes(typed)


def _check_tokens(option: str, typed: str) -> None:
    from advisor.question.sweep import parse_token_counts  # noqa: PLC0415 - as above

    parse_token_counts(option, typed)


def _check_duration(option: str, typed: str) -> None:
    from advisor.question.constraints import parse_duration  # noqa: PLC0415 - as above

    parse_duration(option, typed)


def _check_lengths(typed: str, catalogue: Catalogue) -> None:
    from advisor.question.load import parse_request_lengths  # noqa: PLC0415 - as above

    parse_request_lengths(typed, catalogue.serving)


def _check_number(option: str, typed: str, kind: type[int | float]) -> None:
    try:
        is_positive = 0 < kind(typed) < float("inf")
    except ValueError:
        is_positive = False
    if not is_positive:
        raise SizeError(f"{option} {typed!r} is not a positive number", "use a number, such as 2")


def _check_seconds(typed: str) -> None:
    try:
        is_positive = 0 < float(typed) < float("inf")
    except ValueError:
        is_positive = False
    if not is_positive:
        raise SizeError(f"{typed!r} is not a number of seconds", "use seconds, such as 120")


def _check_interpreter(typed: str) -> None:
    if shutil.which(pathlib.Path(typed).expanduser()) is None:
        raise InterpreterError(
            f"there is no Python interpreter {typed}", "name an executable file, or leave it empty"
        )
