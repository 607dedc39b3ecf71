"""A run while it goes on: what each arm does, what the stacks print, and who leads so far."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import RichLog, Static

from advisor.domain.plan import REFERENCE
from advisor.domain.question import Question
from advisor.pipeline.decision import Decision
from advisor.tui import text
from advisor.tui.run import device_load, progress
from advisor.tui.run.logs import LogTail
from advisor.tui.run.session import Session
from advisor.tui.screens.frame import Frame, TopLine
from advisor.tui.widgets.keys import Keys
from advisor.tui.widgets.table import Column, Table

STYLES = {
    progress.DONE: "",
    progress.WORKING: "bold",
    progress.WAITING: "dim",
    progress.FAILED: "red",
}
#: Seconds without news after which it is said.
SILENCE_SECONDS = 10.0
#: Seconds between two looks at the device.
DEVICE_SECONDS = 3.0
#: What is known of a call; of generated text, tokens in a second, and milliseconds until the first
#: token and between tokens.
CALL = [Column("ms", "ms", 6, figures=True)]
FLOW = [
    Column("tokens", "tok/s", 6, figures=True),
    Column("ttft", "TTFT", 6, figures=True),
    Column("itl", "ITL", 6, figures=True),
]


class Log(RichLog):
    """What the stacks print."""

    HELP = "What the process that works now prints. f keeps it at its end, l gives it more room; arrows scroll."


class Live(Frame):
    """The dashboard of one run."""

    HELP_TEXT = """\
Each row is one process. All are compiled first, one after the other, then visited in random
order, a few calls at a time. Of generated text, TTFT and ITL are the milliseconds until the
first token and between tokens. Ratios are provisional until the run is done. A pause begins
when the current timed section or build has ended. Cancelling keeps what was measured."""
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "space", "pause", "Pause", id="pause", tooltip="pause after the current timed section"
        ),
        Binding(
            "x", "cancel", "Cancel", id="cancel", tooltip="end the run; what was measured is kept"
        ),
        Binding("s", "skip", "Skip", id="skip", tooltip="do without the process under the cursor"),
        Binding("l", "log", "Log", id="log", tooltip="show more of what the stack prints"),
        Binding("f", "follow", "Follow", id="follow", tooltip="keep the log at its end, or not"),
        Binding(
            "escape",
            "app.pop_screen",
            "Back",
            id="back",
            tooltip="to the questions; the run goes on",
        ),
        Binding("q", "app.leave", "Quit", id="quit"),
    ]

    def compose(self) -> ComposeResult:
        """Make the lines, the table and the log."""
        yield TopLine()
        yield Static("", id="stage", markup=False)
        yield Table(id="arms")
        with Vertical(id="lower"):
            yield Static("", id="leading", markup=False)
            yield Static("", id="device", markup=False)
            yield Log(
                id="log",
                max_lines=2000,
                wrap=False,
                markup=False,
                highlight=False,
                auto_scroll=True,
            )
        yield self.compose_too_small()
        yield Keys()

    def on_mount(self) -> None:
        """Begin with what is known."""
        self._log = LogTail()
        self._shown_reasons: set[str] = set()
        self.query_one(Table).focus()
        self.set_interval(DEVICE_SECONDS, self._look_at_device)
        self._look_at_device()
        self.draw()

    def _look_at_device(self) -> None:
        session = self.advisor.runs.session
        if session is None or session.is_replay or not session.is_alive:
            return
        uuid = session.follower.header.question.gpu

        self.advisor.background.do(
            "device",
            lambda: device_load.describe_gpu(uuid) if uuid else device_load.describe_processor(),
            self.tell_device,
        )

    def on_resize(self, event: events.Resize) -> None:
        """Lay the table out for the width."""
        super().on_resize(event)
        self.call_after_refresh(self.draw)

    def draw(self) -> None:
        """Show the run as it is now."""
        session = self.advisor.runs.session
        if session is None or not self.is_mounted:
            return
        follower = session.follower
        state, asked = follower.state, follower.header.question
        rows = progress.rows_of(state, asked, follower.active if session.is_alive else None)
        stage = progress.stage_of(state, asked, rows, running=session.is_alive)
        decision = session.provisional
        self._draw_top(session, stage)
        ratios = (
            {entry.arm: entry.speedup for entry in decision.results.measurements}
            if decision
            else {}
        )
        table = self.query_one(Table)
        arm_width = self._arm_width(asked)
        table.lay_out(self._columns(asked, arm_width))
        shown = {}
        for row in rows:
            silent = follower.now() - follower.entered.get(row.arm, 0.0)
            is_open = row.glyph == progress.WORKING
            shown[row.arm] = {
                "state": row.glyph,
                "arm": text.squeeze(text.plain(row.arm), arm_width),
                "phase": row.phase,
                "progress": text.plain(row.reason, 200) if row.reason else row.progress,
                "ms": text.milliseconds(row.seconds),
                **_flow(row.flow),
                "ratio": text.times(ratios[row.arm].value) if row.arm in ratios else text.DASH,
                "time": text.duration(silent) if is_open else "",
            }
        table.fill(shown, {row.arm: STYLES[row.glyph] for row in rows})
        self._draw_leading(decision)
        self._draw_log(session)

    def _arm_width(self, asked: Question) -> int:
        width = self.size.width
        further = 0 if asked.task == "forward" or width < 80 else 9 if width < 100 else 16  # noqa: PLR2004 - breakpoints
        return max(min(width - 53 - further, 44), 16)

    def _columns(self, asked: Question, arm: int) -> list[Column]:
        width, generates = self.size.width, asked.task == "generate"
        figures = FLOW if generates and width >= 80 else FLOW[:1] if generates else CALL  # noqa: PLR2004 - a breakpoint
        further = (len(figures) - 1) * 8
        columns = [
            Column("state", "", 1),
            Column("arm", "Process", arm),
            Column("phase", "Phase", 11),
        ]
        columns += [
            Column("progress", "Progress", 9 if width < 100 else max(width - arm - 48 - further, 9))  # noqa: PLR2004 - a breakpoint
        ]
        columns += figures
        if width >= 70:  # noqa: PLR2004 - a breakpoint
            columns.append(Column("ratio", "so far", 6, figures=True))
        has_room = width >= (100 if generates else 80)
        return [*columns, Column("time", "Time", 5, figures=True)] if has_room else columns

    def _draw_top(self, session: Session, stage: progress.Stage) -> None:
        follower = session.follower
        asked = follower.header.question
        sizes = ",".join(map(str, asked.batch_sizes))
        what = "  generate" if asked.task == "generate" else ""
        line = Text(
            f"{text.plain(asked.model.name, 30)}{what}  {asked.device}  {asked.dtype}  batch {sizes}"
        )
        right = "replay" if session.is_replay else "paused" if session.is_paused else ""
        self.query_one(TopLine).tell(line, f"{right} {follower.run.directory.name[-11:]} ")
        words = Text(f"{stage.title}", "bold") + Text(
            f"   {stage.marks}   {text.duration(follower.now())} elapsed"
        )
        if session.is_pausing:
            words += Text("\nPausing after this section ...", "bold")
        elif stage.is_timing:
            words += Text("\nquiet: the display is drawn twice a second while timing", "dim")
        elif not session.is_alive and not follower.state.finished:
            words += Text(
                f"\n{text.plain(session.failure_reason() or 'the run has stopped', 300)}  (x shows what there is)",
                "bold",
            )
        else:
            quiet = follower.now() - follower.state.at
            words += Text(
                f"\nno news for {text.duration(quiet)}"
                if quiet > SILENCE_SECONDS and not follower.state.finished
                else "\n",
                "dim",
            )
        self.query_one("#stage", Static).update(words, layout=False)

    def _draw_leading(self, decision: Decision | None) -> None:
        notice = self.query_one("#leading", Static)
        if decision is None or not decision.scored:
            notice.update(
                Text("No ranking yet: it begins with the second round.", "dim"), layout=False
            )
            return
        first = decision.scored[0]
        noise = decision.results.noise_floor
        words = Text("Leads so far: ", "dim") + Text(text.plain(first.arm, 60), "bold")
        words += Text(f"  score {first.score:.2f} of 3, {text.times(first.speedup)}")
        words += Text(f"  noise floor {noise:.1%}" if noise is not None else "", "dim") + Text(
            "  provisional", "dim"
        )
        notice.update(words, layout=False)

    def tell_device(self, words: str) -> None:
        """Show how busy the device is."""
        if self.is_attached:
            self.query_one("#device", Static).update(Text(words, "dim"), layout=False)

    def _draw_log(self, session: Session) -> None:
        follower = session.follower
        arm = follower.active or REFERENCE
        process = len(follower.state.processes.get(arm, ())) - 1
        lines = self._log.read(follower.run.log_of(arm, max(process, 0)), arm)
        for failed in progress.rows_of(follower.state, follower.header.question, None):
            if failed.reason and failed.arm not in self._shown_reasons:
                self._shown_reasons.add(failed.arm)
                lines.append(f"{failed.arm}: {failed.phase}, {text.plain(failed.reason, 600)}")
        if lines:
            self.query_one(RichLog).write(Text("\n".join(lines)))

    def action_pause(self) -> None:
        """Pause, or go on."""
        self.advisor.runs.toggle_pause()
        self.draw()

    def action_cancel(self) -> None:
        """End the run, after asking."""
        self.advisor.runs.ask_to_cancel()

    def action_skip(self) -> None:
        """Do without the arm under the cursor."""
        arm, session = self.query_one(Table).key_at_cursor(), self.advisor.runs.session
        if arm is not None and session is not None:
            self.notify(session.skip(arm), markup=False)

    def action_log(self) -> None:
        """Give the log more room, or less."""
        self.toggle_class("-log")

    def action_follow(self) -> None:
        """Keep the log at its end, or let it stand."""
        log = self.query_one(RichLog)
        log.auto_scroll = not log.auto_scroll
        self.notify("the log follows" if log.auto_scroll else "the log stands still", markup=False)


def _flow(flow: progress.Flow | None) -> dict[str, str]:
    """Return the cells of generated text."""
    tokens, first, between = (
        (flow.tokens_per_second, flow.ttft_seconds, flow.itl_seconds)
        if flow
        else (None, None, None)
    )
    return {
        "tokens": text.figure(tokens),
        "ttft": text.milliseconds(first),
        "itl": text.milliseconds(between),
    }
