"""Render kept runs as Markdown: introductions, tables and failures."""

from __future__ import annotations

import json
import pathlib
from typing import Any

from kept.runs import (
    device_of,
    read_gpu_checks,
    read_run,
    timed_arms,
    versions_of,
)

from advisor.domain.answer import Answer, RankedArm
from advisor.domain.measurement import Cell
from advisor.measure.generation import explain_mismatch
from advisor.report.formatting import accuracy_cell, markdown_table
from advisor.report.sections import trade_off
from advisor.report.sections.setup_facts import describe_lengths
from advisor.system.number_format import (
    MEBIBYTE,
    MISSING,
    format_interval,
    format_mebibytes,
    format_number,
    format_seconds,
    format_share,
)

#: Place of the kept runs in links from the root of the repository.
EVIDENCE_LINK = "tests/stacks/evidence"
SURVEY = pathlib.Path(__file__).parents[1] / "results" / "architecture-survey.json"
BASELINE = "pytorch-eager"
GIBIBYTE = 1 << 30
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


def blocks_table(*files: str) -> list[str]:
    """Return a row for each run: microseconds of eager PyTorch, and speed-ups of the others."""
    documents = [read_run(file) for file in files]
    timed = {entry.arm for document in documents for entry in timed_arms(document)}
    arms = sorted(timed - {BASELINE})
    rows = []
    for document, file in zip(documents, files, strict=True):
        entries = {entry.arm: entry for entry in document.ranked}
        microseconds = (
            format_number(cell.seconds.median * 1e6, decimals=0) for cell in entries[BASELINE].cells
        )
        question = document.question
        rows.append(
            [
                f"[{question.model.name}]({EVIDENCE_LINK}/{file}), {question.dtype}",
                " / ".join(microseconds),
                *(_speedups_or_status(document, arm) for arm in arms),
            ]
        )
    sizes = " / ".join(f"@{size}" for size in documents[0].question.batch_sizes)
    return markdown_table([f"model (speed-ups {sizes})", f"{BASELINE}, µs", *arms], rows)


def _speedups_or_status(document: Answer, arm: str) -> str:
    """Return the speed-ups of an arm, or why it has none; a dash if it was not tried."""
    measured = document.measurements.get(arm)
    if measured is not None:
        return " / ".join(format_number(each.speedup.value, decimals=2) for each in measured.cells)
    status = next((each.status for each in document.unmeasured if each.arm == arm), "excluded")
    return MISSING if status == "excluded" else status


def failures(document: Answer) -> list[str]:
    """Return a line for each reason why arms have no time, with these arms."""
    arms: dict[str, list[str]] = {}
    for entry in document.unmeasured:
        if entry.status in FAILED:
            arms.setdefault(f"{entry.status}: {entry.reason}", []).append(f"`{entry.arm}`")
    return [f"- {', '.join(names)}: {reason}" for reason, names in arms.items()]


def failures_of(file: str) -> list[str]:
    return failures(read_run(file))


def survey_section() -> list[str]:
    """Return which models of the panel each workflow passes, and why others do not pass."""
    kept = json.loads(SURVEY.read_text(encoding="utf-8"))
    verdicts: dict[str, dict[str, str]] = {}
    names: dict[str, str] = {}
    missed: dict[str, list[str]] = {}
    for found in kept["findings"]:
        workflow, model, verdict = found["workflow"], found["model"], found["verdict"]
        verdicts.setdefault(workflow, {})[model] = verdict
        names[model] = f"{model}, {found['family']}"
        if verdict != "pass":
            missed.setdefault(f"{model}: {found['reason']}", []).append(f"`{workflow}`")
    passed = {name: list(found.values()).count("pass") for name, found in verdicts.items()}
    head = ["model", *(f"{name} ({passed[name]} of {len(verdicts[name])})" for name in verdicts)]
    rows = [
        [name, *("yes" if found[model] == "pass" else found[model] for found in verdicts.values())]
        for model, name in names.items()
    ]
    machine = kept["machine"]
    result = f"[result](../tests/studies/results/{SURVEY.name})"
    return [
        (
            f"Small models of many families, built and checked on an {machine['cpu']} in float32"
            f" with torch {machine['torch']} on {machine['date'][:10]} ({result}):"
        ),
        "",
        *markdown_table(head, rows),
        "",
        *(f"- {', '.join(workflows)} on {reason}" for reason, workflows in missed.items()),
    ]


def gpu_checks() -> list[str]:
    """Return the results of the checks of the measurement itself on a GPU."""
    checks = read_gpu_checks()
    worst_error = max(map(abs, checks["memory"]["error_bytes"].values()))
    freed = min(checks["killed"]["freed_bytes"].values()) / MEBIBYTE
    free = checks["crowded"]["free_bytes"] / GIBIBYTE
    difference = max(each["largest_difference"] for each in checks["saved"].values())
    return f"""\
- Known allocations of 64 to 1024 MiB, inside and outside PyTorch, are measured with an error of
  {worst_error} bytes.
{_equal_workers(checks["equal"])}
{_other_timers(checks["agreement"])}
- Workers that were killed during a build and during a visit released at least {freed:.0f} MiB, and
  the run continued.
- With {free:.1f} GiB free, the arms that fit were measured and the others ran out of memory.
- Outputs of engines that are saved in one process and loaded in another differ by {difference:g}.
""".splitlines()


def _equal_workers(equal: dict[str, Any]) -> str:
    found, beyond_margin = equal["called_different"], equal["beyond_2_percent"]
    difference = format_share(abs(1 - equal["median_ratio"]), decimals=1)
    return f"""\
- Of {equal["races"]} races between two identical workers, {found} found a difference, which is too
  many; {beyond_margin} of them found one beyond the margin of 2%. The medians of the two processes
  differ by {difference}; only finalists are repeated in fresh processes."""


def _other_timers(agreement: dict[str, Any]) -> str:
    short, long = agreement["22 layers, 16x32 tokens"], agreement["22 layers, 64x32 tokens"]
    (triton, torch), (long_triton, long_torch, sustained) = (
        [format_number(ratios[timer]["ratio"], decimals=decimals) for timer in timers]
        for ratios, decimals, timers in (
            (short, 3, ("triton do_bench", "torch.utils.benchmark")),
            (long, 2, ("triton do_bench", "torch.utils.benchmark", "p3-advisor, sustained")),
        )
    )
    return f"""\
- The same callable is timed in turn by this program and by two others. A call of 1 ms takes
  {triton} times as long by `triton.testing.do_bench` and {torch} by `torch.utils.benchmark`. A call
  of 3 ms that keeps the arithmetic units busy takes {long_triton} and {long_torch} times as long,
  because both call without a pause. The sustained check also calls without a pause; by it, that
  call takes {sustained} times as long."""
