"""What arms fail at: new shapes, constraints, most of the work, or a measurement at all."""

from __future__ import annotations

from collections.abc import Sequence

from advisor.decide.process_figures import PENDING_SOURCE
from advisor.domain.answer import Answer, Status, UnmeasuredArm
from advisor.domain.measurement import Measurement
from advisor.domain.plan import ArmName
from advisor.domain.text import format_milliseconds, format_seconds, format_share, shorten_text
from advisor.report.formatting import Section
from probes.events import NewShapeResult

PARTLY_USED = "Used for less than half of the work, the rest ran as without it"
#: Share of the work below which an arm is listed; tables and `explain` have the share of each.
HALF = 0.5
TITLE = "Not ranked, or excluded by a constraint (!)"
#: Statuses of workflows that were not tried, below those that failed, the more useful to know
#: first.
NOT_TRIED: tuple[Status, ...] = (
    "skipped",
    "not-installed",
    "not-reached",
    "excluded",
    "unsupported",
)


def unranked(answer: Answer) -> Section:
    failing: dict[str, list[str]] = {}
    for scored in answer.scores:
        if scored.failures:
            failing.setdefault("; ".join(scored.failed_constraints), []).append(scored.arm)
    lines = [f"{', '.join(arms)}: {fails}" for fails, arms in failing.items()]
    listed = [missing for missing in answer.unmeasured if not is_unnamed(missing, answer)]
    lines += _reasons([missing for missing in listed if missing.status != "not-covered"])
    without_probe = [missing.arm for missing in listed if missing.status == "not-covered"]
    if without_probe:
        lines.append(
            f"not covered by p3-advisor: {', '.join(without_probe)}; "
            "p3-advisor workflows gives the reasons"
        )
    return Section("unmeasured", TITLE, lines)


def is_unnamed(missing: UnmeasuredArm, answer: Answer) -> bool:
    """Return whether the user named workflows, and not this one, which was not tried."""
    named = {ArmName.parse(name).workflow for name in answer.question.workflows}
    not_tried = missing.status in NOT_TRIED or missing.status == "not-covered"
    return bool(named) and ArmName.parse(missing.arm).workflow not in named and not_tried


def _reasons(entries: list[UnmeasuredArm]) -> list[str]:
    groups: dict[tuple[Status, str, str], list[str]] = {}
    ranks = {status: rank for rank, status in enumerate(NOT_TRIED, 1)}
    for missing in sorted(entries, key=lambda each: ranks.get(each.status, 0)):
        # The next steps of the answer name the command that installs a workflow.
        fix = "" if missing.status == "not-installed" else missing.fix or ""
        groups.setdefault((missing.status, missing.reason, fix), []).append(missing.arm)
    lines = []
    for (status, reason, fix), arms in groups.items():
        lines.append(f"{', '.join(arms)}: {status}, {reason}")
        if fix:
            lines.append(f"  next: {fix}")
    return lines


def partly_used(answer: Answer) -> Section:
    lines = [
        f"{scored.arm}: {format_share(measured.engaged_share)}"
        f"{f' ({measured.engagement})' if measured.engagement else ''}"
        for scored, measured in answer.ranking
        if measured.cells and measured.engaged_share < HALF
    ]
    return Section("partly", PARTLY_USED, lines)


#: Arms of the summary; `explain` and the HTML report have all.
SUMMARY_ARMS = 3
#: Length of a stack's message; the JSON document has all of it.
MOST_CHARACTERS = 90
UNKNOWN = "no reason is known"
#: The best first.
HANDLINGS = ("skipped", "served", "eager", "stalled", "wrong", "refused")


def describe_new_shape(result: NewShapeResult) -> str:
    """Return the shape, how it was served and how fast: `batch size 17: served in 1.2 ms`."""
    reason = result.reason
    shortened = shorten_text(reason or UNKNOWN, MOST_CHARACTERS)
    # A later call, and the first one, which may compile.
    first = f"first call {format_milliseconds(result.first_call_seconds)} ms"
    later = f" in {format_milliseconds(result.steady_seconds)} ms" if result.steady_seconds else ""
    written = {
        "served": f"served{later}, {first}{f', {reason}' if reason else ''}",
        "stalled": f"recompiled, {format_seconds(result.first_call_seconds)} s",
        "eager": f"served by eager code, {reason}",
        "wrong": f"wrong outputs, {shortened}",
        "refused": f"refused, {shortened}",
        "skipped": f"no result, {reason}",
    }
    shape = result.shape
    length = f", length {shape.tokens}" if shape.tokens else ""
    return f"batch size {shape.batch_size}{length}: {written[result.handling]}"


def new_shape_lines(answer: Answer) -> Section:
    """Return the worst batch size and length of each of the best arms that tried new shapes."""
    lines = [
        f"{scored.arm}: {'; '.join(map(describe_new_shape, worst))}"
        for scored, measured in answer.ranking
        if (worst := find_worst(measured.new_shape_results))
    ]
    return Section("new-shapes", "Shapes that were not built", lines[:SUMMARY_ARMS])


def new_shape_costs(answer: Answer, measured: Measurement) -> list[str]:
    """Return what a call of a shape costs that was not built, if not a usual call."""
    parts = []
    for worst in find_worst(measured.new_shape_results):
        name = "lengths" if worst.shape.tokens else "batch sizes"
        if worst.handling == "stalled":
            parts.append(f"new {name} recompile ({format_seconds(worst.first_call_seconds)} s)")
        elif worst.handling == "eager":
            parts.append(f"new {name} run eager code")
        elif worst.handling == "skipped":
            limit = answer.question.budget.new_shape_seconds
            parts.append(f"new {name} take {f'over {limit:g} s' if limit else 'very long'}")
    return parts


def find_worst(results: Sequence[NewShapeResult]) -> list[NewShapeResult]:
    """Return the batch size and the length that were served worst."""

    def badness(result: NewShapeResult) -> tuple[int, float]:
        return HANDLINGS.index(result.handling), result.first_call_seconds or 0.0

    sizes = [result for result in results if not result.shape.tokens]
    lengths = [result for result in results if result.shape.tokens]
    return [max(each, key=badness) for each in (sizes, lengths) if each]


#: Why the memory is not known of an arm whose worker was to be read at its end.
NOT_READ = "not known: its worker ended with the run or while others built, so it was not read"


def memory_source(answer: Answer, measured: Measurement) -> str:
    """Return where the figure comes from, or why there is none; it may yet come during a run."""
    source = measured.memory_bytes.source
    return NOT_READ if source == PENDING_SOURCE and not answer.in_progress else source
