"""Show one arm: its tiers, times, code, environment and log."""

from __future__ import annotations

import shlex
import statistics
from collections.abc import Mapping
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widgets import Static, TabbedContent, TabPane

from advisor.domain.answer import RankedArm
from advisor.domain.constraints import CRITERIA
from advisor.domain.measurement import Cell, Measurement
from advisor.errors import NoRecipeError
from advisor.report import explanation, found_recipe, recipe_text, shortcomings
from advisor.report.formatting import accuracy_line
from advisor.report.text_generation import render_generation
from advisor.store.runs import Run
from advisor.system.number_format import (
    MISSING,
    format_interval,
    format_mebibytes,
    format_seconds,
    format_share,
)
from advisor.system.regular_file import read_tail
from advisor.tui import text
from advisor.tui.answer import RunAnswer, option_of
from advisor.tui.screens.advisor_screen import AdvisorScreen
from advisor.tui.text import clean_line
from probes.wire.shape import Shape

TABS = ("Score", "Timing", "Code", "Environment", "Log")
MAX_LOG_BYTES = 200_000


class DetailScreen(AdvisorScreen):
    """The details of one arm, in tabs."""

    HELP_TEXT = """\
Score: each criterion with its value, the rule of its grade, and what the next letter requires.
Timing: one bar for each visit; bars of equal length mean stable times; below them, what the arm
did with shapes that were not built. Log: the output of the stack."""
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left_square_bracket,left", "step(-1)", "Previous", key_display="[", id="previous"),
        Binding("right_square_bracket,right", "step(1)", "Next", key_display="]", id="next-arm"),
        *[
            Binding(str(number), f"tab('{name.lower()}')", name, tooltip=name, show=False)
            for number, name in enumerate(TABS, start=1)
        ],
        Binding(
            "y",
            "copy",
            "Copy command",
            id="copy",
            tooltip="copy the command that runs the measured code again",
        ),
    ]

    def __init__(self, answer: RunAnswer, arm: str, run: Run | None) -> None:
        super().__init__()
        self._answer, self._arm, self._run = answer, arm, run

    def compose_body(self) -> ComposeResult:
        with TabbedContent(id="tabs"):
            for number, name in enumerate(TABS, start=1):
                with TabPane(f"{number} {name}", id=name.lower()), VerticalScroll():
                    yield Static("", id=f"text-{name.lower()}", markup=False)

    def on_mount(self) -> None:
        self.query_one("#score VerticalScroll").focus()

    def action_step(self, steps: int) -> None:
        """Show the next arm in the ranking, or with -1 the previous one."""
        arms = [entry.arm for entry in self._answer.ranked]
        self._arm = arms[(arms.index(self._arm) + steps) % len(arms)]
        self.draw()

    def action_tab(self, name: str) -> None:
        self.query_one(TabbedContent).active = name
        self.query_one(f"#{name} VerticalScroll").focus()

    def offers(self, action: str) -> bool:
        """Offer the command only for a stored run, whose code it can run."""
        return action != "copy" or self._run is not None

    def action_copy(self) -> None:
        """Copy the command that runs the measured code of this arm again."""
        self.copy(verify_command(self._answer, self._arm))

    def draw(self) -> None:
        answer, entry = self._answer, self._answer.ranked_arm(self._arm)
        self.set_title(
            text.styled(text.printable(entry.arm, 60), "bold")
            + Text(
                f"   rank {entry.scored.rank} of {len(answer.ranked)}"
                f"   score {entry.scored.score:.2f}"
                f"   {format_interval(entry.speedup)}"
            )
        )
        for name, content in (
            ("score", render_score(answer, entry)),
            ("timing", render_timing(answer, entry) + render_new_shapes(entry)),
            ("code", render_code(answer, entry)),
            ("environment", render_environment(answer, entry)),
            ("log", self._log()),
        ):
            self.query_one(f"#text-{name}", Static).update(content)

    def _log(self) -> Text:
        if self._run is None:
            return Text("the files of this run are not stored here")
        processes = len(self._run.state().processes.get(self._arm, ()))
        file = self._run.worker_log_path(self._arm, max(processes - 1, 0))
        try:
            content = read_tail(file, MAX_LOG_BYTES)
        except OSError:
            return Text("the log is not stored here", "dim")
        lines = [clean_line(line) for line in content.decode("utf-8", "replace").splitlines()]
        return Text("\n".join(lines)) if lines else Text("no output", "dim")


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
    lines = [f"  {text.printable(shortcomings.describe_new_shape(each), 300)}\n" for each in tried]
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
        code = recipe_text.render_short(document, *found_recipe.choose(document, answer.run, arm))
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
