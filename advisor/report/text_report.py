"""Render a run as plain text for a terminal: the instruction, how far to trust it, the figures."""

from __future__ import annotations

from collections.abc import Sequence

from advisor.domain.accuracy import AccuracyClass, worst_check
from advisor.domain.decision import Flip, Recommendation
from advisor.domain.measurement import ApplicationPortability, Platform, Survey
from advisor.domain.question import has_random_weights, short_name
from advisor.domain.rubric import LETTERS
from advisor.domain.run import resume_command
from advisor.domain.worker_events import Checked
from advisor.report.documents.document import PUBLISHED, RunDocument, WorkflowEntry
from advisor.report.documents.trade_off import trade_off
from advisor.report.formatting.accuracy_text import LEGEND, MARKS, accuracy_cell
from advisor.report.formatting.tabular import plain_table
from advisor.report.sections import new_shapes, serving_tables
from advisor.report.sections.cost import cost_line
from advisor.report.sections.sensitivity import sensitivity, titled
from advisor.report.sections.text_generation import generation_lines
from advisor.report.sections.unranked import unranked
from advisor.system.number_format import (
    MISSING,
    format_bound,
    format_mebibytes,
    format_milliseconds,
    format_number,
    format_seconds,
    format_share,
    format_speedup,
)

#: What the columns of the ranking mean, by the unit of the speed.
COLUMNS = {
    unit: (
        "speed-up: compared round by round, geometric mean over the batch sizes; "
        f"{speed}; build s: first build; MiB: peak memory; letters: A best, C lowest"
    )
    for unit, speed in (
        ("ms", "ms: median call"),
        ("tok/s", "tok/s: generated tokens of a batch"),
    )
}
#: How an error begins that says that the machine was not fit to measure on.
NO_ANSWER = "No answer: "
#: Column heads of the criteria, in the order of every table.
CRITERION_HEADS = {
    "performance": "Perf",
    "productivity": "Prod",
    "portability": "Port",
    "input_flexibility": "Flex",
    "architecture_support": "Arch",
}


def render(document: RunDocument) -> str:
    """Return the whole report as plain characters without markup."""
    blocks = [
        [
            headline(document),
            *stop_notice(document),
            *confidence(document),
            *measured_line(document),
        ],
        ranking(document),
        trade_off(document),
        generation_lines(document),
        *serving_tables_of(document),
        new_shapes.summary(document),
        unranked(document),
        portability(document),
        survey_lines(document),
        closing(document),
    ]
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def headline(document: RunDocument) -> str:
    """Return the instruction, or why there is none."""
    advice = document.recommendation
    if advice is None:
        problem = document.problem.what if document.problem else "nothing was decided"
        return problem if problem.startswith(NO_ANSWER) else f"No recommendation: {problem}"
    if advice.headline:
        return advice.headline[0]
    model, device = short_name(document.question.model), document.device_name
    if advice.ties:
        others = ", ".join(advice.ties)
        return f"Tie for {model} on {device}: use {advice.arm}, or as well {others}"
    return f"Use {advice.arm} for {model} on {device}"


def stop_notice(document: RunDocument) -> list[str]:
    """Return a line for a run that did not finish, with the command that resumes it here."""
    if document.finished:
        return []
    is_local = not (document.imported or document.provenance)
    return [
        "The run did not finish"
        + (f"; {resume_command(document.run_id)} resumes it." if is_local else ".")
    ]


def confidence(document: RunDocument) -> list[str]:
    """Return the rest of the headline, and the trust with the noise floor and the lead."""
    advice, race = document.recommendation, document.race
    origin = [f"Imported: {document.provenance.words}"] if document.provenance else []
    if advice is None:
        return [*origin, *([f"Next: {document.problem.next_step}"] if document.problem else [])]
    lead = (
        f"lead {advice.margin:+.2f} over {advice.runner_up}"
        if advice.runner_up and advice.margin is not None
        else "no runner-up"
    )
    floor = race.noise_floor if race else None
    noise = "not known" if floor is None else format_share(floor, decimals=1)
    evidence = f"Trust: {_describe_trust(advice)} Noise floor: {noise}. Score: {lead}."
    if advice.headline:
        return [*advice.headline[1:], *_cost(document, advice), *origin, evidence]
    return [*origin, f"Speeds: {advice.verdict}. {evidence}", *flip_lines(document)]


def _describe_trust(advice: Recommendation) -> str:
    """Return the grade of the evidence with the first reason why it is not higher."""
    reason = f": {advice.trust_reasons[0]}" if advice.trust_reasons else ""
    return f"{advice.trust} (A best, D lowest){reason}."


def _cost(document: RunDocument, advice: Recommendation) -> list[str]:
    return [
        f"Cost: {cost_line(document, entry)}."
        for entry in document.workflows
        if entry.arm == advice.arm
    ]


def measured_line(document: RunDocument) -> list[str]:
    """Return the question in one line: task, precision, shapes, weights and budget."""
    question = document.question
    if document.run_id == PUBLISHED or question.load is not None:
        return []
    sizes = ", ".join(map(str, question.batch_sizes))
    plural = "s" if len(question.batch_sizes) > 1 else ""
    lengths = f"{question.input_tokens} input tokens"
    if question.task == "generate":
        lengths += f", {question.output_tokens} generated tokens"
    weights = ", random weights" if has_random_weights(question.model) else ""
    line = f"{question.task}, {question.dtype}, batch size{plural} {sizes}, {lengths}{weights}"
    return [f"Measured: {line}; budget {question.budget.name}, {document.created[:10]}."]


def flip_lines(document: RunDocument) -> list[str]:
    """Return a sentence for each weight at which the recommendation changes."""
    advice, priorities = document.recommendation, document.question.priorities
    if advice is None:
        return []
    return [_flip_line(flip, getattr(priorities, flip.criterion)) for flip in advice.flips]


def _flip_line(flip: Flip, present: float) -> str:
    return (
        f"The answer changes to {flip.to} if {flip.criterion} weighs "
        f"{format_bound(flip.weight, present, flip.when)} (now {present:g} %)."
    )


def ranking(document: RunDocument) -> list[str]:
    """Return the table of the arms with a score, best first."""
    ranked = [entry for entry in document.workflows if entry.rank is not None]
    if not ranked:
        return []
    sizes = [cell.batch_size for cell in ranked[0].cells]
    unit = "tok/s" if any(cell.generation for cell in ranked[0].cells) else "ms"
    head = [
        "#",
        "arm",
        "speed-up",
        *(f"{unit} @{size}" for size in sizes),
        "build s",
        "MiB",
        "error",
        *CRITERION_HEADS.values(),
        "score",
    ]
    table = plain_table([head, *(_ranking_row(entry, sizes) for entry in ranked)], text_columns={1})
    marked = any(MARKS[checks_class(entry)] for entry in ranked)
    return [*table, COLUMNS[unit], *([LEGEND] if marked else [])]


def serving_tables_of(document: RunDocument) -> list[list[str]]:
    """Return the tables of servers under load; nothing for other tasks."""
    return [
        [f"{title}:", *(f"  {line}" for line in plain_table(rows, text_columns={0}))]
        for title, rows in serving_tables.titled_tables(document)
    ]


def checks_of(entry: WorkflowEntry) -> tuple[Checked, ...]:
    """Return the comparisons of an arm's outputs, by batch size."""
    return entry.correctness.by_batch_size if entry.correctness else ()


def checks_class(entry: WorkflowEntry) -> AccuracyClass:
    """Return the class of an arm's outputs; exact where nothing is known."""
    worst = worst_check(checks_of(entry))
    return worst.accuracy_class if worst else "exact"


def _ranking_row(entry: WorkflowEntry, sizes: Sequence[int]) -> list[str]:
    speeds = {
        cell.batch_size: format_number(cell.throughput.value, 0)
        if cell.generation
        else format_milliseconds(cell.seconds.median)
        for cell in entry.cells
    }
    scores = entry.scores or {}
    return [
        f"{entry.rank}{'!' if entry.fails else ''}",
        entry.arm,
        format_speedup(entry.speedup),
        *(speeds.get(size, MISSING) for size in sizes),
        format_seconds(entry.build_seconds.cold if entry.build_seconds else None),
        format_mebibytes(entry.memory_bytes.peak if entry.memory_bytes else None),
        accuracy_cell(checks_of(entry)),
        *(LETTERS[scores[name].tier] if name in scores else MISSING for name in CRITERION_HEADS),
        format_number(entry.score, decimals=2),
    ]


def portability(document: RunDocument) -> list[str]:
    """Return the table of the performance portability over the platforms."""
    found = document.portability
    if found is None:
        return []
    names = [
        f"{platform.name} (run {platform.run}, {platform.created[:10]})"
        for platform in found.platforms
    ]
    numbers = [f"[{number}]" for number in range(1, len(names) + 1)]
    head = ["application", *numbers, "portability", "of peak", "same code"]
    rows = [_portability_row(entry, found.platforms) for entry in found.applications]
    legend = ", ".join(f"{number} {name}" for number, name in zip(numbers, names, strict=True))
    title = (
        "Performance portability: the harmonic mean over the platforms of each speed divided by "
        "the fastest workflow's there; 0 if a platform cannot run it:"
    )
    return [
        title,
        *(f"  {line}" for line in plain_table([head, *rows], text_columns={0})),
        f"  {legend}",
    ]


def _portability_row(entry: ApplicationPortability, platforms: Sequence[Platform]) -> list[str]:
    values = [
        *(entry.efficiencies[platform.name] for platform in platforms),
        entry.performance_portability,
        entry.architectural_portability,
        entry.code_convergence,
    ]
    return [entry.application, *(format_number(value, decimals=2) for value in values)]


def survey_lines(document: RunDocument) -> list[str]:
    """Return how many models of the survey each workflow passes, and why others do not pass."""
    lines = [line for survey in document.surveys for line in _survey(survey)]
    return ["Survey of small models:", *lines] if lines else []


def _survey(survey: Survey) -> list[str]:
    origin = f" (run {survey.run})" if survey.run else ""
    return [
        f"  {survey.workflow}: {survey.passed} of {survey.tried} pass{origin}",
        *(
            f"    {found.model}: {found.verdict}, {found.reason}"
            for found in survey.models
            if found.verdict != "pass"
        ),
    ]


def closing(document: RunDocument) -> list[str]:
    """Return the reasons, the sensitivity, and the command that prints every figure."""
    advice = document.recommendation
    lines = []
    if advice is not None:
        lines += titled("Why:", advice.reasons)
        lines += titled("What would change the answer:", flip_lines(document))
        lines += sensitivity(advice)
        lines += titled("Why trust is not higher:", advice.trust_reasons)
    return [*lines, _footer(document)]


def _footer(document: RunDocument) -> str:
    source = "Published figures" if document.run_id == PUBLISHED else f"Run {document.run_id}"
    command = document.rerun_command or f"p3-advisor show {document.run_id} --json"
    return f"{source}; letters: A best, C lowest; {command} prints every figure with its source."
