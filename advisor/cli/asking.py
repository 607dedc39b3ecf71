"""`ask --plain`: the questions and the answer line by line, without colour or cursor, for screen readers and simple terminals."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import msgspec
import typer

from advisor import pipeline
from advisor.errors import NoTerminalError, UserError
from advisor.question.answers import Answers
from advisor.report import document, narration, table


def ask(answers: Answers, world: pipeline.World) -> int:
    """Ask, probe and tell; return the exit code."""
    proposal = _ask_until_it_fits(answers, world)
    run = pipeline.create(proposal, world)
    typer.echo(f"Run {run.directory.name}. Control and c ends it; what was measured is kept.")
    for event in pipeline.execute(run, world):
        line = narration.tell(event)
        if line is not None:
            typer.echo(line)
    decision = pipeline.decide(run)
    typer.echo(table.render(document.compose(decision)), nl=False)
    return decision.problem.exit_code if decision.problem is not None else 0


def _ask_until_it_fits(answers: Answers, world: pipeline.World) -> pipeline.Proposal:
    typer.echo("p3-advisor asks four questions. An empty line takes what stands in brackets.")
    while True:
        answers = _ask_all(answers, world)
        try:
            proposal = pipeline.propose(answers, world)
        except UserError as problem:
            typer.echo(f"That does not fit: {problem.what}. Next: {problem.next_step}.")
            continue
        _tell_plan(proposal)
        if _read("Start? yes or no", "yes").lower() in {"y", "yes"}:
            return proposal


def _ask_all(answers: Answers, world: pipeline.World) -> Answers:
    from advisor import catalogue

    known = catalogue.load(world.rubric, probes=world.probes)
    model = _read("1 of 4. Model: demo, a file, a directory, a hub name or file.py:factory", answers.model)
    gpu = _read("2 of 4. Device: the index or name of a GPU, or cpu", answers.gpu or "what is attached")
    preset = _choose("3 of 4. What matters", list(known.presets.priorities), answers.preset or known.presets.default_preset)
    budget = _choose("4 of 4. Time for measuring", list(known.presets.budgets), answers.budget or known.presets.default_budget)
    changes = {"model": model, "gpu": "" if gpu == "what is attached" else gpu, "budget": budget}
    if not answers.priority:
        changes["preset"] = preset
    return msgspec.structs.replace(answers, **changes)


def _tell_plan(proposal: pipeline.Proposal) -> None:
    arms = [arm.id for arm in proposal.plan.arms if arm.duplicate_of is None]
    seconds = proposal.question.budget.measuring_seconds
    typer.echo(f"To be measured, {len(arms)}: {', '.join(arms)}. Measuring takes {seconds:g} seconds at most, builds come on top.")
    for entry in proposal.plan.excluded:
        typer.echo(f"Left out: {entry.workflow}, {entry.reason}.")


def _choose(question: str, names: Sequence[str], default: str) -> str:
    numbered = ", ".join(f"{number} {name}" for number, name in enumerate(names, start=1))
    while True:
        typed = _read(f"{question}: {numbered}", default)
        if typed.isdigit() and 1 <= int(typed) <= len(names):
            return names[int(typed) - 1]
        if typed in names or typed == default:
            return typed
        typer.echo(f"{typed} is none of them.")


def _read(question: str, default: str) -> str:
    typer.echo(f"{question} [{default}]")
    line = sys.stdin.readline()
    if not line:
        raise NoTerminalError("the answers ended before the questions", "answer them all, or use --json")
    return line.strip() or default
