"""Makes the environment of a workflow, and shows what uv says meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from asyncio.subprocess import DEVNULL, PIPE, STDOUT, Process
from collections.abc import Mapping, Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

from advisor.tui import text
from advisor.tui.run import logs
from advisor.tui.widgets.keys import Keys

#: Lines of what is said that are kept, and bytes that one may have.
LINES_KEPT, LONGEST_LINE_BYTES = 50, 1 << 20
OURS = "p3-advisor: "
GRACE_SECONDS = 3.0


class Making(ModalScreen[bool]):
    """Asks, then has `command` make the environment; hands back whether it is there now."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "make", "Make it"),
        Binding("escape,n", "back", "Not now"),
    ]

    def __init__(
        self, title: str, words: str, command: Sequence[str], variables: Mapping[str, str]
    ) -> None:
        super().__init__()
        self._title, self._words = title, words
        self._command, self._variables = command, variables
        self._process: Process | None = None
        self._said: list[str] = []
        self._has_failed = False

    def compose(self) -> ComposeResult:
        """Ask."""
        with Vertical(classes="dialog"):
            yield Static(
                f"Make an environment for {text.plain(self._title, 60)}?",
                markup=False,
                classes="lead",
            )
            yield Static(
                f"{self._words}\n\ny    make it; packages come from where pip or uv are told\nesc  not now",
                id="state",
                markup=False,
            )
            with VerticalScroll(id="said", can_focus=False):
                yield Static("", markup=False)
        yield Keys()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:  # noqa: ARG002 - Textual's interface
        """Make it once at a time."""
        return not (action == "make" and (self._process is not None or self._has_failed))

    def action_make(self) -> None:
        """Have it made."""
        self.run_worker(self._make(), exclusive=True)

    async def _make(self) -> None:
        begun = time.monotonic()
        self._process = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=DEVNULL,
            stdout=PIPE,
            stderr=STDOUT,
            env=dict(self._variables),
            start_new_session=True,
            limit=LONGEST_LINE_BYTES,
        )
        self._tell("Making it ...  esc stops it")
        self.query_one("#said", VerticalScroll).anchor()
        self.refresh_bindings()
        ticking = self.set_interval(
            1,
            lambda: self._tell(
                f"Making it, {time.monotonic() - begun:.0f} s so far.  esc stops it"
            ),
        )
        assert self._process.stdout is not None  # noqa: S101 - for the type checker: stdout=PIPE
        async for raw in self._process.stdout:
            line = logs.clean(raw.decode("utf-8", "replace").rstrip("\n")).removeprefix(OURS)
            self._said = [*self._said, line][-LINES_KEPT:]
            self.query_one("#said > Static", Static).update("\n".join(self._said))
        status = await self._process.wait()
        ticking.stop()
        self._process = None
        if status == 0:
            self.dismiss(True)  # noqa: FBT003 - the screen's value
            return
        self._has_failed = True
        self._tell("It was not made, and nothing of it was left behind.  esc closes")
        self.refresh_bindings()

    def _tell(self, words: str) -> None:
        self.query_one("#state", Static).update(words)

    def action_back(self) -> None:
        """Stop what is being made; close when there is nothing to stop."""
        if self._stop():
            self._tell("Stopping ...")
        else:
            self.dismiss(False)  # noqa: FBT003 - as above

    async def on_unmount(self) -> None:
        """Make nothing that nobody waits for."""
        if self._process is not None and self._stop():
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._process.communicate(), GRACE_SECONDS)

    def _stop(self) -> bool:
        """Interrupt the process, which takes back what it has begun; say whether there was one."""
        if self._process is None:
            return False
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGINT)
        return True
