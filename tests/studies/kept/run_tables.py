"""Render kept runs as Markdown: introductions, tables and failures."""

from __future__ import annotations

from kept.runs import device_of, read_run, timed_arms, versions_of

from advisor.domain.answer import Answer, RankedArm
from advisor.domain.measurement import Cell
from advisor.measure.generation import explain_mismatch
from advisor.report.formatting import accuracy_cell, markdown_table
from advisor.report.sections import trade_off
from advisor.report.sections.setup_facts import describe_lengths
from advisor.system.number_format import (
    format_interval,
    format_mebibytes,
    format_number,
    format_seconds,
    format_share,
)

#: Place of the kept runs in links from the root of the repository.
EVIDENCE_LINK = "tests/stacks/evidence"
FAILED = {
    "incorrect",
    "nondeterministic",
    "not-engaged",
    "build-failed",
    "crashed",
    "timed-out",
}
#: Below a table with marked latencies.
MISMATCH = (
    "`*` TTFT and ITL were timed in calls apart from the race, which took over 10 % more or less "
    "time than those of the race."
)


def introduction(document: Answer, file: str) -> str:
    """Return the question, the device, the versions and the verdicts of a run."""
    question = document.question
    lengths = f", {question.input_tokens} tokens" if describe_lengths(document) else ""
    if question.task == "generate":
        lengths += f" in and {question.output_tokens} out"
    verdicts = ", ".join(
        f"@{race.shape} {race.verdict} (noise {format_share(race.noise_floor or 0)})"
        for race in document.results.races
    )
    count, model, date = len(timed_arms(document)), question.model.name, document.created[:10]
    return f"""\
One command, {count} arms: `{model}` in {question.dtype}{lengths}, on {device_of(document)},
{date} ([kept run]({EVIDENCE_LINK}/{file})).
Versions: {versions_of(document)}.
Verdicts: {verdicts}.
"""


def race_table(file: str) -> list[str]:
    """Return the introduction and the table of a run of forward calls, fastest arm first."""
    document = read_run(file)
    assert document.recommendation
    sizes = document.question.batch_sizes
    head = [
        "arm",
        "speed-up (95 %)",
        *(f"@{size}" for size in sizes),
        f"TFLOPS @{sizes[-1]} (of the peak)",
        "build s",
        "MiB",
        "error",
        "engaged",
    ]
    arm, trust = document.recommendation.arm, document.recommendation.trust
    rows = [_race_row(entry, document) for entry in timed_arms(document)]
    advice = f"Recommendation with the default priorities: {arm}, trust {trust}.\n"
    return [
        introduction(document, file) + advice,
        *markdown_table(head, rows, text_columns={0}),
    ]


def forward_section(file: str) -> list[str]:
    """Return the table of a run of forward calls and its failures."""
    failed = failures(read_run(file)) or ["Every requested arm has a time."]
    return [*race_table(file), "", *failed, ""]


def portability_section(file: str) -> list[str]:
    """Return the speeds of the workflows relative to the fastest one on each platform."""
    found = read_run(file).results.portability
    assert found is not None, file
    names = [platform.name for platform in found.platforms]
    rows = [
        [
            entry.application,
            *(format_number(entry.efficiencies[name], decimals=2) for name in names),
            format_number(entry.performance_portability, decimals=2),
        ]
        for entry in found.applications
    ]
    return [*markdown_table(["application", *names, "portability"], rows, text_columns={0}), ""]


def _race_row(entry: RankedArm, document: Answer) -> list[str]:
    peaks = document.results.peaks
    assert peaks
    assert entry.measured
    tflops = entry.cells[-1].tflops or 0.0
    peak = peaks.operations_per_second.get(document.question.dtype)
    share = f" ({format_share(tflops * 1e12 / peak)})" if peak else ""
    return [
        entry.arm,
        format_interval(entry.speedup),
        *(format_number(cell.speedup.value, decimals=2) for cell in entry.cells),
        f"{format_number(tflops, digits=3)}{share}",
        *_build_and_memory(entry),
        accuracy_cell(entry.measured.correctness),
        format_share(entry.measured.engaged_share),
    ]


def _build_and_memory(entry: RankedArm) -> tuple[str, str]:
    measured = entry.measured
    assert measured
    peak = format_mebibytes(measured.memory_bytes.peak)
    return format_seconds(measured.build_seconds.cold), peak


def text_table(file: str) -> list[str]:
    """Return the introduction and the table of a run of generated text, fastest arm first."""
    document = read_run(file)
    entries = timed_arms(document)
    sizes = [cell.shape for cell in entries[0].cells]
    assert all([cell.shape for cell in entry.cells] == sizes for entry in entries), file
    first, last = sizes[0], sizes[-1]
    head = [
        "arm",
        "speed-up (95 %)",
        *(f"tokens/s @{size} (speed-up)" for size in sizes),
        *(f"TTFT / ITL ms @{size}" for size in (first, last)),
        f"bandwidth used @{first} / @{last}",
        "build s",
        "MiB",
    ]
    rows = [_text_row(entry, document.question.output_tokens) for entry in entries]
    table = markdown_table(head, rows, text_columns={0})
    is_marked = any("*" in cell for row in rows for cell in row)
    return [introduction(document, file), *table, *(["", MISMATCH] if is_marked else [])]


def _text_row(entry: RankedArm, output_tokens: int) -> list[str]:
    first, last = entry.cells[0], entry.cells[-1]
    return [
        entry.arm,
        format_interval(entry.speedup),
        *(
            f"{format_number(cell.throughput.value, decimals=0)} ({cell.speedup.value:.2f})"
            for cell in entry.cells
        ),
        *(_latencies(cell, output_tokens) for cell in (first, last)),
        " / ".join(_bandwidth(cell) for cell in (first, last)),
        *_build_and_memory(entry),
    ]


def _latencies(cell: Cell, output_tokens: int) -> str:
    """Return TTFT and ITL, marked where they do not add up to the time of a call."""
    assert cell.generation
    ttft, itl = cell.generation.ttft_seconds, cell.generation.itl_seconds
    mismatch = explain_mismatch(cell.generation, cell.seconds.median, output_tokens)
    return (
        f"{format_number(None if ttft is None else ttft * 1e3, decimals=1)} / "
        f"{format_number(None if itl is None else itl * 1e3, decimals=2)}"
        f"{'*' if mismatch else ''}"
    )


def _bandwidth(cell: Cell) -> str:
    assert cell.generation
    metrics = cell.generation
    is_cached = metrics.mbu is not None and metrics.mbu > 1
    return "caches" if is_cached else format_share(metrics.mbu)


def text_section(file: str) -> list[str]:
    """Return the table of a run of generated text and its failures."""
    failed = failures(read_run(file)) or ["Every other requested arm has a time."]
    return [*text_table(file), "", *failed, ""]


def quantised_section(file: str) -> list[str]:
    """Return the table of a run with quantised arms, best first, and its failures."""
    document = read_run(file)
    sizes = document.question.batch_sizes
    entries = {entry.arm: entry for entry in document.ranked}
    rows = []
    for arm, *figures in trade_off.table_rows(document):
        cells = (format_number(cell.speedup.value, decimals=2) for cell in entries[arm].cells)
        rows.append([arm, *figures, *cells, *_build_and_memory(entries[arm])])
    head = [*trade_off.HEAD, *(f"@{size}" for size in sizes), "build s", "MiB"]
    table = markdown_table(head, rows, text_columns={0, 1})
    return [introduction(document, file), *table, "", *failures(document), ""]


def failures(document: Answer) -> list[str]:
    """Return a line for each reason why arms have no time, with these arms."""
    arms: dict[str, list[str]] = {}
    for entry in document.unmeasured:
        if entry.status in FAILED:
            arms.setdefault(f"{entry.status}: {entry.reason}", []).append(f"`{entry.arm}`")
    return [f"- {', '.join(names)}: {reason}" for reason, names in arms.items()]


def failures_of(file: str) -> list[str]:
    return failures(read_run(file))
