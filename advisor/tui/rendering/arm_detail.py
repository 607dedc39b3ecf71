"""Render the score, the timing, the code and the environment of one arm."""

from __future__ import annotations

import shlex
import statistics
from collections.abc import Mapping

from rich.text import Text

from advisor.domain.answer import RankedArm
from advisor.domain.measurement import Cell, Measurement
from advisor.domain.priorities import CRITERIA
from advisor.errors import NoRecipeError
from advisor.report import explanation, new_shapes
from advisor.report.formatting import accuracy_line
from advisor.report.recipes import found_recipe, server_recipe
from advisor.report.text_generation import render_generation
from advisor.system.number_format import (
    MISSING,
    format_interval,
    format_mebibytes,
    format_seconds,
    format_share,
)
from advisor.tui.answer import RunAnswer, option_of
from advisor.tui.rendering import text
from probes.wire.shape import Shape

EIGHTHS = " \u258f\u258e\u258d\u258c\u258b\u258a\u2589"
FULL = "\N{FULL BLOCK}"
BAR_CELLS = 40
NEW_SHAPES = "Shapes that were not built"


def render_score(answer: RunAnswer, entry: RankedArm) -> Text:
    """Return what `p3-advisor explain` prints for the arm."""
    published = answer.catalogue.published
    lines = explanation.explain_arm(answer.document, entry, CRITERIA, published)
    return Text("\n".join(text.printable(line, 400) for line in lines))


def render_timing(answer: RunAnswer, entry: RankedArm) -> Text:
    lines = Text()
    for cell in entry.cells:
        lines += _render_cell(cell) + _render_visits(answer, entry.arm, cell.shape)
        lines += Text("\n")
    return lines + _render_measured(entry.measured) if entry.measured else lines


def _render_measured(measured: Measurement) -> Text:
    build, memory, loss = measured.build_seconds, measured.memory_bytes, measured.trained_loss
    warm = f"{format_seconds(build.warm)} s" if build.warm is not None else "not measured"
    lines = Text(f"Build cold {format_seconds(build.cold)} s, warm {warm}.\n")
    peak = f"{format_mebibytes(memory.peak)} MiB" if memory.peak is not None else MISSING
    lines += Text(f"Memory {peak}: {text.printable(memory.source, 100)}.\n")
    engagement = text.printable(measured.engagement, 300)
    share = format_share(measured.engaged_share)
    lines += Text(f"Compiled share of the work {share}: {engagement}\n")
    for checked in measured.correctness:
        accuracy = text.printable(accuracy_line(checked), 300)
        lines += Text(f"Outputs at batch {checked.shape}: {accuracy}\n")
    if loss is not None and loss.loss_class is not None:
        lines += Text(f"Loss of the trained model: class {loss.loss_class}.\n")
    return lines


def render_new_shapes(entry: RankedArm) -> Text:
    tried = entry.measured.new_shape_results if entry.measured else ()
    if not tried:
        return Text()
    lines = [f"  {text.printable(new_shapes.describe(each), 300)}\n" for each in tried]
    return text.styled(f"{NEW_SHAPES}\n", "bold") + Text("".join(lines))


def _render_cell(cell: Cell) -> Text:
    lines = text.styled(f"Batch {cell.shape}", "bold")
    lines += Text(
        f"   {text.format_milliseconds(cell.seconds.median)} ms"
        f"   {format_interval(cell.speedup)} at 95 %"
        f"   {text.format_number(cell.throughput.value)} {cell.throughput.unit}"
        f"   {cell.seconds.samples} calls\n"
    )
    generation = render_generation(cell.generation)
    return lines + Text(f"  {generation}\n" if generation else "")


def _render_visits(answer: RunAnswer, arm: str, shape: Shape) -> Text:
    """Return a bar for the median call time of each visit; a file has no single visits."""
    if answer.run is None:
        return Text()
    medians = [
        (visit.round, statistics.median(visit.seconds))
        for process in answer.run.state().processes.get(arm, ())
        for visit in process.visits
        if visit.shape == shape
    ]
    longest = max((seconds for _, seconds in medians), default=1.0)
    return Text(
        "".join(
            f"  visit {number:>3} {bar(seconds / longest, BAR_CELLS):<{BAR_CELLS}}"
            f" {text.format_milliseconds(seconds)}\n"
            for number, seconds in medians
        )
    )


def render_code(answer: RunAnswer, entry: RankedArm) -> Text:
    workflow = answer.workflow(entry)
    if workflow is None:
        return Text("This version does not know the workflow.")
    declared = workflow.declared
    options = workflow.arms.get(option_of(entry), {})
    values = ", ".join(f"{name} = {value!r}" for name, value in options.items())
    export = "yes" if declared.export_step.value else "no"
    lines = text.styled(f"{text.printable(workflow.title)}\n", "bold")
    lines += Text(f"options   {text.printable(values or 'defaults of the stack', 300)}\n")
    lines += Text(f"install   {text.printable(workflow.how_to_get, 300)}\n")
    lines += Text(f"changes   {declared.lines_changed.value} lines, export step: {export}\n")
    lines += Text(f"source    {text.printable(declared.lines_changed.source, 300)}\n\n", "dim")
    return lines + _render_recipe(answer, entry.arm)


def verify_command(answer: RunAnswer, arm: str) -> str:
    return shlex.join(["p3-advisor", "verify", answer.document.run_id, "--workflow", arm])


def _render_recipe(answer: RunAnswer, arm: str) -> Text:
    """Return what `p3-advisor recipe` prints; nothing where there is no recipe."""
    document = answer.document
    if answer.run is None:
        return Text()
    try:
        code = server_recipe.render_short(document, *found_recipe.choose(document, answer.run, arm))
    except NoRecipeError:
        return Text()
    command = text.printable(verify_command(answer, arm), 200)
    title = text.styled("The measured code", "bold") + Text(f"   {command} runs it\n", "dim")
    return title + Text("".join(f"{text.printable(line, 400)}\n" for line in code.splitlines()))


def render_environment(answer: RunAnswer, entry: RankedArm) -> Text:
    machine = answer.document.machine
    lines = _render_pairs("Versions", entry.measured.versions if entry.measured else {}, " ")
    lines += _render_pairs("Settings", entry.measured.settings if entry.measured else {}, " = ")
    lines += Text("Machine\n", "bold")
    lines += Text(
        f"  {text.printable(machine.cpu.model)}, {machine.cpu.usable_processors} processors,"
        f" {machine.kernel}\n"
    )
    for gpu in machine.gpus:
        lines += Text(f"  {text.printable(gpu.name)}, driver {gpu.driver}\n")
    return lines


def _render_pairs(title: str, pairs: Mapping[str, str], separator: str) -> Text:
    lines = "".join(
        f"  {text.printable(name)}{separator}{text.printable(value, 200)}\n"
        for name, value in pairs.items()
    )
    return text.styled(f"{title}\n", "bold") + Text(lines)


def bar(share: float, cells: int) -> str:
    """Return a bar for a share between 0 and 1, with a resolution of an eighth of a cell."""
    eighths = round(min(max(share, 0.0), 1.0) * cells * 8)
    return FULL * (eighths // 8) + (EIGHTHS[eighths % 8] if eighths % 8 else "")
