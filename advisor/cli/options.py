"""Command-line options that several commands share; each field of `Answers` becomes one option."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable
from typing import Annotated, Any

import msgspec
import typer

from advisor.ask.answers import Answers
from advisor.cli.help_sections import VALUE_NAMES
from advisor.errors import SizeError

RunName = Annotated[
    str,
    typer.Argument(
        help="a run's id or its beginning, latest, the path of a run (with a /), or a file"
    ),
]
#: For commands that need more of a run than its document has.
StoredRunName = Annotated[
    str,
    typer.Argument(help="a run's id or its beginning, latest, or the path of a run (with a /)"),
]
WorkflowName = Annotated[
    str,
    typer.Option(
        "--workflow", metavar="NAME", help="a workflow or arm; default: the recommended one"
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="one JSON document on standard output")]

Output = Annotated[
    str,
    typer.Option("--output", "-o", metavar="FILE", help="where to write; - for standard output"),
]


def takes_answers(command: Callable[..., None]) -> Callable[..., None]:
    """Turn `command(answers, **own)` into a function with a keyword for each field of `Answers`.

    A parameter of the command that has the name of a field takes its place, and the field keeps its
    default.
    """
    own = {
        name: parameter
        for name, parameter in inspect.signature(command, eval_str=True).parameters.items()
        if name != "answers"
    }
    shared = [name for name in Answers.__struct_fields__ if name not in own]

    def wrapper(**values: Any) -> None:  # noqa: ANN401 - Typer checks the values
        fields = {name: values.pop(name) for name in shared}
        command(Answers(**fields), **values)

    wrapper.__name__, wrapper.__doc__ = command.__name__, command.__doc__
    given = {parameter.name: parameter for parameter in answer_parameters()}
    wrapper.__signature__ = inspect.Signature([*(given | own).values()])  # type: ignore[attr-defined]
    return wrapper


def answer_parameters() -> list[inspect.Parameter]:
    """Return one keyword parameter for each field of `Answers`."""
    hints = typing.get_type_hints(Answers, include_extras=True)
    parameters = []
    for field in msgspec.structs.fields(Answers):
        kind, meta = typing.get_args(hints[field.name])
        option = typer.Option(
            f"--{field.encode_name.replace('_', '-')}",
            help=meta.description,
            metavar=VALUE_NAMES.get(field.name),
        )
        parameters.append(
            inspect.Parameter(
                field.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=field.default,
                annotation=Annotated[kind, option],
            )
        )
    return parameters


def parse_share(text: str) -> float:
    """Parse a share such as `5%` or `0.05`; raise `SizeError`."""
    number = text.strip()
    try:
        share = float(number.removesuffix("%")) / (100 if number.endswith("%") else 1)
    except ValueError:
        share = -1.0
    if not 0 <= share < 1:
        raise SizeError(f"{text!r} is not a share between 0 and 100 %", "write it as 5% or 0.05")
    return share
