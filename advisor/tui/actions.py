"""Act on answers, and start runs: of the chosen options, of failed arms, of what is undecided."""

from __future__ import annotations

import dataclasses
import functools
import math
import pathlib
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import msgspec

from advisor.ask.context import Context
from advisor.decide.answers import answer_from_state
from advisor.decide.recommend import further_budget, undecided_workflows
from advisor.decide.unmeasured import arms_to_retry, has_skipped_arms
from advisor.domain.answer import Answer, is_out_of_time
from advisor.domain.errors import UserError
from advisor.domain.question import Question
from advisor.domain.run_state import Header
from advisor.domain.text import write_count
from advisor.execute import drafts, quiet
from advisor.execute.drafts import DraftRun
from advisor.execute.repetitions import leaders_of
from advisor.report import answer_files
from advisor.report.answer_files import SUFFIXES
from advisor.report.formatting import describe_problem
from advisor.report.setup_facts import list_numbers
from advisor.store.runs import Run
from advisor.tui import panels
from advisor.tui.answer_panes import ShownAnswer
from advisor.tui.dialogs import LineDialog, start_dialog, with_warning

if TYPE_CHECKING:
    from advisor.tui.app import AdvisorApp


#: A draft with what keeps the machine from being quiet, or the answer for a GPU that is absent.
Submitted: TypeAlias = tuple[DraftRun | Answer, tuple[str, ...]]
Found = TypeVar("Found")


def draft_or_answer(app: AdvisorApp, **changes: str) -> DraftRun | Answer:
    """Return the plan of the current options with changes, or the answer for a GPU that is absent.

    The machine is inspected again if it is not known with the interpreter of the options.
    """
    is_known = app.run_options.python == app.launch_options.run_options.python
    run_options = msgspec.structs.replace(app.run_options, **changes)
    return drafts.draft_or_answer(run_options, app.context, app.machine if is_known else None)


def resume(app: AdvisorApp, run: Run) -> None:
    """Go on with a stopped run, or measure the leaders of a finished one again."""
    header, state = run.header(), run.state()
    question = "Measure the leaders of this run again?" if state.finished else "Resume this run?"

    def draft() -> DraftRun:
        plan = state.plan
        if state.finished:
            # A run without an answer has leaders once it is resumed.
            resumed = msgspec.structs.replace(state, times_remeasured=state.times_remeasured + 1)
            leaders = leaders_of(answer_from_state(header, resumed), plan)
            plan = msgspec.structs.replace(plan, arms=leaders)
        return DraftRun(header.catalogue, header.machine, header.question, plan)

    def describe(drafted: DraftRun) -> str:
        names = ", ".join(each.id for each in drafted.plan.distinct) if state.finished else ""
        return f"{panels.printable(names, 200)}\n{describe_work(drafted)}".lstrip()

    def begin(drafted: DraftRun) -> None:
        app.run_controller.run(run, drafted.question.wait_seconds)

    start(app, draft, f"{question}  What it has measured is kept.", begin, describe)


def start(
    app: AdvisorApp,
    make_draft: Callable[[], DraftRun | Answer],
    question: str,
    begin: Callable[[DraftRun], object] | None = None,
    describe: Callable[[DraftRun], str] | None = None,
) -> None:
    """Start a draft, by default as a new run; show the answer for a GPU that is absent.

    The user has to agree to a `question`, which is empty where the plan is shown already, and to
    times of a busy machine.
    """
    if app.run_controller.refuse_if_busy():
        return
    app.notify("preparing the run ...", timeout=2)

    def check() -> Submitted:
        drafted = make_draft()
        if isinstance(drafted, Answer):
            return drafted, ()
        return drafted, find_quiet_problems(drafted, app.context)

    def show(checked: Submitted) -> None:
        drafted, problems = checked
        if isinstance(drafted, Answer):
            app.run_controller.show_absent_gpu(drafted)
            return
        wait_seconds = drafted.question.wait_seconds
        if question or (problems and not wait_seconds):
            dialog = start_dialog(
                question, (describe or describe_work)(drafted), problems, wait_seconds
            )
            app.ask(dialog, functools.partial(start_waiting, drafted))
        else:
            (begin or create_and_start)(drafted)

    def start_waiting(drafted: DraftRun, wait_seconds: float | None) -> None:
        if wait_seconds is not None:
            question = msgspec.structs.replace(drafted.question, wait_seconds=wait_seconds)
            (begin or create_and_start)(dataclasses.replace(drafted, question=question))

    def create_and_start(drafted: DraftRun) -> None:
        app.background.start(
            "create", lambda: drafts.create(drafted, app.context), app.run_controller.run
        )

    app.background.start("start", check, _unless_left(app, show))


def _unless_left(app: AdvisorApp, show: Callable[[Found], object]) -> Callable[[Found], None]:
    """Return a function that shows a value only while the present screen is still shown.

    On another screen, the keys that are typed there would answer its question.
    """
    asked_on = app.screen

    def show_there(found: Found) -> None:
        if app.screen is asked_on:
            show(found)
        else:
            app.notify("not started: the screen was left meanwhile")

    return show_there


def describe_work(draft: DraftRun, left_out: Collection[str] = ()) -> str:
    question = draft.question
    measured = len(draft.plan.distinct) - len(left_out)
    sizes = ", ".join(map(str, question.batch_sizes))
    source = " of the examples" if draft.example_rows else ""
    batch = "" if question.serves else f", batch {sizes}{source}"
    required = f"  Required: {question.required}." if question.constraints else ""
    return (
        f"{write_count(measured, 'way')} to {_task(question)}{batch},"
        f" {question.precision}.  At most {_most_time(draft, left_out)}.{required}"
    )


def _most_time(draft: DraftRun, left_out: Collection[str]) -> str:
    """Return the limit of the run; of servers, the time of all blocks of the search and after."""
    question, rules = draft.question, draft.catalogue.serving
    if math.isfinite(question.seconds):
        return f"{question.seconds:g} s, builds included; what has begun by then ends first"
    if question.load is None or rules is None:
        return f"{question.budget.measuring_seconds:g} s of races, besides builds and repetitions"
    arms = len(draft.plan.distinct) - len(left_out)
    blocks = rules.most_blocks + len(rules.repeat_rates)
    of_block = rules.seconds_of_block(question.budget.name, question.load.ttft_seconds)
    return f"{arms * blocks * of_block:g} s + builds"


def _task(question: Question) -> str:
    name = panels.model_name(question.model.name, 30)
    inputs = list_numbers(each.input_tokens for each in question.lengths)
    outputs = list_numbers(each.output_tokens for each in question.lengths)
    if question.task == "forward":
        return f"run {name}" + (f" on {inputs} tokens" if len(question.lengths) > 1 else "")
    if question.load is not None:
        return f"serve {name}: {question.load.limits}"
    return f"generate {outputs} tokens from {inputs} with {name}"


def find_quiet_problems(run: DraftRun | Header, context: Context) -> tuple[str, ...]:
    """Observe the machine for about a second and return what keeps it from being quiet."""
    limits = run.catalogue.presets.quiet
    check = quiet.check_now(quiet.activity_reader(run.machine, run.question.gpus, context), limits)
    return tuple(describe_problem(problem, check.activity) for problem in check.problems)


def measure_missing(app: AdvisorApp, shown: ShownAnswer) -> None:
    """Measure them in a new run, because times of two runs must not be ranked together."""
    run, missing = shown.run, arms_to_retry(shown.answer)
    if run is None or not missing:
        return
    needs_all = has_skipped_arms(shown.answer)
    arms = "arm that has" if len(missing) == 1 else f"{len(missing)} arms that have"
    limit = " without a time limit" if needs_all else ""
    limit += ", which this one reached" if any(map(is_out_of_time, shown.answer.unmeasured)) else ""
    question = f"Measure the {arms} no result again, in a new run{limit}?"
    context, header = app.context, header_as_shown(run, shown)
    start(
        app,
        lambda: drafts.draft_again(header, missing, context, all_arms=needs_all),
        question,
        describe=lambda drafted: f"With the baseline: {describe_work(drafted)}",
    )


def header_as_shown(run: Run, shown: ShownAnswer) -> Header:
    """Return the header with the weights that are shown, which a new run is to answer for."""
    header = run.header()
    question = msgspec.structs.replace(header.question, priorities=shown.priorities)
    return msgspec.structs.replace(header, question=question)


def measure_again(app: AdvisorApp, shown: ShownAnswer) -> None:
    if shown.run is None:
        return
    header, context = header_as_shown(shown.run, shown), app.context
    advice = shown.answer.recommendation
    workflows = undecided_workflows(advice, header.question)
    budget = further_budget(shown.answer, shown.catalogue)
    names = panels.printable(", ".join(workflows) or "all workflows", 200)
    reason = "No single one is undecided. " if advice and advice.decision.word != "OPEN" else ""
    question = (
        f"{reason}Measure {names} again for longer, in a new run with the budget {budget.name}?"
    )
    start(app, lambda: drafts.draft_again(header, workflows, context, budget), question)


def verify(app: AdvisorApp, shown: ShownAnswer, arm: str) -> None:
    run = shown.run
    if run is None or app.run_controller.refuse_if_busy():
        return
    app.notify("observing the machine ...", timeout=2)

    def show(problems: tuple[str, ...]) -> None:
        asked = with_warning(
            f"Run the code of {panels.printable(arm, 60)} and check its outputs and its speed?",
            "It takes as long as the build, and a few seconds.",
            problems,
        )
        app.ask_to_run(*asked, ("verify", shown.answer.run_id, arm))

    observe = functools.partial(find_quiet_problems, run.header(), app.context)
    app.background.start("start", observe, _unless_left(app, show))


def export(app: AdvisorApp, shown: ShownAnswer, *, explored: bool = False) -> None:
    name = f"p3-advisor-{shown.answer.run_id}{'-explored' if explored else ''}.html"
    lead = f"Export this run.  The extension selects the format: {', '.join(SUFFIXES)}"

    def save(typed: str) -> str:
        file = pathlib.Path(typed).expanduser()
        try:
            content = answer_files.write(file.suffix[1:].lower(), shown.answer, shown.run)
            with file.open("xb") as new:
                new.write(content)
        except OSError as problem:
            return f"not written: {problem.strerror}; name another file"
        except UserError as error:
            return panels.printable(f"{error.what}; next: {error.next_step}", 600)
        app.notify(f"written: {file.absolute()}")
        return ""

    app.push_screen(LineDialog(lead, str(pathlib.Path.cwd() / name), save))
