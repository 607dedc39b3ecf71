"""Show the answer of one run, the ranking with intervals, and the panes that explain it."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.widgets import ContentSwitcher, DataTable, Static

from advisor.report import text_report
from advisor.tui.answer import RunAnswer
from advisor.tui.rendering import panes, text
from advisor.tui.rendering.answer_lines import answer_lines, render_lines
from advisor.tui.run.retry import failed_arms
from advisor.tui.screens.advisor_screen import AdvisorScreen, TitleBar
from advisor.tui.screens.results_table import (
    SORT_KEYS,
    WIDE_WIDTH,
    ranking_cells,
    ranking_columns,
    sort_entries,
    sort_names,
)
from advisor.tui.widgets.chart_view import ChartView
from advisor.tui.widgets.key_footer import KeyFooter
from advisor.tui.widgets.pane_bar import PaneBar
from advisor.tui.widgets.table import SelectableTable, Table
from advisor.tui.widgets.weights import Weights

#: Panes by id; their numbers are the keys that show them.
PANES = {
    "why": "Why",
    "weights": "Weights",
    "trust": "Trust",
    "next": "Next",
    "unmeasured": "Not measured",
    "charts": "Charts",
}
RANKING, CHARTS = "ranking", "charts"
#: Height of the terminal from which every line of the answer wraps.
TALL_HEIGHT = 30
TEXT_PANES = {
    "why": panes.render_why,
    "trust": panes.render_trust,
    "next": panes.render_next,
    "unmeasured": panes.render_unmeasured,
}


class RankingTable(SelectableTable):
    """The ranking."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "select_cursor", "Evidence", id="detail")
    ]


class ResultsScreen(AdvisorScreen):
    """The results of one run."""

    HELP_TEXT = """\
The first lines are the answer: what to use, how sure that is, what would change it, and what it
costs. Each row of the ranking has the 95 % interval of its speed-up on one axis, with eager PyTorch
at 1x. Letters grade the criteria: A is best, C lowest. tab, or a number, goes through the panes
below the ranking. Changing a weight ranks again at once; marks on the bars show where the answer
changes, and u restores the weights of the run. For generated text, TTFT is the time to the first
token and ITL the time between tokens, in milliseconds, at the first batch size."""
    TERMS = ("interval", "CLEAR, EITHER, OPEN", "trust", "flip", "grade", "weights", "arm")
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "detail", "Evidence", id="detail"),
        Binding("tab", "pane(1)", "Next pane", show=False, priority=True),
        Binding("shift+tab", "pane(-1)", "Previous pane", show=False, priority=True),
        *[
            Binding(str(number), f"show_pane('{pane}')", title, show=False)
            for number, (pane, title) in enumerate(PANES.items(), 1)
        ],
        Binding("r", "code", "Code", id="code", tooltip="the script that does what was measured"),
        Binding(
            "m",
            "measure_again",
            "Measure again",
            id="measure-again",
            tooltip="measure what is undecided for longer, in a new run",
        ),
        Binding("w", "weights", "Weights", id="weights", tooltip="to the weights, and back"),
        Binding("e", "export", "Export", id="export", tooltip="write a report to a file"),
        Binding(
            "c",
            "compare",
            "Compare",
            id="compare",
            tooltip="compare with another run",
        ),
        Binding(
            "v",
            "verify",
            "Verify",
            id="verify",
            tooltip="run the code again and check that it reaches the measured speed",
        ),
        Binding("o", "sort", "Sort", id="sort", tooltip="sort by score, speed, build time, memory"),
        Binding(
            "x",
            "show_pane('unmeasured')",
            "Not measured",
            id="excluded",
            show=False,
            tooltip="what is not in the ranking, and why",
        ),
        Binding(
            "u", "undo", "Undo", id="undo", tooltip="restore the weights of the run", show=False
        ),
        Binding(
            "ctrl+g",
            "resume",
            "Resume",
            id="resume",
            key_display="^g",
            tooltip="resume a stopped run",
        ),
        Binding(
            "f",
            "retry",
            "Retry failed",
            id="retry",
            tooltip="measure the failed arms again, in a new run",
        ),
        Binding("n", "app.new_question", "New", id="new", tooltip="a new question", show=False),
        Binding("H", "app.history", "History", id="history", show=False),
        Binding(
            "y",
            "copy",
            "Copy",
            id="copy",
            tooltip="copy the command that shows this run",
            show=False,
        ),
        Binding("escape", "app.home", "Home", id="back", show=False),
        Binding("q", "app.leave", "Quit", id="quit"),
    ]

    def __init__(self, answer: RunAnswer) -> None:
        super().__init__()
        #: The answer with the weights of the run, and with the weights of the bars.
        self.original = self.answer = answer
        self._sort = "score"

    def compose(self) -> ComposeResult:
        yield TitleBar()
        yield Static("", id="answer", markup=False)
        yield RankingTable(id=RANKING, gap=1)
        yield PaneBar(PANES, "why")
        with Horizontal(id="lower"):
            with ContentSwitcher(initial="why", id="panes"):
                yield from self._compose_panes()
            yield ChartView(self.original, id="side-chart")
        yield self.compose_too_small_notice()
        yield KeyFooter()

    def _compose_panes(self) -> ComposeResult:
        for pane in TEXT_PANES:
            with VerticalScroll(id=pane):
                yield Static("", id=f"text-{pane}", markup=False)
        with Vertical(id="weights"):
            yield Weights(self.original.priorities, id="bars", takes_digits=False)
            yield Static("", id="weights-note", markup=False)
        yield ChartView(self.original, id=CHARTS)

    def on_mount(self) -> None:
        self.query_one(Table).focus()
        self.draw()

    def on_resize(self, event: events.Resize) -> None:
        super().on_resize(event)
        self.call_after_refresh(self._draw_title)
        self.call_after_refresh(self._draw_answer)
        self.call_after_refresh(self._draw_table)

    @property
    def is_explored(self) -> bool:
        """Whether the weights differ from those of the run."""
        return self.answer.priorities != self.original.priorities

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:  # noqa: ARG002 - Textual's interface
        """Show only the keys that have an effect on this run."""
        document, decision = self.original.document, self.original.decision
        if action in {"code", "measure_again", "verify"}:
            return decision is not None and not document.imported
        if action == "retry":
            return decision is not None and document.finished and bool(failed_arms(decision))
        if action == "resume":
            return decision is not None and not (document.finished or document.imported)
        return True

    def draw(self) -> None:
        """Show the answer."""
        self._draw_title()
        self._draw_answer()
        self._draw_table()
        for pane, render in TEXT_PANES.items():
            self.query_one(f"#text-{pane}", Static).update(render(self.answer))
        self.query_one("#weights-note", Static).update(panes.describe_weights(self.answer))
        unmeasured = panes.count_unmeasured(self.answer)
        self.query_one(PaneBar).set_title("unmeasured", f"{PANES['unmeasured']} ({unmeasured})")
        advice = self.answer.recommendation
        self.query_one(Weights).set_flips(advice.flips if advice else ())
        self._draw_charts()
        self.refresh_bindings()

    def _draw_answer(self) -> None:
        lines = answer_lines(self.answer, is_explored=self.is_explored)
        is_short = self.size.height < TALL_HEIGHT
        self.query_one("#answer", Static).update(render_lines(lines, is_short=is_short))

    def _draw_charts(self) -> None:
        for chart in self.query(ChartView):
            chart.show(self.answer)

    def _draw_title(self) -> None:
        document = self.answer.document
        question = document.question
        sizes = ", ".join(map(str, question.batch_sizes))
        facts = [
            text.truncate_middle(
                text.printable(question.model.name), 30 if self.size.width >= WIDE_WIDTH else 16
            ),
            text.printable(text_report.device_name(document), 24),
            "generate text" if self.answer.is_generation else "",
            question.dtype,
            f"batch {sizes}",
        ]
        mark = " *" if self.is_explored else ""
        self.query_one(TitleBar).set_text(
            Text("Results  ", "bold") + Text(" \N{MIDDLE DOT} ".join(filter(None, facts))),
            f"{document.run_id[-11:]}{mark} ",
        )

    def _draw_table(self) -> None:
        if not self.is_mounted:
            return
        table = self.query_one(Table)
        columns = ranking_columns(self.answer, self.size.width, self._sort)
        table.set_columns(columns)
        by_key = {column.key: column for column in columns}
        entries = sort_entries(self.answer, self._sort)
        advice = self.answer.recommendation
        best = advice.arm if advice else None
        table.set_rows(
            {entry.arm: ranking_cells(self.answer, entry, by_key) for entry in entries},
            {
                entry.arm: "bold" if entry.arm == best else "dim" if entry.fails else ""
                for entry in entries
            },
        )

    def on_weights_changed(self, event: Weights.Changed) -> None:
        """Decide again with the changed weights."""
        event.stop()
        self.answer = self.original.with_priorities(event.priorities)
        self.draw()

    def action_undo(self) -> None:
        """Restore the weights of the run."""
        self.answer = self.original
        self.query_one(Weights).set_priorities(self.original.priorities)
        self.draw()

    # Panes

    @property
    def focused_pane(self) -> str:
        """The ranking or the pane that has the focus."""
        table = self.query_one(Table)
        return RANKING if self.focused in (table, None) else self.query_one(PaneBar).active

    def action_pane(self, steps: int) -> None:
        """Go to the next of ranking and panes, or with -1 to the previous one."""
        order = [RANKING, *PANES]
        self.action_show_pane(order[(order.index(self.focused_pane) + steps) % len(order)])

    def action_show_pane(self, pane: str) -> None:
        """Show a pane and move the focus there, or to the ranking."""
        if pane == RANKING:
            self.remove_class("-charts")
            self.query_one(Table).focus()
            return
        self.set_class(pane == CHARTS, "-charts")
        self.query_one(PaneBar).active = pane
        self.query_one(ContentSwitcher).current = pane
        self.query_one("#weight-performance" if pane == "weights" else f"#{pane}").focus()

    def on_pane_bar_selected(self, event: PaneBar.Selected) -> None:
        event.stop()
        self.action_show_pane(event.pane)

    def action_weights(self) -> None:
        """Move the focus to the bars, or back to the ranking."""
        self.action_show_pane(RANKING if self.focused_pane == "weights" else "weights")

    # Ranking

    def action_sort(self) -> None:
        """Switch to the next sort order."""
        names = sort_names(generates_text=self.answer.is_generation)
        self._sort = names[(names.index(self._sort) + 1) % len(names)]
        self.notify(f"sorted by {self._sort}", timeout=2, markup=False)
        self.draw()

    def on_data_table_header_selected(self, event: DataTable.HeaderSelected) -> None:
        """Sort by the column under the mouse."""
        event.stop()
        if event.column_key.value in SORT_KEYS:
            self._sort = str(event.column_key.value)
            self.draw()

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        event.stop()
        self.action_detail()

    def action_detail(self) -> None:
        """Show the details of the arm under the cursor."""
        from advisor.tui.screens.detail import DetailScreen  # noqa: PLC0415 - rarely used

        arm = self.query_one(Table).key_at_cursor()
        session = self.app_interface.run_controller.session
        if arm is not None:
            run = session.follower.run if session and self.original.decision is not None else None
            self.app.push_screen(DetailScreen(self.answer, arm, run))

    # Actions on the run

    def action_resume(self) -> None:
        """Resume a stopped run."""
        self.app_interface.run_controller.resume(self.original.document.run_id)

    def action_retry(self) -> None:
        """Measure the failed arms again, in a new run."""
        if self.original.decision is not None:
            self.app_interface.run_controller.retry_failed(self.original.decision)

    def _chosen_arm(self) -> str:
        """Return the arm under the cursor if the ranking has the focus, else the advised one."""
        advice = self.answer.recommendation
        at_cursor = self.query_one(Table).key_at_cursor() or ""
        return at_cursor if self.focused_pane == RANKING or advice is None else advice.arm

    def action_code(self) -> None:
        """Show the script of an arm."""
        self.app_interface.run_controller.show_code(self.original, self._chosen_arm())

    def action_verify(self) -> None:
        """Run the script of an arm and compare its speed."""
        self.app_interface.run_controller.verify(self.original, self._chosen_arm())

    def action_measure_again(self) -> None:
        """Measure what is undecided for longer, in a new run."""
        self.app_interface.run_controller.measure_again(self.original)

    def action_copy(self) -> None:
        """Copy the command that shows this run."""
        command = f"p3-advisor show {self.answer.document.run_id}"
        self.app.copy_to_clipboard(command)
        self.notify(f"copied: {command}", markup=False)

    def action_compare(self) -> None:
        """Choose a run to compare with."""
        from advisor.tui.screens.history import HistoryScreen  # noqa: PLC0415 - rarely used

        self.app.push_screen(HistoryScreen(marked=self.answer.document.run_id))

    def action_export(self) -> None:
        """Write the document to a file that the user names."""
        self.app_interface.run_controller.export(
            self.answer.document, self.answer.decision, explored=self.is_explored
        )
