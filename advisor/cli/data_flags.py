"""`--json` and `--jsonl` before the name of a command."""

from __future__ import annotations

from collections.abc import Sequence

from typer.core import TyperGroup

#: Flags that ask for data on standard output.
DATA_FLAGS = ("--json", "--jsonl")


def move_behind_command(args: Sequence[str], command: object) -> list[str]:
    """Return the arguments with the data flags behind the name of the command that they precede.

    Arguments that name no command are returned as they are.
    """
    flags: list[str] = []
    names: list[str] = []
    rest = list(args)
    while isinstance(command, TyperGroup):
        while rest and rest[0] in DATA_FLAGS:
            flags.append(rest.pop(0))
        if not rest or rest[0] not in command.commands:
            break
        names.append(rest.pop(0))
        command = command.commands[names[-1]]
    return [*names, *flags, *rest] if names else list(args)
