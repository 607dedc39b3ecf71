"""Run a command of the program after a confirmation, and show its output."""

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
from textual.widgets import Static

from advisor.tui.dialogs.questions import Dialog
from advisor.tui.rendering import text
from advisor.tui.run import logs
from advisor.tui.widgets.key_footer import KeyFooter

#: Limits of the output that is shown.
MAX_LINES, MAX_LINE_BYTES = 50, 1 << 20
PROGRAM_PREFIX = "p3-advisor: "
TERMINATION_SECONDS = 3.0


class CreateEnvDialog(Dialog[bool]):
    """Runs `command` after a confirmation; returns whether the environment was created."""

    #: Texts of the dialog; without a text for the success, the dialog closes.
    LEAD = "Create an environment for {title}?"
    CHOICES = (
        "y    create it; packages come from the package index that uv or pip use\nesc  not now"
    )
    RUNNING = "Creating it"
    FAILED = "It was not created, and its files were removed.  esc closes"
    SUCCEEDED = ""
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "create", "Create it"),
        Binding("escape,n", "back", "Not now"),
    ]

    def __init__(
        self,
        title: str,
        description: str,
        command: Sequence[str],
        environment_variables: Mapping[str, str],
    ) -> None:
        super().__init__()
        self._title, self._description = title, description
        self._command, self._environment_variables = command, environment_variables
        self._process: Process | None = None
        self._output: list[str] = []
        self.has_ended = False

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Static(
                self.LEAD.format(title=text.printable(self._title, 60)),
                markup=False,
                classes="lead",
            )
            yield Static(
                f"{self._description}\n\n{self.CHOICES}",
                id="state",
                markup=False,
            )
            with VerticalScroll(id="output", can_focus=False):
                yield Static("", markup=False)
        yield KeyFooter()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:  # noqa: ARG002 - Textual's interface
        """Allow one attempt."""
        return not (action == "create" and (self._process is not None or self.has_ended))

    def action_create(self) -> None:
        self.run_worker(self._create(), exclusive=True)

    async def _create(self) -> None:
        await self._start()
        started_at = time.monotonic()
        timer = self.set_interval(
            1,
            lambda: self._show_state(
                f"{self.RUNNING}, {time.monotonic() - started_at:.0f} s so far.  esc stops it"
            ),
        )
        status = await self._show_output()
        timer.stop()
        self._process = None
        if status == 0 and not self.SUCCEEDED:
            self.dismiss(True)  # noqa: FBT003 - the screen's result
            return
        self.has_ended = True
        self._show_state(self.SUCCEEDED if status == 0 else self.FAILED)
        self.refresh_bindings()

    async def _start(self) -> None:
        self._process = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=DEVNULL,
            stdout=PIPE,
            stderr=STDOUT,
            env=dict(self._environment_variables),
            start_new_session=True,
            limit=MAX_LINE_BYTES,
        )
        self._show_state(f"{self.RUNNING} ...  esc stops it")
        self.query_one("#output", VerticalScroll).anchor()
        self.refresh_bindings()

    async def _show_output(self) -> int:
        """Show the output of the process until it ends; return its exit code."""
        assert self._process is not None  # noqa: S101 - for the type checker
        assert self._process.stdout is not None  # noqa: S101 - for the type checker: stdout=PIPE
        async for raw in self._process.stdout:
            line = logs.clean_line(raw.decode("utf-8", "replace").rstrip("\n"))
            self._output = [*self._output, line.removeprefix(PROGRAM_PREFIX)][-MAX_LINES:]
            self.query_one("#output > Static", Static).update("\n".join(self._output))
        return await self._process.wait()

    def _show_state(self, state: str) -> None:
        self.query_one("#state", Static).update(state)

    def action_back(self) -> None:
        """Stop the process; close the dialog if none is running."""
        if self._stop():
            self._show_state("Stopping ...")
        else:
            self.dismiss(False)  # noqa: FBT003 - as above

    async def on_unmount(self) -> None:
        if self._process is not None and self._stop():
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._process.communicate(), TERMINATION_SECONDS)

    def _stop(self) -> bool:
        """Interrupt the process, which then removes what it has created.

        Return whether a process was running.
        """
        if self._process is None:
            return False
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGINT)
        return True


class VerifyDialog(CreateEnvDialog):
    """Runs `p3-advisor verify` after a confirmation and shows its output."""

    LEAD = "Run the code of {title} and check its outputs and its speed?"
    CHOICES = "y    run it; this takes the build and a few seconds\nesc  not now"
    RUNNING = "Running it"
    FAILED = "It does not do what was measured, or cannot be run; see below.  esc closes"
    SUCCEEDED = "Its outputs are right and it is as fast as measured.  esc closes"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "create", "Run it"),
        Binding("escape,n", "back", "Not now"),
    ]
