"""The answer: the instruction first, then how far it can be trusted, the ranking, and the weights that can be moved."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Literal

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.widgets import DataTable, Static

from advisor.domain.decision import ScoredArm
from advisor.domain.measurement import Cell, Measurement
from advisor.pipeline.decision import Decision, reconsider
from advisor.report import table as words
from advisor.report.document import RunDocument
from advisor.tui import text
from advisor.tui.documents import document_of
from advisor.tui.reasons import reasons_of
from advisor.tui.run.retry import failed_arms
from advisor.tui.screens.frame import Frame, TopLine
from advisor.tui.widgets.keys import Keys
from advisor.tui.widgets.plane import Plane
from advisor.tui.widgets.table import Column, OpeningTable, Table
from advisor.tui.widgets.weights import WeightBar, Weights

LETTERS = {3: "A", 2: "B", 1: "C"}
SHORT = {
    "performance": "Pf",
    "productivity": "Pd",
    "portability": "Pt",
    "input_flexibility": "If",
    "architecture_support": "As",
}
Key = Callable[[ScoredArm, Measurement], float]
#: What the table can be sorted by: its heading, and the figure; smaller comes first.
SORTS: dict[str, Key] = {
    "score": lambda arm, _: arm.rank,
    "speed": lambda arm, _: -arm.speedup,
    "ttft": lambda _, measured: _or_last(_first(measured, "ttft_seconds")),
    "itl": lambda _, measured: _or_last(_first(measured, "itl_seconds")),
    "build": lambda _, measured: measured.build_seconds.cold,
    "memory": lambda _, measured: _or_last(measured.memory_bytes.peak),
}
#: Figures that only generated text has.
FLOW = {"ttft", "itl"}


class Results(Frame):
    """The results of one run."""

    HELP_TEXT = """\
The first line is the answer, the second says how sure it is. Move a weight and the ranking
answers at once; the marks on the bars stand where the answer changes. * marks weights other
than the run's; u takes them back. x shows what is not in the ranking, and why. Of generated
text, TTFT and ITL are the milliseconds until the first token and between tokens, at the first batch size."""
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "detail", "Open", id="detail"),
        Binding("w", "weights", "Weights", id="weights", tooltip="move to the weights, and back"),
        Binding("o", "sort", "Sort", id="sort", tooltip="sort by score, speed, build time, memory"),
        Binding(
            "x", "excluded", "Why not", id="excluded", tooltip="what is not in the ranking, and why"
        ),
        Binding("e", "export", "Export", id="export"),
        Binding(
            "c",
            "compare",
            "Compare",
            id="compare",
            tooltip="compare with another run of the history",
        ),
        Binding(
            "u", "undo", "Undo", id="undo", tooltip="back to the run's own weights", show=False
        ),
        Binding("r", "resume", "Resume", id="resume", tooltip="go on with a run that stopped"),
        Binding(
            "f",
            "retry",
            "Retry failed",
            id="retry",
            tooltip="measure what failed once more, as a run of its own",
        ),
        Binding("n", "app.ask_anew", "New", id="new", tooltip="new questions", show=False),
        Binding("H", "app.history", "History", id="history", show=False),
        Binding(
            "y",
            "copy",
            "Copy",
            id="copy",
            tooltip="copy the command that shows this run",
            show=False,
        ),
        Binding("escape", "app.ask_anew", "Back", id="back", show=False),
        Binding("q", "app.leave", "Quit", id="quit"),
    ]

    def __init__(self, decision: Decision) -> None:
        super().__init__()
        self.original = self.decision = decision
        self._sort = "score"

    def compose(self) -> ComposeResult:
        """Make the answer, the table, the bars and the panes for wide terminals."""
        yield TopLine()
        yield Static("", id="answer", markup=False)
        with Vertical(id="middle"):
            yield OpeningTable(id="ranking")
            with Horizontal(id="panes"):
                with VerticalScroll(id="side", can_focus=False):
                    yield Static("", id="reasons", markup=False)
                yield Plane()
        with VerticalScroll(id="excluded"):
            yield Static("", id="why-not", markup=False)
        with Vertical(id="sliders"):
            yield Weights(self.original.header.question.priorities)
        yield self.compose_too_small()
        yield Keys()

    def on_mount(self) -> None:
        """Show the answer."""
        self.query_one(Table).focus()
        self.draw()

    def on_resize(self, event: events.Resize) -> None:
        """Lay the table out for the width."""
        super().on_resize(event)
        self.call_after_refresh(self._draw_table)

    @property
    def is_explored(self) -> bool:
        """Whether the weights are others than the run's."""
        return self.decision.header.question.priorities != self.original.header.question.priorities

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:  # noqa: ARG002 - Textual's interface
        """Show only the keys that do something here."""
        if action == "retry":
            return self.original.state.finished and bool(failed_arms(self.original))
        return action != "resume" or not self.original.state.finished

    def draw(self) -> None:
        """Show the decision."""
        document = document_of(self.decision)
        asked = self.decision.header.question
        run = self.decision.header.run_id
        stopped = "" if self.decision.state.finished else " stopped early "
        what = "  generate" if asked.task == "generate" else ""
        top = Text(
            f"Results  {text.plain(asked.model.name, 30)}{what}  {asked.device}  {asked.dtype}"
        )
        self.query_one(TopLine).tell(
            top, f"{stopped}{run[-11:]}{' *' if self.is_explored else ''} "
        )
        self._draw_answer(document)
        self._draw_table()
        advice = self.decision.recommendation
        self.query_one(Weights).set_flips(advice.flips if advice else ())
        self.query_one("#reasons", Static).update(reasons_of(document))
        ranked = [(str(arm.rank), self._measured(arm)) for arm in self.decision.scored]
        self.query_one(Plane).show(
            [(mark, entry.build_seconds.cold, entry.speedup.value) for mark, entry in ranked]
        )
        left_out = [text.plain(line, 600) for line in words.left_out(document)]
        self.query_one("#why-not", Static).update(
            Text("\n".join(left_out) or "Everything that was planned is in the ranking.")
        )
        self.refresh_bindings()

    def _draw_answer(self, document: RunDocument) -> None:
        headline = Text(text.plain(words.headline(document), 300), "bold")
        if self.is_explored:
            headline = Text("* with these weights: ", "bold") + headline
        sure, *flips = words.honesty(document) or [""]
        nearest = (
            flips[0]
            if flips
            else ""
            if self.decision.recommendation is None
            else "No weight of the three changes the answer."
        )
        self.query_one("#answer", Static).update(
            headline + Text(f"\n{text.plain(sure, 300)}\n{text.plain(nearest, 300)}")
        )

    def _measured(self, arm: ScoredArm) -> Measurement:
        return next(entry for entry in self.decision.results.measurements if entry.arm == arm.arm)

    def _draw_table(self) -> None:
        if not self.is_mounted:
            return
        table = self.query_one(Table)
        sizes = (
            [cell.batch_size for cell in self.decision.results.measurements[0].cells]
            if self.decision.results.measurements
            else []
        )
        room = self.size.width
        figures = self._columns(sizes, room)
        name = max(room - 2 - sum(column.width + 2 for column in figures) - 6, 14)
        name = min(name, 60)
        table.lay_out(
            [Column("rank", "#", 2, figures=True), Column("arm", "Workflow", name), *figures]
        )
        ordered = sorted(
            self.decision.scored,
            key=lambda arm: (SORTS[self._sort](arm, self._measured(arm)), arm.rank),
        )
        rows = {arm.arm: self._row(arm, name) for arm in ordered}
        best = self.decision.recommendation.arm if self.decision.recommendation else None
        table.fill(
            rows,
            {arm.arm: "bold" if arm.arm == best else "dim" if arm.fails else "" for arm in ordered},
        )

    def _columns(self, sizes: list[int], room: int) -> list[Column]:
        arrow = "\N{BLACK DOWN-POINTING TRIANGLE}"
        heads = {
            name: heading + (arrow if self._sort == name else "")
            for name, heading in self._headings().items()
        }
        generates = self.decision.header.question.task == "generate"
        columns = [Column("speed", heads["speed"], 6, figures=True)]
        unit = "tok/s" if generates else "ms"
        shown = [
            Column(f"call-{size}", f"{unit}@{size}", max(len(f"{unit}@{size}"), 5), figures=True)
            for size in sizes
        ]
        columns += shown[: 1 if room < 92 else 2 if generates and room < 140 else 4]  # noqa: PLR2004 - breakpoints
        if generates and room >= 72:  # noqa: PLR2004 - a breakpoint
            columns += [
                Column("ttft", heads["ttft"], 7, figures=True),
                Column("itl", heads["itl"], 6, figures=True),
            ]
        if room >= (92 if generates else 72):
            columns.append(Column("build", heads["build"], 7, figures=True))
        if room >= 92:  # noqa: PLR2004 - a breakpoint
            columns.append(Column("memory", heads["memory"], 5, figures=True))
        further = room >= 92  # noqa: PLR2004 - a breakpoint
        columns += [
            Column(name, SHORT[name], 2)
            for name in SHORT
            if further or name not in {"input_flexibility", "architecture_support"}
        ]
        return [*columns, Column("score", heads["score"], 6, figures=True)]

    def _headings(self) -> dict[str, str]:
        return {
            "speed": "Speed",
            "ttft": "TTFT",
            "itl": "ITL",
            "build": "Build s",
            "memory": "MiB",
            "score": "Score",
        }

    def _row(self, arm: ScoredArm, width: int) -> dict[str, str]:
        measured = self._measured(arm)
        peak = measured.memory_bytes.peak_mebibytes
        return {
            "rank": f"{arm.rank}{'!' if arm.fails else ''}",
            "arm": text.squeeze(text.plain(arm.arm), width),
            "speed": text.times(arm.speedup),
            **{f"call-{cell.batch_size}": _call(cell) for cell in measured.cells},
            "ttft": text.milliseconds(_first(measured, "ttft_seconds")),
            "itl": text.milliseconds(_first(measured, "itl_seconds")),
            "build": f"{measured.build_seconds.cold:.1f}",
            "memory": str(peak) if peak is not None else text.DASH,
            **{name: LETTERS[rating.tier] for name, rating in arm.ratings.items()},
            "score": f"{arm.score:.2f}",
        }

    def on_weights_changed(self, event: Weights.Changed) -> None:
        """Decide again with the weights as they are now."""
        event.stop()
        self.decision = reconsider(
            self.original, event.priorities, self.original.header.question.constraints
        )
        self.draw()

    def action_undo(self) -> None:
        """Take the run's own weights."""
        self.decision = self.original
        self.query_one(Weights).set_priorities(self.original.header.question.priorities)
        self.draw()

    def action_weights(self) -> None:
        """Move to the bars, or back to the table."""
        is_there = isinstance(self.focused, WeightBar)
        self.query_one("#ranking" if is_there else "#weight-performance").focus()

    def action_sort(self) -> None:
        """Sort by the next figure."""
        generates = self.decision.header.question.task == "generate"
        names = [name for name in SORTS if generates or name not in FLOW]
        self._sort = names[(names.index(self._sort) + 1) % len(names)]
        self.draw()

    def on_data_table_header_selected(self, event: DataTable.HeaderSelected) -> None:
        """Sort by the column that was clicked."""
        event.stop()
        if event.column_key.value in SORTS:
            self._sort = str(event.column_key.value)
            self.draw()

    def action_excluded(self) -> None:
        """Show what is not in the ranking, or the ranking."""
        self.toggle_class("-excluded")
        self.query_one("#excluded" if self.has_class("-excluded") else "#ranking").focus()

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        """Show everything about the arm."""
        event.stop()
        self.action_detail()

    def action_detail(self) -> None:
        """Show everything about the arm under the cursor."""
        from advisor.tui.screens.detail import Detail  # noqa: PLC0415 - only when asked for

        key = self.query_one(Table).key_at_cursor()
        if key is not None:
            self.app.push_screen(
                Detail(
                    self.decision,
                    key,
                    self.advisor.runs.session.follower.run if self.advisor.runs.session else None,
                )
            )

    def action_resume(self) -> None:
        """Go on with a run that stopped."""
        if self.advisor.runs.session is not None:
            self.advisor.runs.resume(str(self.advisor.runs.session.follower.run.directory))

    def action_retry(self) -> None:
        """Measure what failed once more."""
        self.advisor.runs.retry_failed(self.original)

    def action_copy(self) -> None:
        """Copy the command that shows this run."""
        command = f"p3-advisor show {self.decision.header.run_id}"
        self.app.copy_to_clipboard(command)
        self.notify(f"copied: {command}", markup=False)

    def action_compare(self) -> None:
        """Choose a run to compare with."""
        from advisor.tui.screens.history import History  # noqa: PLC0415 - only when asked for

        self.app.push_screen(History(marked=self.decision.header.run_id))

    def action_export(self) -> None:
        """Write the document."""
        self.advisor.runs.export(
            document_of(self.decision), self.decision.state, explored=self.is_explored
        )


def _call(cell: Cell) -> str:
    """Return how fast it is: tokens in a second for generated text, milliseconds of a call for everything else."""
    return (
        text.figure(cell.throughput.value)
        if cell.generation is not None
        else text.milliseconds(cell.seconds.median)
    )


def _first(measured: Measurement, name: Literal["ttft_seconds", "itl_seconds"]) -> float | None:
    """Return a figure of generated text at the first batch size."""
    generation = measured.cells[0].generation if measured.cells else None
    return getattr(generation, name) if generation is not None else None


def _or_last(figure: float | None) -> float:
    return float("inf") if figure is None else figure
