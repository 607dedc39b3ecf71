"""The command palette, and the commands that it offers in addition to Textual's own."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from textual.app import SystemCommand
from textual.command import CommandPalette
from textual.message import Message
from textual.widgets import Input, OptionList

if TYPE_CHECKING:
    from advisor.tui.app import AdvisorApp


class Palette(CommandPalette):
    """A palette that closes and calls its command once, however often enter is pressed."""

    async def _dispatch_message(self, message: Message) -> None:
        is_choice = isinstance(message, Input.Submitted | OptionList.OptionSelected)
        if self.is_current or not is_choice:
            await super()._dispatch_message(message)


def available_commands(app: AdvisorApp) -> Iterable[SystemCommand]:
    """Yield the commands that are possible now, titled `group: action`."""
    yield SystemCommand("go: Home", "this machine and the last runs", app.action_home)
    yield SystemCommand(
        "go: Questions", "ask a new question; a run continues", app.action_new_question
    )
    yield SystemCommand("go: History", "the stored runs", app.action_history)
    yield SystemCommand(
        "go: Fleet",
        "the answers of the newest fleet, for each model and kind of device",
        app.action_fleet,
    )
    yield SystemCommand("go: Doctor", "check this machine for problems", app.action_doctor)
    yield SystemCommand("run: Start", "measure with the current answers", app.action_start_now)
    controller = app.run_controller
    if controller.session is not None and controller.session.is_controlled:
        yield SystemCommand("run: Show", "the run that is going on", app.action_go_on)
        yield SystemCommand(
            "run: Cancel", "end the run; its measurements are kept", controller.ask_to_cancel
        )
        yield SystemCommand(
            "run: Pause or continue", "after the current timed section", controller.toggle_pause
        )
