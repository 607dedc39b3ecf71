"""`ask --plain`: the questions and the answer line by line, without colour or cursor, for screen readers and simple terminals."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import get_args

import msgspec

from advisor.cli.interruption import goes_on_with
from advisor.cli.output import put
from advisor.context import Context
from advisor.domain.question import Task
from advisor.errors import NoTerminalError, UserError
from advisor.pipeline.decision import decide
from advisor.pipeline.draft import DraftRun, create, propose
from advisor.pipeline.execution import execute
from advisor.question.answers import Answers
from advisor.report import document, narration, table


def ask(answers: Answers, world: Context) -> int:
    """Ask, probe and tell; return the exit code."""
    proposal = _ask_until_it_fits(answers, world)
    run = create(proposal, world)
    put(f"Run {run.directory.name}. Control and c ends it; what was measured is kept.")
    with goes_on_with(f"p3-advisor resume {run.directory.name}"):
        for event in execute(run, world):
            line = narration.tell(event)
            if line is not None:
                put(line)
    decision = decide(run)
    put(table.render(document.compose(decision)), nl=False)
    return decision.problem.exit_code if decision.problem is not None else 0


def _ask_until_it_fits(answers: Answers, world: Context) -> DraftRun:
    put("p3-advisor asks five questions. An empty line takes what stands in brackets.")
    while True:
        answers = _ask_all(answers, world)
        try:
            proposal = propose(answers, world)
        except UserError as problem:
            put(f"That does not fit: {problem.what}. Next: {problem.next_step}.")
            continue
        _tell_plan(proposal)
        if _read("Start? yes or no", "yes").lower() in {"y", "yes"}:
            return proposal


def _ask_all(answers: Answers, world: Context) -> Answers:
    from advisor import catalogue
    from advisor.question.task import suggest_task

    known = catalogue.load(world.rubric, probes=world.probes)
    model = _read(
        "1 of 5. Model: demo, a file, a directory, a hub name or file.py:factory", answers.model
    )
    proposed = answers.task if model == answers.model else suggest_task(model, known.models)
    task = _choose(
        "2 of 5. What it does: forward is one pass, generate is text, token by token",
        get_args(Task),
        proposed,
    )
    gpu = _read(
        "3 of 5. Device: the index or name of a GPU, or cpu", answers.gpu or "what is attached"
    )
    preset = _choose(
        "4 of 5. What matters",
        list(known.presets.priorities),
        answers.preset or known.presets.default_preset,
    )
    budget = _choose(
        "5 of 5. Time for measuring",
        list(known.presets.budgets),
        answers.budget or known.presets.default_budget,
    )
    changes = {
        "model": model,
        "task": task,
        "gpu": "" if gpu == "what is attached" else gpu,
        "budget": budget,
    }
    if not answers.priority:
        changes["preset"] = preset
    return msgspec.structs.replace(answers, **changes)


def _tell_plan(proposal: DraftRun) -> None:
    arms = [arm.id for arm in proposal.plan.arms if arm.duplicate_of is None]
    seconds = proposal.question.budget.measuring_seconds
    put(
        f"To be measured, {len(arms)}: {', '.join(arms)}. Measuring takes {seconds:g} seconds at most, builds come on top."
    )
    asked = proposal.question
    if asked.task == "generate":
        put(f"{asked.model.name} generates {asked.output_tokens} tokens from {asked.input_tokens}.")
    for entry in proposal.plan.excluded:
        put(f"Left out: {entry.workflow}, {entry.reason}.")


def _choose(question: str, names: Sequence[str], default: str) -> str:
    numbered = ", ".join(f"{number} {name}" for number, name in enumerate(names, start=1))
    while True:
        typed = _read(f"{question}: {numbered}", default)
        if typed.isdigit() and 1 <= int(typed) <= len(names):
            return names[int(typed) - 1]
        if typed in names or typed == default:
            return typed
        put(f"{typed} is none of them.")


def _read(question: str, default: str) -> str:
    put(f"{question} [{default}]")
    line = sys.stdin.readline()
    if not line:
        raise NoTerminalError(
            "the answers ended before the questions", "answer them all, or use --json"
        )
    return line.strip() or default
