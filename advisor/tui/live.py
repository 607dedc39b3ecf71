"""Show a run in progress: its processes, the logs of the stacks, and a provisional ranking."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from rich.console import Group
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical, VerticalScroll
from textual.widgets import RichLog, Static

from advisor.decide.load_blocks import levels_of, valid_blocks
from advisor.domain.answer import AdvisedAnswer, Answer, RankedArm
from advisor.domain.plan import REFERENCE
from advisor.domain.question import LoadQuestion
from advisor.domain.run_state import RunState
from advisor.domain.serving import RateLevel
from advisor.domain.text import format_milliseconds, format_number, format_share, write_speedup
from advisor.report.advice_lines import describe_disturbances
from advisor.report.formatting import plain_table, table_rows
from advisor.report.headline import first_line
from advisor.report.other_arms import describe_equals, describe_small_gain
from advisor.tui import live_table, panels
from advisor.tui.advisor_screen import AdvisorScreen
from advisor.tui.answer_panes import describe_question
from advisor.tui.dialogs import yes_or_no
from advisor.tui.followed_run import NOT_CONTROLLED_MESSAGE, FollowedRun
from advisor.tui.table import Table
from advisor.tui.widgets import bind

#: Cells of the time in front of what was done.
TIMELINE_HANG = 7
#: Seconds without an event after which the screen shows how long ago the last one was.
SILENCE_SECONDS = 60.0


class LiveScreen(AdvisorScreen):
    HELP_TEXT = """\
Each row is one process. Arms are compiled, checked and warmed up, then timed in rounds of random
order, a few calls at a time. From the second round on, a row shows the 95 % interval of its
speed-up, with eager PyTorch at 1x; the second process of the baseline shows the noise. For
generated text, TTFT is the time to the first token and ITL the time between tokens, in
milliseconds. A pause begins when the current timed section or build has ended. Cancelling keeps the
measurements. Below the table is what was built, timed, repeated or left out, and why, with the time
of the run; l shows instead what the process under the cursor has written, or the reference before
it has written anything. At its end either follows."""
    TERMS = ("arm", "round", "duplicate", "noise floor", "speed-up", "interval", "cold build")
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("space", "pause", "Pause", "pause after the current timed section"),
        bind("x", "cancel", "Cancel", "end the run; its measurements are kept"),
        bind("x", "close", "Close", "show the results so far"),
        bind("s", "skip", "Skip", "end the process under the cursor, after a confirmation"),
        bind("l", "log", "Log", "show the output of the process under the cursor, or hide it"),
        bind("escape", "app.home", "Home", "the run continues; ctrl+g shows it again"),
    ]

    def compose_body(self) -> ComposeResult:
        yield Static("", id="stage", markup=False)
        yield Table(id="arms")
        with Vertical(id="lower"):
            yield Static("", id="leader", markup=False)
            yield RichLog(id="timeline", max_lines=2000, wrap=True, min_width=0)
            with VerticalScroll(id="log"):
                yield Static(id="log-text", markup=False)

    def on_mount(self) -> None:
        self._drawn_lines, self._has_stopped = 0, False
        self._leader, self._shown_log = Text(), ""
        self.query_one(RichLog).anchor()
        self.query_one(VerticalScroll).anchor()
        self.query_one(Table).focus()
        self.draw()

    def refusal_of(self, action: str) -> str:
        possible = dict.fromkeys(("pause", "skip", "cancel"), not self._has_stopped)
        possible["close"] = self._has_stopped
        return "" if possible.get(action, True) else NOT_CONTROLLED_MESSAGE

    def draw(self) -> None:
        followed = self.app.run_controller.followed
        # A closed screen has no widgets, but a drawing may still be scheduled.
        if followed is None or not self.query(Table):
            return
        if self._has_stopped == followed.is_running:
            self._has_stopped = not followed.is_running
            self.refresh_bindings()
        active_arm = followed.active_arm if followed.is_running else None
        rows = live_table.process_rows(
            followed.state, followed.header.question, active_arm, followed.skipped
        )
        self._draw_title(followed)
        self._draw_stage(followed, rows)
        self._draw_table(followed, rows)
        self._draw_leader(followed, active_arm)
        self._draw_logs(followed)

    def _draw_title(self, followed: FollowedRun) -> None:
        question, run_id = followed.header.question, followed.run.directory.name
        state = "paused" if followed.is_paused else ""
        facts = describe_question(question, followed.header.device_name, self.size.width)
        title = Text.assemble(("Live  ", "bold"), panels.model_name(question.model.name, 24))
        self.set_title(title, f"{facts}  {state} {run_id[-4:]}")

    def _draw_stage(self, followed: FollowedRun, rows: list[live_table.ProcessRow]) -> None:
        stage = live_table.current_stage(
            followed.state, followed.header.question, rows, is_running=followed.is_running
        )
        now = followed.now()
        times = f"{panels.format_clock(now)} elapsed"
        left = live_table.remaining_seconds(followed.state, followed.header.question, now)
        if left is not None and followed.is_running and not followed.is_paused:
            shown = panels.format_clock(abs(left))
            times += f", {shown} left" if left >= 0 else f", over its limit by {shown}"
        # A line that wraps would hide the note, and the end of a title is missed least.
        line = Text.assemble(times, "   ", (stage, "bold"), no_wrap=True, overflow="ellipsis")
        self.set_class(self._has_stopped, "-stopped")
        note = self._stage_note(followed, is_late=left is not None and left < 0)
        self.query_one("#stage", Static).update(Group(line, note), layout=self._has_stopped)

    def _stage_note(self, followed: FollowedRun, *, is_late: bool) -> Text:
        if followed.is_pause_requested:
            return Text("Pausing after this section ...", "bold")
        if not followed.is_running and not followed.is_finished:
            error = followed.runner.failure_reason() if followed.runner is not None else ""
            reason = panels.printable(error or "the run has stopped", 300)
            x = "shows the results so far" if followed.state.has_raced else "closes it"
            return Text(f"{reason}  (x {x})", "bold")
        if wait := live_table.describe_wait(followed.state, followed.now()):
            return Text(wait, "dim")
        silence = followed.now() - followed.state.at
        if silence > SILENCE_SECONDS and not followed.is_finished:
            arm = panels.printable(followed.active_arm or "the run", 40)
            quiet = panels.format_clock(silence)
            return Text(f"{arm}: nothing new for {quiet}; a build may take minutes", "dim")
        if is_late and followed.is_running:
            return Text("What was begun within the limit, and the last checks, end first", "dim")
        return Text()

    def _draw_table(self, followed: FollowedRun, rows: list[live_table.ProcessRow]) -> None:
        """Show the processes, with their present figures at the shape that was raced last."""
        answer = followed.provisional
        baseline = answer.baseline if answer else None
        shape = baseline.cells[-1].shape if baseline and baseline.cells else None
        known = answer.results.cells if answer else ()
        cells = {arm: cell for arm, cell in known if cell.shape == shape}
        fit = answer is None or not answer.results.is_unfit
        now, entered = followed.now(), followed.phase_entered_at
        is_text = followed.header.question.task == "generate"
        self.query_one(Table).fill(
            live_table.process_columns(shape, generates_text=is_text),
            {
                row.arm: live_table.process_cells(
                    row, cells.get(row.arm), now - entered.get(row.arm, 0.0), fit=fit
                )
                for row in rows
            },
            {row.arm: row.style for row in rows},
        )

    def _draw_leader(self, followed: FollowedRun, active_arm: str | None) -> None:
        """Show the answer so far, or the load, if it changed: that lays out the whole screen."""
        load = followed.header.question.load
        if load is None:
            answer, stopped = followed.provisional, self._has_stopped
            lines = describe_leader(answer, followed.leader, has_stopped=stopped)
        else:
            lines = describe_load(followed.state, load, active_arm)
        if lines != self._leader:
            self._leader = lines
            self.query_one("#leader", Static).update(lines)

    def _draw_logs(self, followed: FollowedRun) -> None:
        timeline = self.query_one(RichLog)
        # A hidden widget has no width, so its lines wait until it is shown.
        if timeline.is_on_screen and (done := followed.timeline[self._drawn_lines :]):
            self._drawn_lines = len(followed.timeline)
            width = timeline.scrollable_content_region.width - 1
            lines = [part for line in done for part in panels.wrap(line, width, TIMELINE_HANG)]
            timeline.write(Text("\n".join(lines)), expand=True)
        if self.has_class("-log"):
            arm = self.query_one(Table).key_at_cursor() or REFERENCE
            shown = panels.read_log(followed.run, followed.state, arm)
            shown = shown or panels.read_log(followed.run, followed.state, REFERENCE)
            text = "\n".join(shown or ["The stack has written nothing so far."])
            if text != self._shown_log:
                self._shown_log = text
                self.query_one("#log-text", Static).update(text)

    def action_pause(self) -> None:
        self.app.run_controller.toggle_pause()
        self.draw()

    def action_cancel(self) -> None:
        self.app.run_controller.ask_to_cancel()

    def action_close(self) -> None:
        self.app.run_controller.show_results()

    def action_skip(self) -> None:
        arm = self.query_one(Table).key_at_cursor()
        followed = self.app.run_controller.followed
        if arm is None or followed is None:
            return

        def skip() -> None:
            followed.skip(arm)
            self.notify(f"{arm} is skipped as soon as its present step ends")
            self.draw()

        if refusal := followed.why_not_skipped(arm):
            self.notify(refusal)
        else:
            shown = panels.printable(arm, 60)
            question = f"Skip {shown}?  This run does not measure it any further."
            self.app.confirm(yes_or_no(question, "Skip it", "Continue", keys="y,s"), skip)

    def action_log(self) -> None:
        self.toggle_class("-log")
        self.draw()

    on_data_table_row_highlighted = draw


def describe_leader(
    answer: Answer | None, leader: RankedArm | None, *, has_stopped: bool = False
) -> Text:
    """Return the answer that the run would have now, and what makes it unsure.

    `leader` is the arm to show, the advised one or one that is about as good.
    """
    if answer is None or not answer.scores:
        why = ": the run stopped" if has_stopped else ""
        return Text(f"No answer{why} before the second round.", "dim")
    advice = answer.recommendation
    if leader is None or (advice is None and not answer.has_unfit_problem):
        return Text(panels.printable(first_line(answer)))
    decision = advice.decision if advice else None
    word = decision.word if decision else "OPEN"
    unfit = answer.results.is_unfit or decision is None
    if leader.arm == answer.results.baseline:
        speed = "the baseline"
    else:
        speed = write_speedup(leader.speedup, unfit=unfit, interval=True, in_words=True)
    line = Text.assemble(
        ("So far (provisional): ", "dim"),
        (f"{word} " if word else "", "bold"),
        (panels.printable(leader.arm, 60), "bold"),
        f"  {speed}",
    )
    decided = AdvisedAnswer.of(answer)
    equals = describe_equals(decided, leader.arm) if decided else ""
    gain = describe_small_gain(decided) if decided and decided.advised.arm == leader.arm else ""
    told = [panels.printable(each, 300) for each in (gain, equals) if each]
    doubts = [*told, *describe_disturbances(answer.results)[:1]]
    return line + Text(f"\n{'; '.join(doubts)}" if doubts else "", "dim")


#: Place of the 95th percentile in the figures of a level.
P95 = 1


def describe_load(state: RunState, load: LoadQuestion, active_arm: str | None) -> Text:
    """Return a line for each rate of the server under load, or of the one that was last."""
    measured = [
        arm
        for arm, processes in state.processes.items()
        if any(process.load_blocks for process in processes)
    ]
    if not measured:
        return Text("No block of requests has ended yet.", "dim")
    arm = active_arm if active_arm in measured else measured[-1]
    columns: list[tuple[str, Callable[[RateLevel], str]]] = [
        ("requests/s", lambda level: format_number(level.rate)),
        ("in limits", lambda level: format_share(level.met)),
        ("TTFT p95, ms", lambda level: _milliseconds(level.ttft_seconds)),
        ("ITL p95, ms", lambda level: _milliseconds(level.itl_seconds)),
    ]
    levels = levels_of(valid_blocks(state.processes[arm]), load, None)
    head, *lines = plain_table(table_rows(columns, levels), ())
    title = Text(f"{panels.printable(arm, 44)}: {load.limits}", "bold")
    return Text("\n").join([title, Text(head, "dim"), *map(Text, lines)])


def _milliseconds(percentiles: Sequence[float] | None) -> str:
    return format_milliseconds(percentiles[P95] if percentiles else None)
