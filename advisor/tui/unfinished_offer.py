"""Offer to show or resume the newest unfinished run."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from textual.app import App

from advisor.tui.interfaces import AppInterface

if TYPE_CHECKING:
    from advisor.tui.run.unfinished import UnfinishedRun


class UnfinishedOffer:
    """Looks for the run each time, because runs of this program may be stopped too."""

    def __init__(self, app: App[int], show: Callable[[UnfinishedRun | None], object]) -> None:
        """`show` offers a run that was found; with None it removes the offer."""
        self._app, self._show = app, show
        self._app_interface = cast("AppInterface", app)

    def refresh(self) -> None:
        """Look for an unfinished run and offer it, unless the title bar shows one in progress."""
        self._find(lambda run: self._show(None if self._app_interface.run_status() else run))

    def accept(self) -> None:
        """Show or resume the newest unfinished run."""
        self._find(self._go_on)

    def _find(self, on_result: Callable[[UnfinishedRun | None], object]) -> None:
        from advisor.tui.run.unfinished import find_unfinished_run  # noqa: PLC0415 - speeds up the start

        store = self._app_interface.context.store
        self._app_interface.background.start(
            "unfinished", lambda: find_unfinished_run(store), on_result
        )

    def _go_on(self, run: UnfinishedRun | None) -> None:
        if run is None:
            self._app.notify("no run is in progress, and none was stopped", markup=False)
        else:
            self._app_interface.run_opener.resume(run.run_id)
