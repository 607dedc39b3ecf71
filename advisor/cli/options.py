"""Options that several commands share, one for each field of `RunOptions`, and sections of help."""

from __future__ import annotations

import inspect
import shlex
import typing
from collections.abc import Callable, Mapping
from typing import Annotated, Any, ClassVar, TypeAlias

import msgspec
import typer
from typer.core import TyperCommand, TyperGroup

from advisor.ask.run_options import DTYPE_SPELLINGS, FURTHER_NAMES, OWN_DTYPES, RunOptions
from advisor.cli.output import describe_latest, print_status
from advisor.domain.errors import CommandLineError, choose_among


def tell_latest(name: str) -> str:
    """Say on standard error if `latest` is not the newest run; return the name of the run."""
    if notice := describe_latest(name):
        print_status(notice)
    return name


RunName = Annotated[
    str,
    typer.Argument(
        help="a run's id or its beginning, latest, the path of a run (with a /), or a file",
        callback=tell_latest,
    ),
]
#: Argument of commands that need more of a run than its document has.
StoredRunName = Annotated[
    str,
    typer.Argument(
        help="a run's id or its beginning, latest, or the path of a run (with a /)",
        callback=tell_latest,
    ),
]
BatchSize = Annotated[
    int | None, typer.Option(metavar="ROWS", help="a measured one; default: that which gains most")
]
ArmName = Annotated[
    str, typer.Argument(metavar="[ARM]", help="a workflow or arm; default: the recommended one")
]
InFull = Annotated[bool, typer.Option("--full", help="all figures, and why arms have none")]
AsJson = Annotated[bool, typer.Option("--json", help="one JSON document on standard output")]

Output = Annotated[
    str,
    typer.Option("--output", "-o", metavar="FILE", help="where to write; - for standard output"),
]

#: The model without `--model`.
POSITIONAL = inspect.Parameter(
    "name",
    inspect.Parameter.POSITIONAL_OR_KEYWORD,
    default=None,
    annotation=Annotated[
        str | None,
        typer.Argument(metavar="[MODEL]", help="the same as --model", rich_help_panel="Model"),
    ],
)


def takes_run_options(command: Callable[..., None]) -> Callable[..., None]:
    """Turn `command(run_options, **own)` into a function with a keyword for each of its fields.

    The model may also stand without `--model`. A parameter of the command that has the name of a
    field takes its place, and the field keeps its default.
    """
    own = {
        name: parameter
        for name, parameter in inspect.signature(command, eval_str=True).parameters.items()
        if name != "run_options"
    }
    shared = [name for name in RunOptions.__struct_fields__ if name not in own]

    def wrapper(**values: Any) -> None:  # noqa: ANN401 - Typer checks the values
        named = values.pop(POSITIONAL.name)
        fields = {name: values.pop(name) for name in shared}
        if named is not None and fields["model"] not in {named, RunOptions().model}:
            message = f"{named} and --model {fields['model']} are two models"
            raise CommandLineError(message, "name one model")
        fields["model"] = fields["model"] if named is None else named
        command(RunOptions(**fields), **values)

    wrapper.__name__, wrapper.__doc__ = command.__name__, command.__doc__
    given = {parameter.name: parameter for parameter in option_parameters()}
    parameters = [POSITIONAL, *(given | own).values()]
    wrapper.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return wrapper


def _choice(choices: tuple[str, ...]) -> dict[str, Any]:
    """Return how Typer takes one of the choices, in the spellings of other programs, too."""

    def parse(text: str) -> str:
        name = DTYPE_SPELLINGS.get(text.lower(), text.lower())
        if name not in choices:
            meant = {text: "auto"} if text.lower() in OWN_DTYPES else {}
            raise typer.BadParameter(f"{text!r}: {choose_among(text, choices, meant)}")
        return name

    return {
        "parser": parse,
        "metavar": f"[{'|'.join(choices)}]",
        "autocompletion": lambda: list(choices),
    }


def option_parameters() -> list[inspect.Parameter]:
    """Return a keyword for each field of `RunOptions`; the question checks their bounds."""
    hints = typing.get_type_hints(RunOptions, include_extras=True)
    parameters = []
    for field in msgspec.structs.fields(RunOptions):
        kind, meta = typing.get_args(hints[field.name])
        choices = typing.get_args(kind)
        option = typer.Option(
            f"--{field.encode_name.replace('_', '-')}",
            *(f"--{other}" for other, name in FURTHER_NAMES.items() if name == field.name),
            help=meta.description,
            rich_help_panel=meta.extra["section"],
            **(_choice(choices) if choices else {"metavar": meta.extra["value"]}),
        )
        parameters.append(
            inspect.Parameter(
                field.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=field.default,
                annotation=Annotated[str if choices else kind, option],
            )
        )
    return parameters


#: Some versions of Typer have a copy of Click, so the types of these arguments differ by version.
FromClick: TypeAlias = Any

#: Titles of the sections of commands in order; each command names its own as `rich_help_panel`.
COMMAND_GROUPS = ("Measure", "Results", "Code", "This machine", "Coding agents", "Stored runs")
#: Title of the section of the help with the options that name none.
OTHER_OPTIONS = "Output and other options"


class GroupedCommand(TyperCommand):
    """A command whose help has a section for each group of options."""

    def format_options(self, ctx: FromClick, formatter: FromClick) -> None:
        sections: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            if record := parameter.get_help_record(ctx):
                title = getattr(parameter, "rich_help_panel", None) or OTHER_OPTIONS
                sections.setdefault(title, []).append(record)
        others = sections.pop(OTHER_OPTIONS)
        for title, rows in [*sections.items(), (OTHER_OPTIONS, others)]:
            with formatter.section(title):
                formatter.write_dl(rows)


#: What users of other programs call commands and options of this one.
COMMANDS_ELSEWHERE = {
    **dict.fromkeys(("list", "ls", "runs", "results", "status"), "history"),
    **dict.fromkeys(("run", "measure", "benchmark", "compile", "start"), "recommend"),
    **dict.fromkeys(("install", "add"), "env create"),
    **{option: f"--{option}" for option in ("help", "version")},
}


class SuggestingGroup(TyperGroup):
    """Commands; for an unknown one, the closest command is suggested."""

    spellings: ClassVar[Mapping[str, str]] = {}

    def resolve_command(self, ctx: FromClick, args: list[str]) -> tuple[str | None, Any, list[str]]:
        name = args[0]
        if name in self.commands or ctx.resilient_parsing:
            return super().resolve_command(ctx, args)
        shown = [each for each, command in self.commands.items() if not command.hidden]
        close = choose_among(name, shown, self.spellings)
        is_model = not {*name}.isdisjoint(":/.")
        raise CommandLineError(
            f"there is no command {name!r}",
            f"measure a model with p3-advisor recommend {shlex.quote(name)}" if is_model else close,
        )


class GroupedProgram(SuggestingGroup):
    """The program, whose help has a section for each group of commands."""

    spellings = COMMANDS_ELSEWHERE

    def format_commands(self, ctx: FromClick, formatter: FromClick) -> None:  # noqa: ARG002
        shown = {name: each for name, each in self.commands.items() if not each.hidden}
        limit = formatter.width - max(map(len, shown), default=0) - 6
        rows: dict[str, list[tuple[str, str]]] = {title: [] for title in COMMAND_GROUPS}
        for name, command in shown.items():
            title = getattr(command, "rich_help_panel", "")
            rows.setdefault(title, []).append((name, command.get_short_help_str(limit)))
        for title, found in rows.items():
            if found:
                with formatter.section(title):
                    formatter.write_dl(found)
