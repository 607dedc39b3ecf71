"""What the command palette offers beside Textual's own, as `verb: object`."""

from __future__ import annotations

from collections.abc import Iterable

from textual.app import SystemCommand

from advisor.tui.interfaces import Advisor


def offer(app: Advisor) -> Iterable[SystemCommand]:
    """Yield what can be done now."""
    yield SystemCommand("go: Questions", "ask anew; a run goes on", app.action_ask_anew)
    yield SystemCommand("go: History", "the stored runs", app.action_history)
    yield SystemCommand(
        "go: Fleet",
        "what the newest fleet has answered, for each model and kind of device",
        app.action_fleet,
    )
    yield SystemCommand("go: Doctor", "what is wrong with this machine", app.action_doctor)
    yield SystemCommand("run: Start", "probe with the answers so far", app.start_run)
    if app.runs.owned is not None:
        yield SystemCommand(
            "run: Cancel", "end the run; what was measured is kept", app.runs.ask_to_cancel
        )
        yield SystemCommand(
            "run: Pause or go on", "after the current timed section", app.runs.toggle_pause
        )
