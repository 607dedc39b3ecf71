"""Render a run as plain text for a terminal: its answer in a few lines, or the whole report."""

from __future__ import annotations

import math
import shlex
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from advisor.domain.answer import Answer, RankedArm, UnmeasuredArm
from advisor.domain.arm_figures import ARM_FIGURES
from advisor.domain.model import has_random_weights
from advisor.domain.plan import EAGER, PLAIN_COMPILE, ArmName
from advisor.domain.text import NO_BREAK_SPACE, keep_units, shorten_text
from advisor.recipes.snippet import CHECKPOINT
from advisor.report.advice_lines import describe_bottlenecks
from advisor.report.answer_lines import answer_lines, code_lines, next_steps, short_answer_lines
from advisor.report.formatting import ERROR_LEGEND, plain_table, table_rows
from advisor.report.headline import find_mendable_arm, write_headline
from advisor.report.other_arms import describe_flips, flip_lines
from advisor.report.ranking import ranking_columns, ranking_rows, speed_unit
from advisor.report.setup_facts import describe_inputs, describe_mix, describe_shapes, input_facts
from advisor.report.tables import list_sections, list_tables

HEADS = "; ".join(f"{each.head}: {each.legend}" for each in ARM_FIGURES.values() if each.legend)
COST_LEGEND = f"*: advised; {HEADS}; letters: A best, C lowest"
#: What the speed-up means, and the columns of the unit of the speed.
SPEED_LEGEND = "speed-up: compared round by round, geometric mean over the shapes"
UNIT_LEGENDS = {
    "ms": "ms: typical call, that of the baseline over the speed-up",
    "tok/s": "tok/s: tokens generated per second, all texts of a batch",
}
#: The legend of the speed-up of servers, which have no batch sizes.
SERVED_LEGEND = "speed-up: ratio of the sustained request rates"
#: Limits of the answer in a few lines: number of lines from 60 columns on, and columns of a line.
#: What is copied, which is code, commands and ids of arms in the table, is not wrapped.
MOST_LINES, WIDEST = 25, 100
#: Code of nine lines, and the comment above its calls.
MOST_CODE_LINES = 10
#: End of the command that prints a document.
AS_DOCUMENT = " --json"
#: Number of the best arms that every table has.
FIRST_ARMS = 2
#: Speed over the advised arm from which another arm has a row in a longer table.
ALWAYS_SHOWN_FROM = 1.2
#: Rank, arm and speed-up are always shown.
FEWEST_COLUMNS = 2


class Extent(NamedTuple):
    """What of an answer is shown beside what to use, how sure that is, its code and its cost."""

    arms: int = 5
    reasons: int = 3
    #: Whether the cost names each shape, and whether the certainty has all of its reasons.
    has_details: bool = True
    has_reasons: bool = True
    has_next_step: bool = True
    #: Whether a failure and the trust have their reasons.
    has_cause: bool = True
    #: Lines of code that is shown whole, and of a part of longer code.
    code_lines: int = MOST_CODE_LINES
    part_lines: int = 5


#: What makes an answer shorter, each in addition to those before it: what a reader misses least is
#: left out first. Without room for the whole code, the table returns.
CUTS: tuple[Mapping[str, int], ...] = (
    *({"arms": 4}, {"arms": 3}, {"reasons": 2}, {"reasons": 1}, {"reasons": 0}),
    *({"has_details": False}, {"has_reasons": False}, {"has_next_step": False}),
    *({"has_cause": False}, {"arms": 2}, {"part_lines": 4}, {"part_lines": 3}),
    *({"arms": 0, "has_reasons": True}, {"has_reasons": False}),
    *({"arms": 3, "code_lines": 0, "part_lines": 4}, {"arms": 2}, {"part_lines": 3}),
    *({"part_lines": 2}, {"arms": 0}),
)


def render_summary(answer: Answer, width: int) -> str:
    """Wrap sentences at `width` columns, and leave out columns of the table that do not fit."""
    width, extent = min(width, WIDEST), Extent()
    text = _write_short(answer, width, extent)
    for cut in CUTS:
        if text.count("\n") <= MOST_LINES:
            break
        extent = Extent(**{**extent._asdict(), **cut})
        text = _write_short(answer, width, extent)
    return text


def _write_short(answer: Answer, width: int, extent: Extent) -> str:
    first, *others = short_answer_lines(
        answer,
        has_details=extent.has_details,
        has_reasons=extent.has_reasons,
        has_cause=extent.has_cause,
    )
    lines = _failed_arms(answer, has_cause=extent.has_cause)[:1]
    lines += [*_missing_workflows(answer), *short_reasons(answer)][: extent.reasons]
    advice = answer.recommendation
    if extent.has_next_step and advice is not None and len(answer.scores) > 1:
        lines += [f"Next: {step.rstrip('.')}." for step in next_steps(answer)[:1]]
    blocks = [
        _wrapped([f"{first.rstrip('.')}. {measured_at(answer)}", *others], width),
        [f"    {line}" for line in code_lines(answer, extent.code_lines, extent.part_lines)],
        _ranking_within(answer, width, extent.arms),
        [*_wrapped(lines, width), *where_more_is(answer)],
    ]
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def _wrapped(lines: Iterable[str], width: int) -> list[str]:
    wrapper = textwrap.TextWrapper(
        width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )
    return [
        part.replace(NO_BREAK_SPACE, " ")
        for line in lines
        for part in wrapper.wrap(keep_units(line))
    ]


def _ranking_within(answer: Answer, width: int, most: int) -> list[str]:
    """Return the best arms with the columns that fit, those that narrow screens show first."""
    columns, arms = ranking_columns(answer), _choose_arms(answer, most)
    if not arms:
        return []
    levels = sorted({column.shown_from for column in columns}, reverse=True)
    choices = [[column for column in columns if column.shown_from <= each] for each in levels]
    choices += [choices[-1][:count] for count in range(len(choices[-1]) - 1, FEWEST_COLUMNS, -1)]
    table = list[str]()
    for shown in choices:
        cells = table_rows([(column.head, column.write) for column in shown], arms)
        table = plain_table(cells, {0, 1})
        if max(map(len, table)) <= width:
            break
    return table


def short_reasons(answer: Answer) -> list[str]:
    """Return what limits eager PyTorch, and the nearest change of the weights.

    What the answer or its table says already is left out.
    """
    if answer.advised is None:
        return []
    certainty = "".join(line.text for line in write_headline(answer) if line.part == "certainty")
    is_told = any(weights in certainty for _, weights in describe_flips(answer))
    return [*describe_bottlenecks(answer)[:1], *([] if is_told else flip_lines(answer)[:1])]


def _failed_arms(answer: Answer, *, has_cause: bool) -> list[str]:
    """Return why workflows have no result that the user asked for, or plain `torch.compile`.

    Where eager PyTorch is advised, why any has none.
    """
    named = {ArmName.parse(name).workflow for name in answer.question.workflows} or {PLAIN_COMPILE}
    if answer.advised is not None and answer.advised.arm == EAGER:
        named |= {each.workflow for each in answer.unmeasured}
    told = {each.workflow for each in answer.ranking}
    if answer.recommendation is not None:
        outstanding = answer.recommendation.decision.outstanding
        told |= {ArmName.parse(name).workflow for name in outstanding}
    above = find_mendable_arm(answer) if has_cause else None
    return [
        f"{each.title}: {each.status}, {_cause(each) if has_cause else 'show --full says why'}."
        for each in answer.unmeasured
        if each.workflow in named - told and each != above
        # One with an option was planned, and a skipped one is named beside the certainty.
        if each.was_planned and each.status not in {"skipped", "not-reached", "excluded"}
    ]


def _missing_workflows(answer: Answer) -> list[str]:
    """Return why the first workflow that the user named and nobody could plan has no result."""
    asked = {ArmName.parse(name).workflow for name in answer.question.workflows}
    asked -= {each.workflow for each in answer.ranking}
    missing = [one for one in answer.unmeasured if one.workflow in asked and not one.was_planned]
    return [f"{each.title}: {each.status}, {_cause(each)}." for each in missing[:1]]


def _cause(failed: UnmeasuredArm) -> str:
    reason = shorten_text(failed.reason)
    return f"{reason}; next: {failed.fix}" if failed.fix else reason


def _choose_arms(answer: Answer, most: int) -> list[RankedArm]:
    """Return the first two arms and the advised one, then those as good, and `torch.compile`.

    A table of more than two has the baseline, and the fastest arm if it is much faster; a sentence
    names both, too. These are there even if they are more than `most`, unless it is 0.
    """
    ranked, advised = answer.ranking, answer.advised
    if not most:
        return []
    kept = {*(each.arm for each in ranked[:FIRST_ARMS]), advised.arm if advised else ""}
    if most > FIRST_ARMS:
        least = ALWAYS_SHOWN_FROM * advised.speedup.value if advised else math.inf
        fastest = max(ranked, key=lambda each: each.speedup.value, default=None)
        kept.add(answer.results.baseline)
        if fastest is not None and fastest.speedup.value >= least:
            kept.add(fastest.arm)
    compiled = next((each.arm for each in ranked if each.workflow == PLAIN_COMPILE), "")
    decision = answer.recommendation.decision if answer.recommendation else None
    named = (*decision.as_good, *decision.options_as_good) if decision else ()
    wanted = (*named, compiled)
    order = sorted(
        ranked, key=lambda one: (one.arm not in kept, *(one.arm != each for each in wanted))
    )
    chosen = order[: max(most, sum(each.arm in kept for each in ranked))]
    return [each for each in ranked if each in chosen]


def where_more_is(answer: Answer) -> list[str]:
    """Return the commands that show more, each in a line that can be copied."""
    shown = _document_command(answer)
    if not shown.endswith(AS_DOCUMENT):
        return [_footer(answer)]
    command, count = shown.removesuffix(AS_DOCUMENT), len(answer.ranking)
    _, verb, name, *_ = shlex.split(command)
    # Without other weights, the recipe of a run is that of the arm that it advised.
    named = [answer.advised.arm] if answer.advised and verb == "decide" else []
    recipe = shlex.join(["p3-advisor", "recipe", name, *named])
    # What the lines of code above it need.
    code = answer.advised.measured.integration if answer.advised else ""
    model = CHECKPOINT if CHECKPOINT in code else "model"
    inputs = "inputs" if answer.question.task == "forward" else "prompts"
    # A file has no run from which the model and the inputs could be opened.
    whole = "Whole code, with" if name == answer.run_id else "Code for your"
    whole = "As a script" if answer.question.serves else f"{whole} {model} and {inputs}"
    code_is = [f"{whole}: {recipe}"] if code_lines(answer) else []
    if answer.advised is None and any(each.measured.integration for each in answer.ranking):
        code_is = [f"Code of an arm: {recipe} ARM"]
    return [*code_is, f"All figures{f' of {count} arms' if count > 1 else ''}: {command} --full"]


def render(answer: Answer) -> str:
    blocks = [
        [*answer_lines(answer), *measured_line(answer)],
        [f"    {line}" for line in code_lines(answer)],
        ranking(answer),
        *(
            _indented(each.title, [*plain_table(each.rows, each.text_columns), *each.notes])
            for each in list_tables(answer)
        ),
        [
            *(
                line
                for section in list_sections(answer)
                for line in _indented(section.title, section.lines)
            ),
            _footer(answer),
        ],
    ]
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def measured_at(answer: Answer) -> str:
    """Return precision, shapes and date in a sentence, and whether the examples have this batch."""
    question, missing = answer.question, answer.unmeasured_shapes
    rows = answer.results.inputs.example_rows if answer.results.inputs else None
    is_own = question.batch_sizes == (rows,) != (1,)
    shapes = [shape for shape in question.shapes if shape not in missing] or question.shapes
    timed = f"{describe_shapes(answer, shapes)}{describe_inputs(answer)}"
    if question.load:
        timed = describe_mix(question.load)
    examples = " (the batch size of the examples)" if is_own else ""
    return f"Measured in {question.precision} with {timed}{examples}, {answer.created:%Y-%m-%d}."


def measured_line(answer: Answer) -> list[str]:
    """Return what was asked and measured, in full."""
    question, missing = answer.question, answer.unmeasured_shapes
    weights = ", random weights" if has_random_weights(question.model) else ""
    absent = f" Not measured: {describe_shapes(answer, missing)}." if missing else ""
    asked = f"Task {question.task}, budget {question.budget.name}{weights}."
    return [
        f"{measured_at(answer)} {asked}{absent}",
        *(f"Inputs: {text}." for _, text in input_facts(answer)),
    ]


def ranking(answer: Answer) -> list[str]:
    rows = ranking_rows(answer, has_intervals=False)
    if not rows:
        return []
    table = plain_table(rows, text_columns={0, 1})
    if answer.results.serving is not None:
        return [*table, f"{SERVED_LEGEND}; {COST_LEGEND}"]
    legend = "; ".join([SPEED_LEGEND, UNIT_LEGENDS[speed_unit(answer)], COST_LEGEND])
    return [*table, legend, ERROR_LEGEND]


def _indented(title: str, lines: Sequence[str]) -> list[str]:
    return [f"{title}:", *(f"  {line}" for line in lines)]


def _footer(answer: Answer) -> str:
    return f"Run {answer.run_id}; {_document_command(answer)} prints every figure with its source."


def _document_command(answer: Answer) -> str:
    return answer.rerun_command or f"p3-advisor show {answer.run_id}{AS_DOCUMENT}"
