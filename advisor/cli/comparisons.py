"""The command that compares two runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from advisor.cli.options import AsJson, Output, RunName, parse_share
from advisor.cli.output import STANDARD_OUTPUT, open_store, write_output
from advisor.errors import FormatError, NotComparableError, UndecidedError

if TYPE_CHECKING:
    from advisor.report.comparisons.comparison import Comparison

app = typer.Typer(rich_markup_mode=None)


@app.command()
def compare(
    before: RunName,
    after: RunName,
    *,
    fail_on_regression: Annotated[
        str,
        typer.Option(
            metavar="SHARE",
            help="exit with code 1 when the speed-up of an arm fell by more than this, such as 5%",
        ),
    ] = "",
    fail_on_undecided: Annotated[
        bool,
        typer.Option(
            "--fail-on-undecided",
            help="exit with code 4 when the figures cannot exclude such a regression",
        ),
    ] = False,
    formats: Annotated[
        str,
        typer.Option("--format", "-f", metavar="FORMAT", help="text, md or json; default: text"),
    ] = "",
    json: AsJson = False,
    output: Output = STANDARD_OUTPUT,
) -> None:
    """Compare a run with an earlier one.

    With a --fail option the exit code is 0 without a regression, 1 with one, 2 for runs that are
    not comparable, 4 if undecided or if both are the same run.
    """
    from advisor.domain.answer import encode
    from advisor.report import opening
    from advisor.report.comparisons import comparison_text
    from advisor.report.comparisons.comparison import compare_answers

    renderers = {
        "text": comparison_text.render,
        "md": comparison_text.render_markdown,
        "json": encode,
    }
    chosen = _choose_format(formats, list(renderers), json=json)
    threshold = parse_share(fail_on_regression or "5%")
    first, second = (opening.open_answer(name, open_store()) for name in (before, after))
    comparison = compare_answers(first, second, threshold)
    write_output(output, renderers[chosen](comparison))
    if fail_on_regression or fail_on_undecided:
        _exit_with_outcome(comparison, comparison_text.conclusion(comparison)[0], fail_on_undecided)


def _choose_format(asked: str, known: Sequence[str], *, json: bool) -> str:
    """Return the format; raise `FormatError` for an unknown one and for another one with `json`."""
    chosen = asked or ("json" if json else "text")
    if chosen not in known:
        raise FormatError(f"unknown format {chosen!r}", f"use one of {', '.join(known)}")
    if json and chosen != "json":
        raise FormatError(
            f"--json and --format {chosen} ask for different formats", "leave out one of them"
        )
    return chosen


def _exit_with_outcome(comparison: Comparison, reason: str, fail_on_undecided: bool) -> None:  # noqa: FBT001
    """Exit with the code of the outcome; return for one that does not fail."""
    if comparison.outcome == "not-comparable":
        raise NotComparableError(reason, "compare runs of the same question on the same device")
    if comparison.outcome == "regression":
        raise typer.Exit(1)
    if comparison.outcome == "same-run" and fail_on_undecided:
        raise UndecidedError(reason, "name two runs: p3-advisor history lists them")
    if comparison.outcome == "undecided" and fail_on_undecided:
        raise UndecidedError(
            "the intervals are too wide to exclude a regression",
            "measure both runs with --budget gate, on a machine that does nothing else",
        )
