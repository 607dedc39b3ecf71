"""The sections of `--help`: of the program, and of commands with the options of a question."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from typer.core import TyperCommand, TyperGroup

#: Some versions of Typer have a copy of Click, so the types of these arguments differ by version.
ClickContext: TypeAlias = Any
ClickFormatter: TypeAlias = Any

#: Commands in order, by the title of their section. Those without a section come last.
COMMAND_GROUPS: Mapping[str, tuple[str, ...]] = {
    "Measure": ("ask", "recommend", "resume"),
    "Results": ("show", "decide", "explain", "report", "compare", "fleet"),
    "Code": ("recipe", "verify", "build"),
    "This machine": ("workflows", "doctor", "env"),
    "Stored runs": ("history", "note", "delete", "export-run", "import-run"),
}

#: Parameters in order, by the title of their section. Those without a section come last.
OPTION_GROUPS: Mapping[str, tuple[str, ...]] = {
    "Model": (
        "model",
        "inputs",
        "weights_from",
        "offline",
        "trust_remote_code",
        "allow_pickle",
        "sandbox",
        "max_load_seconds",
    ),
    "What is measured": (
        "task",
        "dtype",
        "batch_sizes",
        "input_tokens",
        "output_tokens",
        "length_mix",
        "workflows",
        "python",
        "seed",
    ),
    "Devices": ("gpu", "price_per_hour", "fleet", "models", "on"),
    "Priorities and constraints": ("priority", "preset", "require", "requests", "rubric"),
    "Accuracy and quantised weights": ("accuracy", "quantised", "data", "metric"),
    "Servers under load": ("ttft", "itl", "percentile", "lengths", "rate", "gpus_per_model"),
    "Time": (
        "budget",
        "all_arms",
        "wait_for_quiet",
        "max_build_seconds",
        "max_build_times",
        "build_minutes",
    ),
}

#: Names of the values of text options, by field of `Answers`.
VALUE_NAMES: Mapping[str, str] = {
    "model": "MODEL",
    "inputs": "FILE",
    "weights_from": "SOURCE",
    "batch_sizes": "SIZES",
    "workflows": "NAMES",
    "python": "PATH",
    "gpu": "DEVICE",
    "priority": "WEIGHTS",
    "preset": "NAME",
    "require": "CONSTRAINTS",
    "rubric": "FILE",
    "accuracy": "ERROR",
    "quantised": "FORMATS",
    "data": "FILE",
    "metric": "FILE:FUNCTION",
    "ttft": "DURATION",
    "itl": "DURATION",
    "lengths": "MIX",
    "budget": "BUDGET",
    "wait_for_quiet": "DURATION",
    "max_build_times": "LIMITS",
}


class GroupedCommand(TyperCommand):
    """A command whose help has a section for each group of options."""

    def format_options(self, ctx: ClickContext, formatter: ClickFormatter) -> None:
        """Write a section for each group, and one for the options without a group."""
        records = {
            parameter.name: record
            for parameter in self.get_params(ctx)
            if (record := parameter.get_help_record(ctx))
        }
        for title, names in OPTION_GROUPS.items():
            rows = [records.pop(name) for name in names if name in records]
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)
        with formatter.section("Output and other options"):
            formatter.write_dl(list(records.values()))


class GroupedProgram(TyperGroup):
    """The program, whose help has a section for each group of commands."""

    def format_commands(self, ctx: ClickContext, formatter: ClickFormatter) -> None:  # noqa: ARG002
        """Write a section for each group, with the first sentence of each command's help."""
        commands = {name: each for name, each in self.commands.items() if not each.hidden}
        longest = max(map(len, commands), default=0)
        limit = formatter.width - longest - 6
        for title, names in (*COMMAND_GROUPS.items(), ("Other commands", tuple(commands))):
            found = [(name, commands.pop(name)) for name in names if name in commands]
            rows = [(name, command.get_short_help_str(limit)) for name, command in found]
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)
