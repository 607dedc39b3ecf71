"""`compare`: what differs between two runs, first in what was asked and where, then in the figures, with intervals. Pure.

A figure is compared only where the same question was asked on the same device. The interval of a
ratio is made of those of both runs and widened by their noise floors: it holds what two runs of the
same thing may differ by.
"""

from __future__ import annotations

import math
from typing import Any, Final, Literal

import msgspec

from advisor.domain.measurement import Cell, Interval
from advisor.report.document import RunDocument, WorkflowEntry
from advisor.report.markdown import escape
from advisor.report.markdown import table as markdown_table
from advisor.report.table import align, device_name, headline

SCHEMA: Final = "p3-advisor/comparison/1"
Judgement = Literal["slower", "faster", "same", "not told apart"]


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """Something that is not the same in both runs; `decisive` where no figure may be compared then."""

    what: str
    before: str
    after: str
    decisive: bool


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """One arm at one batch size: its speed in the second run over that in the first, and the same for its speed-up."""

    arm: str
    batch_size: int
    speed: Interval
    speedup: float
    judgement: Judgement


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """Two runs side by side."""

    schema: str
    before: str
    after: str
    headlines: tuple[str, str]
    threshold: float
    differences: tuple[Difference, ...]
    comparable: bool
    changes: tuple[Change, ...]
    #: Arms that have figures in one of the runs only.
    only_before: tuple[str, ...]
    only_after: tuple[str, ...]

    @property
    def regressions(self) -> tuple[Change, ...]:
        """The changes that are shown to be slower by more than the threshold."""
        return tuple(change for change in self.changes if change.judgement == "slower")


def compare(before: RunDocument, after: RunDocument, threshold: float) -> Comparison:
    """Hold `after` against `before`; speeds that differ by no more than the share `threshold` are the same."""
    differences = find_differences(before, after)
    comparable = not any(difference.decisive for difference in differences)
    arms = {entry.arm: entry for entry in before.workflows if entry.cells}
    others = {entry.arm: entry for entry in after.workflows if entry.cells}
    noise = math.hypot(
        *(run.race.noise_floor or 0.0 if run.race else 0.0 for run in (before, after))
    )
    both = [(arms[arm], others[arm]) for arm in arms if arm in others] if comparable else []
    return Comparison(
        schema=SCHEMA,
        before=before.run_id,
        after=after.run_id,
        headlines=(_headline(before), _headline(after)),
        threshold=threshold,
        differences=differences,
        comparable=comparable,
        changes=tuple(
            change for one, two in both for change in _changes(one, two, noise, threshold)
        ),
        only_before=tuple(arm for arm in arms if arm not in others),
        only_after=tuple(arm for arm in others if arm not in arms),
    )


def _headline(document: RunDocument) -> str:
    return headline(document) + ("" if document.finished else " (stopped before its end)")


def find_differences(before: RunDocument, after: RunDocument) -> tuple[Difference, ...]:
    """Return what differs in the question, the machine and the versions, the decisive things first."""
    decisive, further = (({**facts(before)[place]}, {**facts(after)[place]}) for place in (0, 1))
    found = []
    for (one, two), matters in ((decisive, True), (further, False)):
        for what in dict.fromkeys([*one, *two]):
            first, second = one.get(what, "not there"), two.get(what, "not there")
            if first != second:
                found.append(Difference(what=what, before=first, after=second, decisive=matters))
    return tuple(found)


def facts(document: RunDocument) -> tuple[dict[str, str], dict[str, str]]:
    """Return what must be the same for figures to be compared, and what should be known besides."""
    asked, machine = document.question, document.machine
    decisive = {
        "model": _flat(asked.model),
        "task": asked.task,
        "precision": asked.dtype,
        "batch sizes": ", ".join(map(str, asked.batch_sizes)),
        "input tokens": str(asked.input_tokens),
        "output tokens": str(asked.output_tokens),
        "device": device_name(document),
        "usable processors": str(machine.cpu.usable_processors) if asked.device == "cpu" else "",
    }
    gpu = next((gpu for gpu in machine.gpu if gpu.uuid == asked.gpu), None)
    further = {
        "run": "finished" if document.finished else "stopped before its end",
        "measured batch sizes": ", ".join(
            str(race.batch_size) for race in document.race.by_batch_size
        )
        if document.race
        else "none",
        "p3-advisor": document.advisor_version,
        "rubric": document.rubric,
        "priorities": _flat(asked.priorities),
        "budget": asked.budget.name,
        "seed": str(asked.seed),
        "driver": gpu.driver if gpu else "",
        "GPU": gpu.uuid if gpu else "",
        "kernel": machine.kernel,
        "Python": machine.software.version,
    }
    for entry in document.workflows:
        further |= {
            f"{entry.arm}: {name}": value
            for name, value in {**entry.versions, **entry.settings}.items()
        }
    return decisive, further


def _flat(value: object) -> str:
    fields: dict[str, Any] = msgspec.to_builtins(value)
    return ", ".join(f"{name} {each}" for name, each in fields.items())


def _changes(
    before: WorkflowEntry, after: WorkflowEntry, noise: float, threshold: float
) -> list[Change]:
    cells = {cell.batch_size: cell for cell in after.cells}
    found = []
    for cell in before.cells:
        if cell.batch_size not in cells:
            continue
        speed = ratio_of_speeds(cell, cells[cell.batch_size], noise)
        found.append(
            Change(
                arm=before.arm,
                batch_size=cell.batch_size,
                speed=speed,
                speedup=cells[cell.batch_size].speedup.value / cell.speedup.value,
                judgement=judge(speed, threshold),
            )
        )
    return found


def ratio_of_speeds(before: Cell, after: Cell, noise: float) -> Interval:
    """Return how many times as fast it is now; the half widths of both logarithmic intervals and the noise add as squares."""
    value = before.seconds.median / after.seconds.median
    ends = [_logarithmic_ends(cell) for cell in (before, after)]
    if any(end is None for end in ends):
        return Interval(value=value, low=None, high=None)
    (shorter, longer), (shorter_now, longer_now) = (end for end in ends if end is not None)
    wide = math.log1p(noise)
    return Interval(
        value=value,
        low=value * math.exp(-math.hypot(shorter, longer_now, wide)),
        high=value * math.exp(math.hypot(longer, shorter_now, wide)),
    )


def _logarithmic_ends(cell: Cell) -> tuple[float, float] | None:
    """Return how far the median is from the ends of its interval, as logarithms."""
    seconds = cell.seconds
    if seconds.low is None or seconds.high is None:
        return None
    return math.log(seconds.median / seconds.low), math.log(seconds.high / seconds.median)


def judge(speed: Interval, threshold: float) -> Judgement:
    """Say what the whole interval shows."""
    if speed.low is None or speed.high is None:
        return "not told apart"
    if speed.high < 1 - threshold:
        return "slower"
    if speed.low > 1 + threshold:
        return "faster"
    return (
        "same" if speed.low >= 1 - threshold and speed.high <= 1 + threshold else "not told apart"
    )


def render(comparison: Comparison) -> str:
    """Return the comparison as text."""
    blocks = [
        [
            f"before  {comparison.before}: {comparison.headlines[0]}",
            f"after   {comparison.after}: {comparison.headlines[1]}",
        ]
    ]
    rows = [
        [f"{'!' if each.decisive else ' '} {each.what}", each.before, each.after]
        for each in comparison.differences
    ]
    blocks.append(
        ["What differs (! forbids comparing figures):", *align([["", "before", "after"], *rows])]
        if rows
        else ["Nothing differs."]
    )
    if comparison.changes:
        blocks.append(align([CHANGE_HEAD, *map(change_row, comparison.changes)]))
    blocks.append(closing(comparison))
    return "\n\n".join("\n".join(block) for block in blocks) + "\n"


CHANGE_HEAD = ["arm", "batch", "speed, times before (95 %)", "speed-up, times before", "verdict"]


def change_row(change: Change) -> list[str]:
    """Return the cells of one line."""
    speed = change.speed
    bounds = (
        f"{speed.low:.3f} to {speed.high:.3f}"
        if speed.low is not None and speed.high is not None
        else "not bounded"
    )
    return [
        change.arm,
        str(change.batch_size),
        f"{speed.value:.3f} ({bounds})",
        f"{change.speedup:.3f}",
        change.judgement,
    ]


def closing(comparison: Comparison) -> list[str]:
    """Return what follows, in words."""
    if not comparison.comparable:
        names = ", ".join(
            difference.what for difference in comparison.differences if difference.decisive
        )
        return [f"No verdict: the runs differ in {names}."]
    slower = [
        f"{change.arm} at batch size {change.batch_size}" for change in comparison.regressions
    ]
    share = f"{comparison.threshold * 100:.3g}%"
    lines = [
        f"Slower by more than {share}: {', '.join(slower)}."
        if slower
        else f"Nothing is shown to be slower by more than {share}."
    ]
    # Of all arms: the baseline's speed-up over itself stays what it was whatever becomes of it.
    if slower and all(
        abs(change.speedup - 1) <= comparison.threshold for change in comparison.changes
    ):
        lines.append(
            "The speed-ups over the baseline are what they were: the machine has changed rather than a workflow."
        )
    for arms, when in ((comparison.only_before, "before"), (comparison.only_after, "after")):
        if arms:
            lines.append(f"Measured only {when}: {', '.join(arms)}.")
    return lines


def render_markdown(comparison: Comparison) -> str:
    """Return the comparison for a pull request."""
    blocks = [[f"## p3-advisor: {escape(comparison.before)} against {escape(comparison.after)}"]]
    blocks.append([escape(line) for line in closing(comparison)])
    if comparison.changes:
        blocks.append(
            markdown_table(
                CHANGE_HEAD,
                [[escape(cell) for cell in change_row(change)] for change in comparison.changes],
            )
        )
    if comparison.differences:
        rows = [
            [escape(each.what), escape(each.before), escape(each.after)]
            for each in comparison.differences
        ]
        blocks.append(["What differs:", "", *markdown_table(["", "before", "after"], rows)])
    return "\n\n".join("\n".join(block) for block in blocks) + "\n"


def encode(comparison: Comparison) -> str:
    """Return the comparison as indented JSON with a final line break."""
    return msgspec.json.format(msgspec.json.encode(comparison), indent=2).decode() + "\n"
