"""Show the recommendation, its reliability, the ranking, and the weights that can be changed."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.widgets import DataTable, Static

from advisor.pipeline.decision import Decision, rescore
from advisor.report import text_report
from advisor.report.document import RunDocument
from advisor.report.measured_document import compose as compose_document
from advisor.tui.rendering import text
from advisor.tui.rendering.arm_detail import find_measurement
from advisor.tui.rendering.reasons import render_reasons
from advisor.tui.run.retry import failed_arms
from advisor.tui.screens.advisor_screen import AdvisorScreen, TitleBar
from advisor.tui.screens.results_table import (
    SORT_KEYS,
    ranking_cells,
    ranking_columns,
    sort_arms,
    sort_names,
)
from advisor.tui.widgets.key_footer import KeyFooter
from advisor.tui.widgets.scatter_plot import ScatterPlot
from advisor.tui.widgets.table import SelectableTable, Table
from advisor.tui.widgets.weights import WeightBar, Weights


class ResultsScreen(AdvisorScreen):
    """The results of one run."""

    HELP_TEXT = """\
The first line is the recommendation, the second its reliability. Changing a weight updates the
ranking at once; marks on the bars show where the recommendation changes. * marks results with
changed weights; u restores the weights of the run. x shows what is not in the ranking, and why. For
generated text, TTFT is the time to the first token and ITL the time between tokens, in
milliseconds, at the first batch size."""
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
            "u", "undo", "Undo", id="undo", tooltip="restore the weights of the run", show=False
        ),
        Binding("r", "resume", "Resume", id="resume", tooltip="resume a stopped run"),
        Binding(
            "f",
            "retry",
            "Retry failed",
            id="retry",
            tooltip="measure the failed arms again, in a new run",
        ),
        Binding("n", "app.setup", "New", id="new", tooltip="a new question", show=False),
        Binding("H", "app.history", "History", id="history", show=False),
        Binding(
            "y",
            "copy",
            "Copy",
            id="copy",
            tooltip="copy the command that shows this run",
            show=False,
        ),
        Binding("escape", "app.setup", "Back", id="back", show=False),
        Binding("q", "app.leave", "Quit", id="quit"),
    ]

    def __init__(self, decision: Decision) -> None:
        super().__init__()
        #: The decision with the weights of the run, and with the weights of the bars.
        self.original = self.decision = decision
        self._sort = "score"

    def compose(self) -> ComposeResult:
        yield TitleBar()
        yield Static("", id="answer", markup=False)
        with Vertical(id="ranking-pane"):
            yield SelectableTable(id="ranking")
            with Horizontal(id="tall-panes"):
                with VerticalScroll(id="reasons-pane", can_focus=False):
                    yield Static("", id="reasons", markup=False)
                yield ScatterPlot()
        with VerticalScroll(id="excluded"):
            yield Static("", id="why-not", markup=False)
        with Vertical(id="weights-pane"):
            yield Weights(self.original.header.question.priorities)
        yield self.compose_too_small_notice()
        yield KeyFooter()

    def on_mount(self) -> None:
        self.query_one(Table).focus()
        self.draw()

    def on_resize(self, event: events.Resize) -> None:
        super().on_resize(event)
        self.call_after_refresh(self._draw_table)

    @property
    def is_explored(self) -> bool:
        """Whether the weights differ from those of the run."""
        return self.decision.header.question.priorities != self.original.header.question.priorities

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:  # noqa: ARG002 - Textual's interface
        """Show only the keys that have an effect on this run."""
        if action == "retry":
            return self.original.state.finished and bool(failed_arms(self.original))
        return action != "resume" or not self.original.state.finished

    def draw(self) -> None:
        """Show the decision."""
        document = compose_document(self.decision)
        self._draw_title()
        self._draw_answer(document)
        self._draw_table()
        advice = self.decision.recommendation
        self.query_one(Weights).set_flips(advice.flips if advice else ())
        self.query_one("#reasons", Static).update(render_reasons(document))
        points = []
        for arm in self.decision.scored:
            measured = find_measurement(self.decision, arm.arm)
            points.append((str(arm.rank), measured.build_seconds.cold, measured.speedup.value))
        self.query_one(ScatterPlot).show(points)
        unranked = [text.printable(line, 600) for line in text_report.unranked(document)]
        self.query_one("#why-not", Static).update(
            Text("\n".join(unranked) or "Every planned arm is in the ranking.")
        )
        self.refresh_bindings()

    def _draw_title(self) -> None:
        question = self.decision.header.question
        task = "  generate" if question.task == "generate" else ""
        title = Text(
            f"Results  {text.printable(question.model.name, 30)}{task}"
            f"  {question.device}  {question.dtype}"
        )
        stopped = "" if self.decision.state.finished else " stopped early "
        mark = " *" if self.is_explored else ""
        run_id = self.decision.header.run_id
        self.query_one(TitleBar).set_text(title, f"{stopped}{run_id[-11:]}{mark} ")

    def _draw_answer(self, document: RunDocument) -> None:
        headline = Text(text.printable(text_report.headline(document), 300), "bold")
        if self.is_explored:
            headline = Text("* with these weights: ", "bold") + headline
        lines = text_report.confidence(document)
        advice = self.decision.recommendation
        if advice is not None and not advice.flips:
            lines.append("No weight of the three pillars changes the recommendation.")
        shown = "".join(f"\n{text.printable(line, 300)}" for line in [*lines, "", ""][:3])
        self.query_one("#answer", Static).update(headline + Text(shown))

    def _draw_table(self) -> None:
        if not self.is_mounted:
            return
        table = self.query_one(Table)
        columns = ranking_columns(self.decision, self.size.width, self._sort)
        arm_width = next(column.width for column in columns if column.key == "arm")
        table.set_columns(columns)
        arms = sort_arms(self.decision, self._sort)
        advice = self.decision.recommendation
        best = advice.arm if advice else None
        table.set_rows(
            {
                arm.arm: ranking_cells(arm, find_measurement(self.decision, arm.arm), arm_width)
                for arm in arms
            },
            {arm.arm: "bold" if arm.arm == best else "dim" if arm.fails else "" for arm in arms},
        )

    def on_weights_changed(self, event: Weights.Changed) -> None:
        """Decide again with the changed weights."""
        event.stop()
        self.decision = rescore(
            self.original, event.priorities, self.original.header.question.constraints
        )
        self.draw()

    def action_undo(self) -> None:
        """Restore the weights of the run."""
        self.decision = self.original
        self.query_one(Weights).set_priorities(self.original.header.question.priorities)
        self.draw()

    def action_weights(self) -> None:
        """Move the focus to the bars, or back to the table."""
        is_on_bar = isinstance(self.focused, WeightBar)
        self.query_one("#ranking" if is_on_bar else "#weight-performance").focus()

    def action_sort(self) -> None:
        """Switch to the next sort order."""
        names = sort_names(generates_text=self.decision.header.question.task == "generate")
        self._sort = names[(names.index(self._sort) + 1) % len(names)]
        self.draw()

    def on_data_table_header_selected(self, event: DataTable.HeaderSelected) -> None:
        """Sort by the column under the mouse."""
        event.stop()
        if event.column_key.value in SORT_KEYS:
            self._sort = str(event.column_key.value)
            self.draw()

    def action_excluded(self) -> None:
        """Show the arms and workflows that are not in the ranking, or the ranking."""
        self.toggle_class("-excluded")
        self.query_one("#excluded" if self.has_class("-excluded") else "#ranking").focus()

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        event.stop()
        self.action_detail()

    def action_detail(self) -> None:
        """Show the details of the arm under the cursor."""
        from advisor.tui.screens.detail import DetailScreen  # noqa: PLC0415 - rarely used

        arm = self.query_one(Table).key_at_cursor()
        session = self.app_interface.run_controller.session
        if arm is not None:
            run = session.follower.run if session else None
            self.app.push_screen(DetailScreen(self.decision, arm, run))

    def action_resume(self) -> None:
        """Resume a stopped run."""
        controller = self.app_interface.run_controller
        if controller.session is not None:
            controller.resume(str(controller.session.follower.run.directory))

    def action_retry(self) -> None:
        """Measure the failed arms again, in a new run."""
        self.app_interface.run_controller.retry_failed(self.original)

    def action_copy(self) -> None:
        """Copy the command that shows this run."""
        command = f"p3-advisor show {self.decision.header.run_id}"
        self.app.copy_to_clipboard(command)
        self.notify(f"copied: {command}", markup=False)

    def action_compare(self) -> None:
        """Choose a run to compare with."""
        from advisor.tui.screens.history import HistoryScreen  # noqa: PLC0415 - rarely used

        self.app.push_screen(HistoryScreen(marked=self.decision.header.run_id))

    def action_export(self) -> None:
        """Write the document to a file that the user names."""
        self.app_interface.run_controller.export(
            compose_document(self.decision), self.decision, explored=self.is_explored
        )
