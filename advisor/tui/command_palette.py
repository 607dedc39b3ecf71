"""List the commands that the palette offers in addition to Textual's own."""

from __future__ import annotations

from collections.abc import Iterable

from textual.app import SystemCommand

from advisor.tui.interfaces import AppInterface


def available_commands(app: AppInterface) -> Iterable[SystemCommand]:
    """Yield the commands that are possible now, titled `group: action`."""
    yield SystemCommand("go: Questions", "ask a new question; a run continues", app.action_setup)
    yield SystemCommand("go: History", "the stored runs", app.action_history)
    yield SystemCommand(
        "go: Fleet",
        "the answers of the newest fleet, for each model and kind of device",
        app.action_fleet,
    )
    yield SystemCommand("go: Doctor", "check this machine for problems", app.action_doctor)
    yield SystemCommand("run: Start", "measure with the current answers", app.start_run)
    controller = app.run_controller
    if controller.owned_host is not None:
        yield SystemCommand(
            "run: Cancel", "end the run; its measurements are kept", controller.ask_to_cancel
        )
        yield SystemCommand(
            "run: Pause or continue", "after the current timed section", controller.toggle_pause
        )
