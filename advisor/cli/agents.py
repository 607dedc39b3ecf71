"""Commands for coding agents: `mcp` serves the tools, `skill` prints how to use them."""

from __future__ import annotations

import importlib.resources

import typer

from advisor.cli.output import print_text
from advisor.errors import MissingExtraError
from advisor.version import how_to_install

app = typer.Typer(rich_markup_mode=None)


@app.command(rich_help_panel="Coding agents")
def mcp() -> None:
    """Serve the commands to a coding agent on standard input and output (MCP)."""
    try:
        from advisor.mcp_server import serve
    except ModuleNotFoundError as problem:
        raise MissingExtraError(
            f"the package {problem.name} is not installed", how_to_install("mcp")
        ) from problem
    serve()


@app.command(rich_help_panel="Coding agents")
def skill() -> None:
    """Print a SKILL.md that tells a coding agent how to speed up a model."""
    print_text(importlib.resources.files("advisor").joinpath("SKILL.md").read_text("utf-8"))
