"""Everything about one arm: its tiers, its times, its code, its environment, its log."""

from __future__ import annotations

import statistics
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widgets import Static, TabbedContent, TabPane

from advisor.domain.decision import Rating
from advisor.pipeline.decision import Decision
from advisor.report import recipe
from advisor.report.text_generation import words_of_generation
from advisor.store import Run
from advisor.tui import text
from advisor.tui.run.logs import clean
from advisor.tui.screens.frame import Frame, TopLine
from advisor.tui.widgets.keys import Keys

LETTERS = {3: "A", 2: "B", 1: "C"}
EIGHTHS = " \u258f\u258e\u258d\u258c\u258b\u258a\u2589"
FULL = "\N{FULL BLOCK}"
LOG_BYTES = 200_000


class Detail(Frame):
    """One arm."""

    HELP_TEXT = """\
Score: each criterion with its value, the rule of its tier, and what the next tier asks for.
Timing: one bar a visit; equal bars mean quiet timing. Log: what the stack printed."""
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left_square_bracket,left", "step(-1)", "Previous", key_display="[", id="previous"),
        Binding("right_square_bracket,right", "step(1)", "Next", key_display="]", id="next-arm"),
        Binding("1", "tab('score')", "Score"),
        Binding("2", "tab('timing')", "Timing"),
        Binding("3", "tab('code')", "Code"),
        Binding("4", "tab('environment')", "Environment", show=False),
        Binding("5", "tab('log')", "Log", id="log"),
        Binding(
            "y",
            "copy",
            "Copy",
            id="copy",
            tooltip="copy the command that repeats this measurement",
            show=False,
        ),
        Binding("escape,q", "app.pop_screen", "Back", id="back"),
    ]

    def __init__(self, decision: Decision, arm: str, run: Run | None) -> None:
        super().__init__()
        self._decision, self._arm, self._run = decision, arm, run

    def compose(self) -> ComposeResult:
        """Make the tabs."""
        yield TopLine()
        with TabbedContent(id="tabs"):
            for place, name in enumerate(
                ("Score", "Timing", "Code", "Environment", "Log"), start=1
            ):
                with TabPane(f"{place} {name}", id=name.lower()), VerticalScroll():
                    yield Static("", id=f"text-{name.lower()}", markup=False)
        yield self.compose_too_small()
        yield Keys()

    def on_mount(self) -> None:
        """Show the arm."""
        self.draw()

    def action_step(self, steps: int) -> None:
        """Show the arm before or after in the ranking."""
        arms = [arm.arm for arm in self._decision.scored]
        self._arm = arms[(arms.index(self._arm) + steps) % len(arms)]
        self.draw()

    def action_tab(self, name: str) -> None:
        """Show a tab."""
        self.query_one(TabbedContent).active = name
        self.query_one(f"#{name} VerticalScroll").focus()

    def action_copy(self) -> None:
        """Copy the command that measures this arm again."""
        self.app.copy_to_clipboard(self.command())
        self.notify(f"copied: {self.command()}", markup=False)

    def command(self) -> str:
        """Return the command that measures this arm again."""
        import shlex  # noqa: PLC0415 - only when asked for

        asked = self._decision.header.question
        sizes = ",".join(map(str, asked.batch_sizes))
        task = (
            f" --task generate --input-tokens {asked.input_tokens} --output-tokens {asked.output_tokens}"
            if asked.task == "generate"
            else ""
        )
        model, arm = shlex.quote(asked.model.name), shlex.quote(self._arm)
        return f"p3-advisor recommend --model {model}{task} --batch-sizes {sizes} --workflows {arm}"

    def draw(self) -> None:
        """Fill the tabs."""
        scored = next(arm for arm in self._decision.scored if arm.arm == self._arm)
        place = f"rank {scored.rank} of {len(self._decision.scored)}   score {scored.score:.2f} / 3   {text.times(scored.speedup)}"
        self.query_one(TopLine).tell(Text(text.plain(self._arm, 60), "bold") + Text(f"   {place}"))
        for name, content in (
            ("score", self._score()),
            ("timing", self._timing()),
            ("code", self._code()),
            ("environment", self._environment()),
            ("log", self._log()),
        ):
            self.query_one(f"#text-{name}", Static).update(content)

    def _score(self) -> Text:
        scored = next(arm for arm in self._decision.scored if arm.arm == self._arm)
        shares = self._decision.header.question.priorities.shares()
        words = Text(f"{'Criterion':<22}Tier    Weight  Value\n", "bold")
        for criterion in self._decision.header.catalogue.rubric.criteria:
            rating = scored.ratings[criterion.id]
            words += Text(f"{criterion.title:<22}", "bold") + Text(
                f"{LETTERS[rating.tier]} {rating.tier}/3 {shares[criterion.id]:>7.0%}   "
            )
            words += Text(f"{_value(rating)}\n")
            words += Text(f"  {text.plain(rating.why, 200)}\n")
            words += Text(
                f"  {rating.evidence}; rule ({rating.basis}): {text.plain(rating.rule, 200)}\n",
                "dim",
            )
            for ahead in rating.to_next:
                missing = f", {ahead.missing:.3g} away" if ahead.missing is not None else ""
                words += Text(
                    f"  {LETTERS[ahead.tier]} asks for {ahead.fact} {text.plain(ahead.threshold, 100)}{missing}\n"
                )
        for failed in scored.fails:
            words += Text(f"\nbarred: {text.plain(failed, 200)}", "bold")
        return words

    def _timing(self) -> Text:
        measured = next(
            entry for entry in self._decision.results.measurements if entry.arm == self._arm
        )
        words = Text()
        for cell in measured.cells:
            seconds, ratio = cell.seconds, cell.speedup
            bounds = f" ({text.times(ratio.low)} to {text.times(ratio.high)} at 95 %)"
            words += Text(f"Batch {cell.batch_size}", "bold")
            words += Text(
                f"   {text.milliseconds(seconds.median)} ms   {text.times(ratio.value)}{bounds}"
            )
            words += Text(
                f"   {text.figure(cell.throughput.value)} {cell.throughput.unit}   {seconds.samples} calls\n"
            )
            medians = [
                (visit.round, statistics.median(visit.seconds))
                for process in self._decision.state.processes.get(self._arm, ())
                for visit in process.visits
                if visit.batch_size == cell.batch_size
            ]
            words += Text(f"  {line}\n" if (line := words_of_generation(cell.generation)) else "")
            longest = max((value for _, value in medians), default=1.0)
            for number, value in medians:
                words += Text(
                    f"  visit {number:>3} {bar(value / longest, 40):<40} {text.milliseconds(value)}\n"
                )
            words += Text("\n")
        build, memory = measured.build_seconds, measured.memory_bytes
        warm = f"{build.warm:.1f} s" if build.warm is not None else "not measured"
        peak = f"{memory.peak_mebibytes} MiB" if memory.peak is not None else text.DASH
        words += Text(
            f"Build cold {build.cold:.1f} s, warm {warm}.  Memory {peak}: {text.plain(memory.source, 100)}.\n"
        )
        words += Text(
            f"Compiled path took {measured.engaged_share:.0%} of the work: {text.plain(measured.engagement, 300)}\n"
        )
        for checked in measured.correctness:
            error = (
                f"rmse {checked.rmse:.2g}, allowed {checked.allowed:.2g}"
                if checked.rmse is not None and checked.allowed is not None
                else ""
            )
            words += Text(
                f"Outputs at batch {checked.batch_size}: {checked.verdict}, {error} against {text.plain(checked.reference, 80)}\n"
            )
        return words

    def _code(self) -> Text:
        workflow = next(
            entry
            for entry in self._decision.header.catalogue.workflows
            if entry.id == self._arm.partition("/")[0]
        )
        planned = self._decision.state.plan
        options = (
            next((arm.options for arm in planned.arms if arm.id == self._arm), {})
            if planned
            else {}
        )
        declared = workflow.declared
        given = (
            ", ".join(f"{name} = {value!r}" for name, value in options.items())
            or "the stack's defaults"
        )
        words = Text(f"{text.plain(workflow.title)}\n", "bold") + Text(
            f"options   {text.plain(given, 300)}\n"
        )
        words += Text(f"install   {text.plain(workflow.how_to_get, 300)}\n")
        words += Text(
            f"changes   {declared.lines_changed.value} lines, export step: {'yes' if declared.export_step.value else 'no'}\n"
        )
        words += Text(f"source    {text.plain(declared.lines_changed.source, 300)}\n\n", "dim")
        words += Text("Measure it again\n", "bold") + Text(f"{text.plain(self.command(), 1000)}\n")
        code = recipe.stored(self._decision.state, self._arm)
        if code is not None:
            lines = [
                *(f"# {requirement}" for requirement in code.requirements),
                *code.imports,
                *code.source.splitlines(),
            ]
            command = text.plain(
                f"p3-advisor recipe {self._decision.header.run_id} --workflow {self._arm}", 200
            )
            words += Text("\nThe code that was measured", "bold") + Text(
                f"   {command} writes it with its figures\n", "dim"
            )
            words += Text("".join(f"{text.plain(line, 400)}\n" for line in lines))
        return words

    def _environment(self) -> Text:
        measured = next(
            entry for entry in self._decision.results.measurements if entry.arm == self._arm
        )
        machine = self._decision.header.machine
        words = Text("Versions\n", "bold") + Text(
            "".join(
                f"  {text.plain(name)} {text.plain(value, 200)}\n"
                for name, value in measured.versions.items()
            )
        )
        words += Text("Settings\n", "bold") + Text(
            "".join(
                f"  {text.plain(name)} = {text.plain(value, 200)}\n"
                for name, value in measured.settings.items()
            )
        )
        words += Text("Machine\n", "bold") + Text(
            f"  {text.plain(machine.cpu.model)}, {machine.cpu.usable_processors} processors, {machine.kernel}\n"
        )
        for gpu in machine.gpus:
            words += Text(f"  {text.plain(gpu.name)}, driver {gpu.driver}\n")
        return words

    def _log(self) -> Text:
        if self._run is None:
            return Text("this run's files are not here")
        processes = len(self._decision.state.processes.get(self._arm, ()))
        file = self._run.log_of(self._arm, max(processes - 1, 0))
        try:
            raw = file.read_bytes()[-LOG_BYTES:]
        except OSError:
            return Text("its log is not here", "dim")
        lines = [clean(line) for line in raw.decode("utf-8", "replace").splitlines()]
        return Text("\n".join(lines)) if lines else Text("it printed nothing", "dim")


def _value(rating: Rating) -> str:
    value = (
        {True: "yes", False: "no", None: text.DASH}.get(rating.value)
        if isinstance(rating.value, (bool, type(None)))
        else rating.value
    )
    shown = text.figure(value) if isinstance(value, float) else str(value)
    return text.plain(f"{rating.fact} {shown}", 60)


def bar(share: float, width: int) -> str:
    """Return a bar of eighths of a cell."""
    eighths = round(min(max(share, 0.0), 1.0) * width * 8)
    return FULL * (eighths // 8) + (EIGHTHS[eighths % 8] if eighths % 8 else "")
