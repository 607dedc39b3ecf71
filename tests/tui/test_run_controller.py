"""Runs controlled from the screens: skipped arms, retries and resumed runs."""

from __future__ import annotations

import contextlib
import os
import time

import builders
import built_answers
import psutil
import pytest
from onscreen import asking_app, running_app, showing
from recorded_runs import make_run
from sessions import expect_failure, short_options
from textual.widgets import RichLog

from advisor.ask.context import Context
from advisor.decide.unmeasured import arms_to_retry
from advisor.domain.errors import ModelRefusedError
from advisor.execute import execution
from advisor.tui import live_table, run_controller
from advisor.tui.app import AdvisorApp
from advisor.tui.dialogs import ChoiceDialog
from advisor.tui.followed_run import FollowedRun, StartRunner
from advisor.tui.home import HomeScreen
from advisor.tui.launch import LaunchOptions
from advisor.tui.live import LiveScreen
from advisor.tui.results import ResultsScreen
from advisor.tui.setup import SetupScreen
from advisor.tui.table import Table

pytestmark = pytest.mark.slow


def sleep_processes() -> list[psutil.Process]:
    """Return the processes of this test that the fake workflow `misbehaving/escapes` starts."""
    own = psutil.Process().children(recursive=True)
    found = psutil.process_iter(["cmdline"])
    return [each for each in found if each in own and each.info["cmdline"] == ["sleep", "3601"]]


def is_under_cursor(table: Table, key: str) -> bool:
    """Move the cursor to the row, and return whether it is there."""
    table.move_cursor_to(key)
    return table.key_at_cursor() == key


async def test_a_hanging_arm_can_be_skipped_and_retried_and_leaves_no_process(
    tui_context: Context, fake_runner: StartRunner
) -> None:
    arm = "misbehaving/escapes"
    app = asking_app(tui_context, fake_runner, short_options(arm))
    async with running_app(app) as pilot:
        live = await pilot.start_run()
        await pilot.until_text("cannot be skipped", "s")
        await pilot.wait_for(sleep_processes)
        escaped = sleep_processes()
        await pilot.wait_for(lambda: is_under_cursor(live.query_one(Table), arm))
        await pilot.reach(LiveScreen, "s", "escape")
        assert psutil.wait_procs(escaped, 1)[1], "it is skipped only after the answer"
        results = await pilot.reach(ResultsScreen, "s", "y")
        assert psutil.wait_procs(escaped, 30)[1] == []
        stored = builders.known(results.original.run)
        outcome = stored.state().processes[arm][0].outcome
        failure = expect_failure(outcome, "skipped")
        assert (failure.phase, failure.skip_cause) == ("build", "user")
        assert failure.reason.startswith("by the user"), "the status says that it was skipped"
        assert arms_to_retry(results.original.answer) == (arm,)
        assert "failed" not in results.active_bindings["f"].binding.description, "it was skipped"
        await pilot.until_text(f"{arm}: skipped", "5")
        await pilot.start_run("f")
        followed = builders.known(app.run_controller.followed)
        assert followed.header.question.workflows == (arm,)
        await pilot.wait_for(sleep_processes)
        escaped = sleep_processes()
        await pilot.until(lambda: app.return_value is not None, "q", "c")
    assert app.return_value == 130
    run = followed.run
    assert run.directory.name in app.exit_message()
    assert "--open" not in app.exit_message()
    assert not run.is_active()
    assert psutil.wait_procs(escaped, 30)[1] == []


async def test_leaving_a_run_that_goes_on_says_how_to_come_back(
    tui_context: Context, fake_runner: StartRunner
) -> None:
    app = asking_app(tui_context, fake_runner, short_options("misbehaving/escapes"))
    async with running_app(app) as pilot:
        await pilot.start_run()
        followed = builders.known(app.run_controller.followed)
        await pilot.wait_for(sleep_processes)
        escaped = sleep_processes()
        await pilot.reach(ChoiceDialog, "q")
        await pilot.reach(LiveScreen, "escape")
        await pilot.until(lambda: app.return_value == 0, "q", "k")
    run = followed.run
    assert run.directory.name in app.exit_message()
    assert "--open" in app.exit_message()
    assert run.is_active()
    builders.known(followed.runner).terminate()
    assert psutil.wait_procs(escaped, 30)[1] == []


async def test_after_a_refused_model_the_question_is_asked_again_with_the_reason(
    app: AdvisorApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(execution, "drop_refused", lambda *_: True)
    refused = ModelRefusedError("no model", "mend it")
    answer = built_answers.without_advice(built_answers.answer(), refused)
    monkeypatch.setattr(run_controller, "answer_from_state", lambda *_: answer)
    async with running_app(app) as pilot:
        app.run_controller.show(FollowedRun(make_run(app.context.store, finished=False)))
        app.run_controller.show_results()
        await pilot.wait_for_text("next: mend it")
        await pilot.wait_for_screen(SetupScreen)
    assert app.exit_message() == ""


async def test_no_run_starts_beside_one_of_another_program(app: AdvisorApp) -> None:
    other = make_run(app.context.store, finished=False)
    async with showing(HomeScreen, app) as (pilot, _):
        with other.writer():
            await pilot.until_text("a run is in progress", "ctrl+r")
            await pilot.settle()
            assert isinstance(app.screen, HomeScreen), "it asks nothing"


async def test_a_run_tells_that_it_is_over_its_limit_and_then_how_it_is_closed(
    context: Context,
) -> None:
    limited = builders.replace(builders.question().budget, seconds={"forward": 20.0})
    question = builders.question(budget=limited)
    run = make_run(context.store, finished=False, question=question)
    os.utime(run.directory / "events.jsonl", (time.time() - 10,) * 2)
    app = AdvisorApp(LaunchOptions(open=run.directory.name), context)
    with contextlib.ExitStack() as writing:
        writing.enter_context(run.writer())
        async with showing(LiveScreen, app) as (pilot, live):
            await pilot.wait_for_text("over its limit by 0")
            await pilot.wait_for_text("within the limit")
            assert "cancel" in pilot.key_hints()
            builders.known(app.run_controller.followed).skipped.add("compiled")
            live.draw()
            await pilot.wait_for_text("skipping")
            await pilot.until_text("The stack has written nothing so far.", "l")
            await pilot.press("l")
            writing.close()
            await pilot.wait_for(lambda: "close" in pilot.key_hints())
            assert "cancel" not in pilot.key_hints()
            await pilot.wait_for_text("So far")
            builders.known(app.run_controller.followed).provisional = None
            live.draw()
            await pilot.wait_for_text("No answer: the run stopped")
            await pilot.reach(ResultsScreen, "x")


async def test_a_long_stage_hides_no_time_and_a_scroll_bar_nothing_of_the_timeline(
    app: AdvisorApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_table, "current_stage", lambda *_, **__: "long " * 40)
    async with running_app(app) as pilot:
        app.run_controller.show(FollowedRun(make_run(app.context.store, finished=False)))
        timeline = (await pilot.wait_for_screen(LiveScreen)).query_one(RichLog)
        width = timeline.scrollable_content_region.width
        timeline.write("line\n" * 50)
        await pilot.wait_for(lambda: timeline.show_vertical_scrollbar)
        assert timeline.scrollable_content_region.width == width
        assert "elapsed" in pilot.text()


async def test_the_timeline_has_what_the_run_did_while_the_log_was_shown(app: AdvisorApp) -> None:
    followed = FollowedRun(make_run(app.context.store, finished=False))
    followed.timeline += [f"before {number}" for number in range(50)]
    async with running_app(app) as pilot:
        app.run_controller.show(followed)
        screen = await pilot.wait_for_screen(LiveScreen)
        timeline = screen.query_one(RichLog)
        await pilot.wait_for(lambda: timeline.scroll_offset.y == timeline.max_scroll_y > 0)
        await pilot.until(lambda: not timeline.is_on_screen, "l")
        followed.timeline += [f"event {number}" for number in range(5)]
        screen.draw()
        await pilot.until(lambda: timeline.is_on_screen, "l")
        screen.draw()
        assert [line.text.strip() for line in timeline.lines[-5:]] == followed.timeline[-5:]
