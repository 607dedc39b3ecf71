"""Open what is stored: runs and documents, to show or to resume them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from advisor.domain.run import Header
from advisor.errors import UserError
from advisor.pipeline.decision import decide
from advisor.pipeline.execution import check_resumable
from advisor.report.opening import is_file, read_answer
from advisor.store.runs import Run
from advisor.tui.answer import RunAnswer
from advisor.tui.run.session import RunSession

if TYPE_CHECKING:
    from advisor.tui.app import AdvisorApp


def open_stored(app: AdvisorApp, name: str) -> None:
    """Show the results of a stored run or document, or the progress of a run."""
    show = app.run_controller
    if is_file(name):
        catalogue = app.catalogue
        app.background.start(
            "results",
            lambda: RunAnswer.of_file(read_answer(name), catalogue),
            show.show_answer,
        )
    else:
        run = _find(app, name)
        if run is not None:
            _open_run(app, run)


def _open_run(app: AdvisorApp, run: Run) -> None:
    controller = app.run_controller
    session = controller.session
    if controller.owned_host is None or session is None:
        _start_session(app, run)
    elif session.follower.run.directory == run.directory and not session.is_finished:
        controller.show(session)
    elif not run.is_active():
        # The run that this program executes stays the current one.
        controller.show_decided(lambda: decide(run), run)
    else:
        controller.refuse_if_busy()


def _start_session(app: AdvisorApp, run: Run) -> None:
    controller = app.run_controller
    try:
        session = RunSession.for_run(run)
        session.refresh()
    except UserError as error:
        app.show_error(error)
        return
    if session.is_running:
        controller.show(session)
    else:
        controller.session = session
        controller.show_results()


def resume(app: AdvisorApp, name: str) -> None:
    """Resume a stopped run; show it if another process is working on it."""
    run = _find(app, name, check_resumable)
    if run is None:
        return
    if run.is_active():
        open_stored(app, name)
    elif not app.run_controller.refuse_if_busy():
        app.run_controller.run(run)


def _find(
    app: AdvisorApp, name: str, check: Callable[[Header], None] = lambda _: None
) -> Run | None:
    """Return the run, or None after showing why it cannot be read or does not pass `check`."""
    try:
        run = app.context.store.find(name)
        check(run.header())
        run.state()
    except UserError as error:
        app.show_error(error)
        return None
    return run
