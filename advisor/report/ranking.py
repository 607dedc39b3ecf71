"""The ranking: its arms by name, and its columns for text, Markdown, page, notebook and screens.

A column that is added here is in all of them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from advisor.ask.resolve import spell_out, titles_by_spelling
from advisor.domain import text
from advisor.domain.answer import Answer, RankedArm, UnmeasuredArm
from advisor.domain.arm_figures import ARM_FIGURES, ArmFigure
from advisor.domain.constraints import CRITERION_HEADS, FURTHER_CRITERIA, LETTERS
from advisor.domain.errors import UnknownWorkflowError, choose_among
from advisor.domain.plan import ArmName
from advisor.domain.results import Rating
from advisor.domain.workflow import Workflow
from advisor.report.figures import checks_of
from advisor.report.formatting import accuracy_cell, table_rows
from probes.shape import Shape


def find_arms(
    answer: Answer, name: str, workflows: Mapping[str, Workflow]
) -> list[RankedArm | UnmeasuredArm]:
    """Return one arm, or all arms of a workflow; an empty name means the recommended arm.

    Raise `UnknownWorkflowError` if there is none.
    """
    wanted = name or (answer.recommendation.arm if answer.recommendation else "")
    arms: list[RankedArm | UnmeasuredArm] = [*answer.ranking, *answer.unmeasured]
    called = spell_out(ArmName.parse(wanted), workflows)
    for names in ([wanted], map(str, called)):
        if found := [ranked for name in names for ranked in _named(arms, name)]:
            return found
    problem = "the run has no recommendation, so name a workflow: explain RUN WORKFLOW"
    if wanted:
        problem = f"the run has no workflow {wanted!r}"
    known = [each.arm for each in answer.ranking or arms]
    named = {arm: f"{arm} ({title})" for arm, title in answer.titles.items()}
    shown = {**titles_by_spelling(workflows.values()), **named}
    raise UnknownWorkflowError(problem, choose_among(wanted, known, shown))


def _named(
    arms: Sequence[RankedArm | UnmeasuredArm], wanted: str
) -> list[RankedArm | UnmeasuredArm]:
    of_workflow = [each for each in arms if each.workflow == wanted]
    return [each for each in arms if each.arm == wanted] or of_workflow


class RankingColumn(NamedTuple):
    """A column of the ranking."""

    name: str
    #: With the unit, since cells have no spaces.
    head: str
    write: Callable[[RankedArm], str]
    #: Width of the terminal from which screens show it.
    shown_from: int = 0


#: Widths of the terminal from which there is room for more columns.
NORMAL_WIDTH, MAIN_WIDTH, WIDE_WIDTH, VERY_WIDE_WIDTH = 72, 90, 110, 140
#: Number of shapes with a column in wide terminals.
WIDE_SHAPES = 2
#: More of several lengths have no columns of their own.
MOST_SHAPES = 4


def ranking_columns(
    answer: Answer, *, has_intervals: bool = False, has_latency: bool = False
) -> list[RankingColumn]:
    """Return the columns of the ranking; `has_latency` adds those that other tables have, too.

    Times of a machine that was not fit to measure on have no columns.
    """
    is_text, unfit = speed_unit(answer) == "tok/s", answer.results.is_unfit
    return [
        RankingColumn("rank", "#", lambda each: _rank(answer, each)),
        RankingColumn("arm", "arm", lambda each: each.arm),
        RankingColumn(
            "speedup",
            "speed-up (95 %)" if has_intervals else "speed-up",
            lambda each: text.write_speedup(each.speedup, unfit=unfit, interval=has_intervals),
        ),
        *([] if unfit else _call_columns(answer)),
        *(_latency_columns() if has_latency and is_text and not unfit else ()),
        *(
            RankingColumn(
                name,
                figure.head,
                functools.partial(_write_figure, figure),
                MAIN_WIDTH if figure.is_main else VERY_WIDE_WIDTH,
            )
            for name, figure in ARM_FIGURES.items()
            if figure.head
        ),
        RankingColumn(
            "accuracy", "error", lambda each: accuracy_cell(checks_of(each)), VERY_WIDE_WIDTH
        ),
        RankingColumn(
            "score",
            "score",
            lambda one: (
                text.MISSING
                if _says_nothing(answer, one)
                else text.format_number(one.scored.score, decimals=2)
            ),
            NORMAL_WIDTH,
        ),
        *(
            RankingColumn(
                name,
                head,
                functools.partial(_letter, answer, name),
                WIDE_WIDTH if name in FURTHER_CRITERIA else 0,
            )
            for name, head in CRITERION_HEADS.items()
        ),
    ]


def _call_columns(answer: Answer) -> list[RankingColumn]:
    unit = speed_unit(answer)
    shapes = [cell.shape for cell in answer.ranking[0].cells] if answer.ranking else []
    if len(shapes) > MOST_SHAPES and shapes[0].tokens:
        return []
    return [
        RankingColumn(
            f"call-{shape}",
            f"{unit} @{shape}",
            functools.partial(_call, answer, shape),
            WIDE_WIDTH if number < WIDE_SHAPES else VERY_WIDE_WIDTH,
        )
        for number, shape in enumerate(shapes)
    ]


def _latency_columns() -> list[RankingColumn]:
    return [
        RankingColumn(
            name,
            f"{name.upper()} ms",
            functools.partial(_write_latency, f"{name}_seconds"),
            VERY_WIDE_WIDTH,
        )
        for name in ("ttft", "itl")
    ]


def _write_latency(figure: str, ranked: RankedArm) -> str:
    generated = ranked.cells[0].generation if ranked.cells else None
    return text.format_milliseconds(getattr(generated, figure, None), digits=3)


def _write_figure(figure: ArmFigure, ranked: RankedArm) -> str:
    value = figure.get(ranked.measured)
    if figure.dimension == "bytes":
        return text.format_mebibytes(value)
    return (
        text.format_seconds(value) if figure.dimension == "seconds" else text.format_number(value)
    )


def _letter(answer: Answer, criterion: str, ranked: RankedArm) -> str:
    rating = ranked.scored.ratings[criterion]
    # The speed-up of the baseline is 1 on any machine.
    is_uncertain = is_range(answer, ranked, rating) and ranked.arm != answer.results.baseline
    return text.MISSING if is_uncertain and _says_nothing(answer, ranked) else LETTERS[rating.tier]


def _says_nothing(answer: Answer, ranked: RankedArm) -> bool:
    """Return whether the machine was too busy for an answer, or for the speed of this arm."""
    is_lost = answer.results.is_unfit and text.is_unknown(ranked.speedup)
    return answer.has_unfit_problem or is_lost


def speed_unit(answer: Answer) -> str:
    ranking = answer.ranking
    return "tok/s" if ranking and any(cell.generation for cell in ranking[0].cells) else "ms"


def ranking_rows(answer: Answer, *, has_intervals: bool) -> list[list[str]]:
    """Return the head and a row for each arm with a score, best first; nothing without one."""
    columns = ranking_columns(answer, has_intervals=has_intervals)
    return table_rows([(column.head, column.write) for column in columns], answer.ranking)


def _rank(answer: Answer, ranked: RankedArm) -> str:
    """Mark the advised arm by `*`, and one that a constraint excludes by `!`.

    Figures of an unfit machine give no rank.
    """
    if answer.has_unfit_problem:
        return text.MISSING
    is_advised = answer.recommendation is not None and answer.recommendation.arm == ranked.arm
    return f"{ranked.scored.rank}{'*' if is_advised else '!' if ranked.scored.failures else ''}"


def _call(answer: Answer, shape: Shape, ranked: RankedArm) -> str:
    """Return the tokens per second of generated text, or the milliseconds of a call.

    Both follow from the baseline's and the speed-up. Documents of runs have times, too; those of
    early runs come from other rounds than the speed-up.
    """
    cells = {each.shape: each for each in (answer.baseline.cells if answer.baseline else ())}
    cell = next((each for each in ranked.cells if each.shape == shape), None)
    if cell is None or shape not in cells:
        return text.MISSING
    baseline, speedup = cells[shape], cell.speedup.value
    if cell.generation:
        return text.format_number(baseline.throughput.value * speedup, 0)
    return text.format_milliseconds(baseline.seconds.median / speedup)


def is_range(answer: Answer, ranked: RankedArm, rating: Rating) -> bool:
    """Return whether a grade comes from a speed-up that is known only as a range."""
    return rating.fact == "speedup" and (ranked.speedup.is_range() or answer.results.is_unfit)


def write_fact(answer: Answer, ranked: RankedArm, rating: Rating) -> str:
    if is_range(answer, ranked, rating):
        return text.write_speedup(ranked.speedup, unfit=True, in_words=True)
    return text.format_fact(rating.value)
