"""`ask --plain`: ask and answer with plain text lines, without colours or cursor control."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, get_args

import msgspec

from advisor.ask.answers import Answers
from advisor.cli.execution import resumable_with
from advisor.cli.output import print_text
from advisor.cli.run_host import execute_controlled
from advisor.context import Context
from advisor.decide.decision import decide
from advisor.domain.question import Task
from advisor.errors import NoTerminalError, UserError, choose_among
from advisor.execute.drafts import DraftRun, create, propose
from advisor.execute.execution import drop_refused
from advisor.report import progress_lines, text_report

if TYPE_CHECKING:
    from advisor.domain.catalogue import Catalogue

#: The default answer to the question for the device.
ATTACHED = "what is attached"


def ask(answers: Answers, context: Context) -> int:
    """Ask for the options, execute the run, print the result; return the exit code."""
    draft = _ask_until_valid(answers, context)
    run = create(draft, context)
    print_text(f"Run {run.directory.name}. Control+C stops it; measurements are kept.")
    try:
        with resumable_with(f"p3-advisor resume {run.directory.name}"):
            for event in execute_controlled(run, context):
                line = progress_lines.render_event(event)
                if line is not None:
                    print_text(line)
    except UserError:
        drop_refused(run, context)
        raise
    answer = decide(run)
    print_text(text_report.summarise(answer, text_report.WIDEST), nl=False)
    return answer.problem.exit_code if answer.problem is not None else 0


def _ask_until_valid(answers: Answers, context: Context) -> DraftRun:
    print_text("p3-advisor asks five questions. An empty line selects the value in brackets.")
    while True:
        answers = _ask_all(answers, context)
        try:
            draft = propose(answers, context)
        except UserError as problem:
            print_text(f"Error: {problem.what}. Next: {problem.next_step}.")
            continue
        _print_plan(draft)
        if _read("Start the measurement? yes or no", "yes").lower() in {"y", "yes"}:
            return draft


def _ask_all(answers: Answers, context: Context) -> Answers:
    from advisor.ask.rubric_files import load
    from advisor.ask.task import SERVE, choose_task

    catalogue = load(context.rubric, probes=context.probes)
    model = _read_model(answers, catalogue)
    suggested = choose_task(msgspec.structs.replace(answers, model=model), catalogue.models)
    task = _choose(
        "2 of 5. Task: forward is one pass, generate produces text token by token, serve puts "
        "servers under load",
        get_args(Task),
        suggested,
    )
    limits = _read_limits(answers) if task == SERVE else {}
    gpu = _read("3 of 5. Device: the index or name of a GPU, or cpu", answers.gpu or ATTACHED)
    preset = _choose(
        "4 of 5. Priorities",
        list(catalogue.presets.priorities),
        answers.preset or catalogue.presets.default_preset,
    )
    budget = _choose(
        "5 of 5. Budget",
        list(catalogue.presets.budgets),
        answers.budget or catalogue.presets.default_budget,
    )
    changes = {
        "model": model,
        "task": task,
        "gpu": "" if gpu == ATTACHED else gpu,
        "budget": budget,
        **limits,
    }
    if not answers.priority:
        changes["preset"] = preset
    return msgspec.structs.replace(answers, **changes)


def _read_limits(answers: Answers) -> dict[str, str]:
    from advisor.ask.task import FIRST_ITL, FIRST_TTFT

    return {
        "ttft": _read("Limit of the time to the first token", answers.ttft or FIRST_TTFT),
        "itl": _read("Limit of the time between later tokens", answers.itl or FIRST_ITL),
    }


def _read_model(answers: Answers, catalogue: Catalogue) -> str:
    """Ask for the model until it is one that can be named."""
    from advisor.ask.model import parse_model
    from advisor.ask.resolve import select_demo_model

    question = "1 of 5. Model: demo, a file, a directory, a hub name or file.py:factory"
    while True:
        model = _read(question, answers.model)
        changed = msgspec.structs.replace(answers, model=model)
        try:
            parse_model(select_demo_model(changed, catalogue.models), catalogue.models)
        except UserError as problem:
            print_text(f"Error: {problem.what}. Next: {problem.next_step}.")
        else:
            return model


def _print_plan(draft: DraftRun) -> None:
    arms = [arm.id for arm in draft.plan.arms if arm.duplicate_of is None]
    seconds = draft.question.seconds
    print_text(f"Arms to measure: {len(arms)} ({', '.join(arms)}).")
    if math.isfinite(seconds):
        print_text(f"The run takes at most {seconds:g} seconds, builds included.")
    question = draft.question
    if question.task == "generate":
        print_text(
            f"{question.model.name} generates {question.output_tokens} tokens from "
            f"{question.input_tokens} input tokens."
        )
    for entry in draft.plan.excluded:
        if entry.status != "not-covered":
            print_text(f"Excluded: {entry.workflow}, {entry.reason}.")


def _choose(question: str, names: Sequence[str], default: str) -> str:
    numbered = ", ".join(f"{number} {name}" for number, name in enumerate(names, start=1))
    while True:
        typed = _read(f"{question}: {numbered}", default)
        # An empty line selects the default, which may look like the number of a choice.
        if typed == default:
            return typed
        if typed.isdigit() and 1 <= int(typed) <= len(names):
            return names[int(typed) - 1]
        if typed in names:
            return typed
        print_text(f"{typed} is not one of the choices: {choose_among(typed, names)}")


def _read(question: str, default: str) -> str:
    print_text(f"{question} [{default}]")
    line = sys.stdin.readline()
    if not line:
        raise NoTerminalError(
            "standard input ended before the last question", "answer all questions, or use --json"
        )
    return line.strip() or default
