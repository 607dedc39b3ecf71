"""Runs controlled from the screens: skipped arms, retries, resumed runs, and exports."""

from __future__ import annotations

import pathlib
from collections.abc import Callable

import psutil
import pytest
from onscreen import (
    async_test,
    running_app,
    wait_for,
    wait_for_screen,
    wait_for_text,
)
from recorded_runs import make_run
from sessions import expect_failure

from advisor.ask.answers import Answers
from advisor.context import Context
from advisor.decide.decision import decide
from advisor.domain.answer import encode
from advisor.domain.run_events import Finished, LoggedEvent, RaceOpened, Resumed
from advisor.execute.drafts import arms_to_retry, prepare
from advisor.report import recipe_text
from advisor.store.runs import Run
from advisor.store.store import Store
from advisor.tui.actions import render_answer
from advisor.tui.answer import RunAnswer
from advisor.tui.app import AdvisorApp
from advisor.tui.launch import LaunchOptions
from advisor.tui.screens.history import HistoryScreen
from advisor.tui.screens.live import LiveScreen
from advisor.tui.screens.results import ResultsScreen
from advisor.tui.session import HostProcess, RunSession
from advisor.tui.table import Table

pytestmark = pytest.mark.slow


class RecordedHost:
    """A fake host process that writes recorded events, one at each refresh."""

    def __init__(self, run: Run, events: list[LoggedEvent]) -> None:
        self._run, self._events = run, events

    @property
    def is_running(self) -> bool:
        return bool(self._events)

    def write_next(self) -> None:
        if not self._events:
            return
        with self._run.writer() as writer:
            writer.append(self._events.pop(0))


def test_a_run_resumed_after_any_event_ends_with_the_same_document(
    tmp_path: pathlib.Path,
) -> None:
    run = make_run(Store(tmp_path), finished=True)
    file = run.directory / "events.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    events, complete = run.events(), RunSession.for_run(run)
    complete.refresh()
    expected = encode(complete.decide())
    for kept in range(1, len(lines)):
        # The process was killed while it wrote the next event.
        file.write_bytes(b"".join(lines[:kept]) + lines[kept][:5])
        host = RecordedHost(run, events[kept:])
        session = RunSession.for_run(run, host)  # type: ignore[arg-type]
        while not session.is_finished:
            session.refresh()
            host.write_next()
        assert encode(session.decide()) == expected, kept


def sleep_processes() -> list[psutil.Process]:
    """Return the processes that the fake workflow `misbehaving/escapes` starts."""
    return [
        process
        for process in psutil.process_iter(["cmdline"])
        if process.info["cmdline"] == ["sleep", "3601"]
    ]


def is_under_cursor(table: Table, key: str) -> bool:
    """Move the cursor to the row, and return whether it is there."""
    table.move_cursor_to(key)
    return table.key_at_cursor() == key


@async_test
async def test_a_hanging_arm_can_be_skipped_and_retried_and_leaves_no_process(
    tui_context: Context, fake_host: Callable[[Run], HostProcess]
) -> None:
    arm = "misbehaving/escapes"
    answers = Answers(gpu="cpu", workflows=arm, batch_sizes="1", budget="1", all_arms=True)
    app = AdvisorApp(LaunchOptions(answers=answers), tui_context, start_host=fake_host)
    async with running_app(app) as pilot:
        await pilot.press("ctrl+r")
        live = await wait_for_screen(pilot, LiveScreen)
        await pilot.press("s")
        await wait_for_text(pilot, "cannot be skipped")
        await wait_for(pilot, sleep_processes)
        # The process may be there before its row is.
        await wait_for(pilot, lambda: is_under_cursor(live.query_one(Table), arm))
        await pilot.press("s")
        results = await wait_for_screen(pilot, ResultsScreen)
        assert sleep_processes() == []
        stored = results.original.run
        assert stored is not None
        outcome = stored.state().processes[arm][0].outcome
        failure = expect_failure(outcome, "skipped")
        assert (failure.phase, failure.skip_cause) == ("build", "user")
        assert arms_to_retry(results.original.document) == (arm,)
        await pilot.press("x")
        await wait_for_text(pilot, f"{arm}: skipped")
        await pilot.press("f")
        await wait_for_screen(pilot, LiveScreen)
        session = app.run_controller.session
        assert session is not None
        assert session.follower.header.question.workflows == (arm,)
        await wait_for(pilot, sleep_processes)
        await pilot.press("q", "c")
        await wait_for(pilot, lambda: app.return_value is not None)
    assert app.return_value == 130
    run = session.follower.run
    assert run.directory.name in app.exit_message()
    assert "--open" not in app.exit_message()
    assert not run.is_active()
    assert psutil.wait_procs(sleep_processes(), 30)[1] == []


@async_test
async def test_a_run_whose_host_process_was_killed_is_resumed_from_the_history(
    tui_context: Context, fake_host: Callable[[Run], HostProcess]
) -> None:
    run = prepare(
        Answers(gpu="cpu", batch_sizes="1", budget="1", all_arms=True, workflows="quick"),
        tui_context,
    )
    host = fake_host(run)
    app = AdvisorApp(LaunchOptions(), tui_context, start_host=fake_host)
    async with running_app(app) as pilot:
        await wait_for(
            pilot, lambda: any(isinstance(each.run_event, RaceOpened) for each in run.events())
        )
        host._process.kill()
        host.terminate()
        events_before = len(run.events())
        app.action_history()
        history = await wait_for_screen(pilot, HistoryScreen)
        history.query_one(Table).move_cursor_to(run.directory.name)
        await pilot.press("r")
        results = await wait_for_screen(pilot, ResultsScreen)
        assert results.answer.document.recommendation is not None
    events = run.events()
    assert isinstance(events[-1].run_event, Finished)
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert any(isinstance(event.run_event, Resumed) for event in events[events_before:])


@pytest.mark.parametrize(
    ("extension", "content"),
    [
        (".html", "<!doctype html>"),
        (".md", "## use compiled"),
        (".csv", "compiled,"),
        (".json", '"compiled"'),
    ],
)
def test_the_extension_selects_the_format_of_an_export(
    extension: str, content: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recipe_text, "render_recommended", lambda *_: "print('the script')")
    run = make_run(Store(tmp_path), finished=True)
    answer = RunAnswer(decide(run), run.header().catalogue, run)
    written = render_answer(answer, extension).lower()
    assert content in written
    assert ("the script" in written) == (extension == ".html")


@async_test
async def test_leaving_a_run_that_goes_on_says_how_to_come_back(
    tui_context: Context, fake_host: Callable[[Run], HostProcess]
) -> None:
    answers = Answers(
        gpu="cpu", workflows="misbehaving/escapes", batch_sizes="1", budget="1", all_arms=True
    )
    app = AdvisorApp(LaunchOptions(answers=answers), tui_context, start_host=fake_host)
    async with running_app(app) as pilot:
        await pilot.press("ctrl+r")
        await wait_for_screen(pilot, LiveScreen)
        session = app.run_controller.session
        assert session is not None
        await wait_for(pilot, sleep_processes)
        await pilot.press("q", "k")
        await wait_for(pilot, lambda: app.return_value == 0)
    run = session.follower.run
    assert run.directory.name in app.exit_message()
    assert "--open" in app.exit_message()
    assert run.is_active()
    assert session.host is not None
    session.host.terminate()
    assert psutil.wait_procs(sleep_processes(), 30)[1] == []
