"""The key footer, background tasks, and crash reports."""

from __future__ import annotations

import datetime as dt
import pathlib
import threading
import uuid

import pytest
from onscreen import (
    async_test,
    replay_app,
    running_app,
    wait_for,
    wait_for_screen,
)
from textual.widgets import Input
from textual.widgets._footer import FooterKey

from advisor.context import Context
from advisor.errors import SizeError, UserError
from advisor.store.runs import Run
from advisor.store.store import Store
from advisor.system import HOME_VARIABLE
from advisor.tui import launch
from advisor.tui.app import AdvisorApp
from advisor.tui.dialogs import LineDialog
from advisor.tui.launch import BackgroundTasks, LaunchOptions
from advisor.tui.screens.results import DetailScreen, ResultsScreen
from advisor.tui.widgets import HELP, MORE, hide_excess_hints

HINTS = [
    ("help", "?", "Help"),
    ("leave_out", "space", "Leave out"),
    ("next", "\N{RETURN SYMBOL}", "Next"),
    ("sort", "o", "Sort"),
    ("back", "esc", "Back"),
    ("app.leave", "q", "Quit"),
]


@pytest.mark.parametrize(
    ("width", "shown"),
    [
        (80, [0, 1, 2, 3, 4, 5]),
        (54, [0, 1, 2, 3, 4, 5]),
        (50, [0, 1, 2, 4, 5]),
        (24, [0, 4, 5]),
        (1, [0, 4, 5]),
    ],
)
def test_the_footer_shows_help_and_the_exits_and_the_others_as_they_fit(
    width: int, shown: list[int]
) -> None:
    hints = [FooterKey(key, key, label, action) for action, key, label in HINTS]
    hide_excess_hints(hints, width)
    assert [index for index, hint in enumerate(hints) if hint.display] == shown
    assert hints[0].description == (HELP if len(shown) == len(hints) else MORE)


@async_test
async def test_a_report_can_be_exported_with_the_mouse_alone(
    tui_context: Context, sample_run: Run, tmp_path: pathlib.Path
) -> None:
    async def click(label: str) -> None:
        (hint,) = (hint for hint in pilot.app.screen.query(FooterKey) if hint.description == label)
        assert await pilot.click(hint)

    async with running_app(replay_app(tui_context, sample_run), (100, 30)) as pilot:
        results = await wait_for_screen(pilot, ResultsScreen)
        await pilot.press("2")
        bar = results.query_one("#weight-performance")
        assert await pilot.click(bar, offset=(90, 0))
        await wait_for(pilot, lambda: results.is_explored)
        await click("Export")
        dialog = await wait_for_screen(pilot, LineDialog)
        file = tmp_path / "clicked.json"
        dialog.query_one(Input).value = str(file)
        await click("Save")
        await wait_for(pilot, file.exists)
        await wait_for_screen(pilot, ResultsScreen)
        await click("Evidence")
        await wait_for_screen(pilot, DetailScreen)


def test_a_background_task_supersedes_earlier_tasks_of_its_kind() -> None:
    delivered, gate, called = list[object](), threading.Event(), threading.Event()

    def call_in_app(function: object, value: object) -> None:
        function(value)  # type: ignore[operator]
        called.set()

    def fail() -> int:
        raise SizeError("no", "yes")

    background = BackgroundTasks(call_in_app, delivered.append)
    background.start("rank", lambda: gate.wait(10) and "old", delivered.append)
    background.start("rank", lambda: "new", delivered.append)
    assert called.wait(10)
    called.clear()
    gate.set()
    assert called.wait(10)
    assert delivered == ["new"]
    called.clear()
    background.start("other", fail, delivered.append)
    assert called.wait(10)
    assert isinstance(delivered[-1], UserError)


def test_a_crash_report_has_no_values_of_variables(tmp_path: pathlib.Path) -> None:
    def fail(secret: str) -> None:
        raise KeyError(len(secret))

    password = uuid.uuid4().hex
    with pytest.raises(KeyError) as raised:
        fail(password)
    context = Context(
        environment={HOME_VARIABLE: str(tmp_path)},
        store=Store(tmp_path),
        now=lambda: dt.datetime(2026, 11, 21, 12, tzinfo=dt.timezone.utc),
    )
    error = launch.write_crash_report(raised.value, context)
    written = (tmp_path / "crash-20261121-120000.txt").read_text()
    assert "KeyError" in error.what
    assert str(tmp_path) in error.what
    assert "test_a_crash_report" in written
    assert password not in written


def test_an_exception_in_a_thread_ends_the_app_and_leaves_a_crash_report(
    tui_context: Context,
) -> None:
    @async_test
    async def run() -> None:
        app = AdvisorApp(LaunchOptions(), tui_context)
        async with running_app(app) as pilot:
            app.background.start("defect", lambda: 1 / 0, print)
            await wait_for(pilot, lambda: app.defect is not None)

    with pytest.raises(ZeroDivisionError):
        run()
    (report,) = pathlib.Path(tui_context.environment["P3_ADVISOR_HOME"]).glob("crash-*.txt")
    assert "ZeroDivisionError" in report.read_text()
