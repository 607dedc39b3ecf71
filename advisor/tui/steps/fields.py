"""The fields for the target that are typed: their labels, and the checks of their texts."""

from __future__ import annotations

import dataclasses
import pathlib
import shutil
from collections.abc import Callable, Mapping

from advisor.domain.catalogue import Catalogue
from advisor.domain.question import Task
from advisor.errors import InterpreterError, SizeError, UnknownGpuError, UserError
from advisor.question.answers import Answers
from advisor.question.constraints import parse_duration
from advisor.question.devices import find_known_gpu
from advisor.question.lengths import parse_token_counts
from advisor.question.load import FIRST_ITL, FIRST_TTFT, parse_request_lengths
from advisor.question.resolve import parse_batch_sizes

CALLS: tuple[Task, ...] = ("forward", "generate")
SERVES: tuple[Task, ...] = ("serve",)
TASKS = (*CALLS, *SERVES)
#: Default of an empty input, the same as on the command line.
DEFAULT_MAX_BUILD_SECONDS = "600"


@dataclasses.dataclass(frozen=True)
class TextField:
    """A text that answers an option, in questions about some tasks."""

    label: str
    #: Shown in an empty input; what an empty input stands for.
    placeholder: str
    tasks: tuple[Task, ...] = TASKS


FIELDS = {
    "absent_gpu": TextField(
        "Or another GPU", "such as H100: answered from stored or published figures"
    ),
    "batch_sizes": TextField("Batch sizes", "default of the model", CALLS),
    "input_tokens": TextField("Input tokens", Answers().input_tokens, CALLS),
    "output_tokens": TextField("Output tokens", Answers().output_tokens, ("generate",)),
    "length_mix": TextField("Length mix", "equal shares, or such as 32:70,512:30", CALLS),
    "ttft": TextField("First token within", FIRST_TTFT, SERVES),
    "itl": TextField("Between tokens", FIRST_ITL, SERVES),
    "lengths": TextField("Request lengths", "a mix, or a file", SERVES),
    "rate": TextField("Requests/s needed", "not known", SERVES),
    "gpus_per_model": TextField("GPUs per model", "1", SERVES),
    "max_build_seconds": TextField("Build limit, s", DEFAULT_MAX_BUILD_SECONDS),
    "python": TextField("Python with torch", "the interpreter of p3-advisor"),
}


def first_texts(answers: Answers) -> dict[str, str]:
    return {
        "absent_gpu": "",
        "batch_sizes": answers.batch_sizes,
        "input_tokens": answers.input_tokens,
        "output_tokens": answers.output_tokens,
        "length_mix": answers.length_mix,
        "ttft": answers.ttft or FIRST_TTFT,
        "itl": answers.itl or FIRST_ITL,
        "lengths": answers.lengths,
        "rate": f"{answers.rate:g}" if answers.rate else "",
        "gpus_per_model": str(answers.gpus_per_model) if answers.gpus_per_model > 1 else "",
        "max_build_seconds": f"{answers.max_build_seconds:g}",
        "python": answers.python,
    }


def find_error(texts: Mapping[str, str], catalogue: Catalogue) -> UserError | None:
    """Return what is wrong with the first wrong text; empty texts stand for the defaults.

    The error names fields by their labels instead of the options of the command line.
    """
    checks: dict[str, Callable[[str], object]] = {
        "absent_gpu": lambda typed: _check_gpu(typed, catalogue),
        "batch_sizes": parse_batch_sizes,
        "input_tokens": lambda typed: parse_token_counts("--input-tokens", typed),
        "output_tokens": lambda typed: parse_token_counts("--output-tokens", typed),
        "ttft": lambda typed: parse_duration("--ttft", typed),
        "itl": lambda typed: parse_duration("--itl", typed),
        "lengths": lambda typed: parse_request_lengths(typed, catalogue.serving),
        "rate": lambda typed: _check_number("--rate", typed, float),
        "gpus_per_model": lambda typed: _check_number("--gpus-per-model", typed, int),
        "max_build_seconds": lambda typed: _check_number("--max-build-seconds", typed, float),
        "python": _check_interpreter,
    }
    try:
        for name, typed in texts.items():
            if typed and name in checks:
                checks[name](typed)
    except UserError as error:
        what, next_step = error.what, error.next_step
        for name in texts:
            option, label = f"--{name.replace('_', '-')}", FIELDS[name].label
            what, next_step = what.replace(option, label), next_step.replace(option, label)
        return type(error)(what, next_step)
    return None


def _check_gpu(typed: str, catalogue: Catalogue) -> None:
    if find_known_gpu(typed, catalogue) is None:
        raise UnknownGpuError(
            f"no figures of a GPU {typed!r} are stored or published",
            f"use one of {', '.join(catalogue.gpus)}",
        )


def _check_number(option: str, typed: str, kind: type[int | float]) -> None:
    try:
        is_positive = 0 < kind(typed) < float("inf")
    except ValueError:
        is_positive = False
    if not is_positive:
        raise SizeError(f"{option} {typed!r} is not a positive number", "use a number, such as 2")


def _check_interpreter(typed: str) -> None:
    if shutil.which(pathlib.Path(typed).expanduser()) is None:
        raise InterpreterError(
            f"there is no Python interpreter {typed}", "name an executable file, or leave it empty"
        )
