"""Journeys through the screens, one for each way in which they have misled a user."""

from __future__ import annotations

import contextlib

import builders
import pytest
from built_answers import advice_of
from onscreen import asking_app, running_app, showing
from recorded_runs import make_run
from sessions import create_run
from textual.widgets import Input, Static

from advisor.ask.context import Context
from advisor.ask.devices import VISIBLE_DEVICES
from advisor.ask.run_options import RunOptions
from advisor.domain.run_events import Finished
from advisor.report.headline import first_line
from advisor.tui.app import AdvisorApp
from advisor.tui.dialogs import ChoiceDialog
from advisor.tui.followed_run import StartRunner
from advisor.tui.form import Choice
from advisor.tui.home import HomeScreen
from advisor.tui.launch import LaunchOptions
from advisor.tui.live import LiveScreen
from advisor.tui.plan_step import PlanStep
from advisor.tui.results import DetailScreen, ResultsScreen
from advisor.tui.setup import SetupScreen
from advisor.tui.table import Table
from advisor.tui.target_step import TargetStep


async def test_a_command_of_the_palette_runs_once_however_often_enter_is_pressed(
    app: AdvisorApp,
) -> None:
    async with showing(HomeScreen, app) as (pilot, _):
        await pilot.press("ctrl+p", *"quest")
        await pilot.settle()
        for _ in range(3):  # without waiting between the keys
            app.simulate_key("enter")
        await pilot.wait_for_screen(SetupScreen)
        assert [type(screen) for screen in app.screen_stack] == [HomeScreen, SetupScreen]


async def test_an_invalid_field_is_reported_as_it_is_left_and_keeps_the_question(
    context: Context,
) -> None:
    app = asking_app(context)
    async with running_app(app) as pilot:
        setup = await pilot.go_to_step(1)
        sizes = setup.query_one("#batch_sizes", Input)
        sizes.focus()
        await pilot.press("down")
        assert setup.focused is not sizes, "arrows leave a text field"
        await pilot.press("up")
        assert setup.focused is sizes
        for field, typed in (
            ("batch_sizes", "one"),
            ("python", "/nowhere/python"),
            ("absent_gpu", "Abacus 9000"),
            ("max_build_seconds", "-1"),
        ):
            value = setup.query_one(f"#{field}", Input)
            value.focus()
            value.value = typed
            await pilot.until(lambda: setup.query_one("#error").has_class("-shown"), "tab")
            assert "--" not in str(setup.query_one("#error").render())
            await pilot.press("ctrl+r")
            await pilot.settle()
            assert setup.step_index == 1
            value.value = ""
            value.focus()
            await pilot.until(lambda: not setup.query_one("#error").has_class("-shown"), "tab")
        app.notify("[/something] else", timeout=60)
        await pilot.wait_for_text("[/something] else")
        sizes.focus()
        sizes.value = "x"
        await pilot.until(lambda: setup.query_one("#error").has_class("-shown"), "enter")
        await pilot.wait_for(lambda: "[/something] else" not in pilot.text())


async def test_no_plan_of_earlier_answers_is_shown(context: Context) -> None:
    app = asking_app(context, workflows="quick", leave_out="pytorch-eager")
    async with running_app(app) as pilot:
        setup = await pilot.go_to_step(3)
        await pilot.wait_for_text("[x] quick")
        await pilot.wait_for_text(" -  alike")
        await pilot.until_text("leave out only other", "ctrl+r")
        await pilot.until_text("[x] pytorch-eager", "space")
        assert "leave out only other" not in await pilot.settle()
        await pilot.until_text("always measured", "space")
        await pilot.until_text("[ ] quick", "down", "space")
        await pilot.until_text("nothing to compare", "ctrl+r")
        await pilot.until(lambda: setup.step_index == 1, "escape", "escape")
        app.run_options = RunOptions(gpu="cpu", workflows="unknown-workflow")
        await pilot.go_to_step(3)
        await pilot.wait_for(lambda: setup.query_one("#error").has_class("-shown"))
        plan = setup.query_one(PlanStep)
        assert plan.query_one(Table).row_count == 0
        assert not {"leave_out", "select_cursor"} & pilot.key_hints(), "there is no plan to change"
        assert not plan.is_ready
        await pilot.press("enter")
        await pilot.settle()
        assert app.screen is setup


async def test_a_device_that_is_chosen_last_replaces_an_absent_gpu_and_the_default_one(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = builders.gpu_machine(builders.gpu(), builders.gpu(index=1, uuid="GPU-1"))
    monkeypatch.setattr(AdvisorApp, "_detect_machine", lambda _: machine)
    environment = {**context.environment, VISIBLE_DEVICES: "1"}
    context = builders.replace(context, environment=environment)
    async with running_app(asking_app(context, gpu="")) as pilot:
        setup = await pilot.go_to_step(1)
        await pilot.wait_for_text(machine.cpu.model)
        device = setup.query_one("#device", Choice)
        assert device.chosen == "1", "the one that CUDA sees"
        note = setup.query_one("#device-note", Static)
        assert "GiB" in str(note.render())
        device.set_values([("H100", "H100"), ("1", "1")], "H100")
        setup.query_one(TargetStep)._draw_device_note(machine)
        assert "not attached" in str(note.render())
        device.choose("1")
        absent = setup.query_one("#absent_gpu", Input)
        absent.value = "RTX 4090"
        device.focus()
        await pilot.press("right")
        await pilot.settle()
        assert absent.value == ""
        chosen = device.chosen
        await pilot.until(lambda: setup.step_index == 2, "enter")
        await pilot.until(lambda: setup.step_index == 1, "escape")
        assert (device.chosen, absent.value) == (chosen, "")


async def test_one_key_returns_to_a_run_and_another_resumes_it_after_it_was_cancelled(
    context: Context, fake_runner: StartRunner
) -> None:
    app = asking_app(context, fake_runner, workflows="quick", batch_sizes="1,2,3,4", budget="60s")
    async with running_app(app) as pilot:
        await pilot.start_run()
        followed = builders.known(app.run_controller.followed)
        await pilot.reach(HomeScreen, "escape")
        await pilot.wait_for_text("going on: ^g")
        await pilot.until_text("Which model", "n")
        await pilot.wait_for_text("going on: ^g")
        await pilot.reach(LiveScreen, "ctrl+g")
        await pilot.wait_for(lambda: followed.state.processes)
        await pilot.reach(ResultsScreen, "x", "y")
        await pilot.press("ctrl+g")
        assert app.run_controller.followed is followed, "a key that shows starts nothing"
        await pilot.start_run("r")
        assert app.run_controller.followed is not followed


async def test_a_run_of_another_instance_is_paused_continued_skipped_and_cancelled(
    app: AdvisorApp, fake_runner: StartRunner
) -> None:
    run_options = RunOptions(
        gpu="cpu", batch_sizes="1,2,3", budget="60s", workflows="quick,misbehaving/escapes"
    )
    run = create_run(app.context, run_options)
    runner = fake_runner(run, None)
    async with showing(HomeScreen, app) as (pilot, home):
        await pilot.wait_for_text("running")
        home.query_one(Table).move_cursor_to(run.directory.name)
        live = await pilot.reach(LiveScreen, "enter")
        followed = builders.known(app.run_controller.followed)
        assert followed.runner is None
        arm = "misbehaving/escapes"
        await pilot.wait_for(lambda: followed.state.processes.get(arm))
        await pilot.wait_for(lambda: followed.state.processes[arm][-1].imported is not None)
        live.query_one(Table).move_cursor_to(arm)
        await pilot.until(lambda: followed.state.processes[arm][-1].outcome is not None, "s", "y")
        followed.is_pause_requested = True
        await pilot.resize_terminal(60, 16)
        await pilot.wait_for_text("Pausing after")
        await pilot.resize_terminal(80, 24)
        followed.is_pause_requested = False
        await pilot.until(lambda: followed.is_paused, "space")
        followed.refresh()  # the events before the pause
        seq = followed.state.seq
        await pilot.pause(1)
        assert followed.state.seq <= seq + 1
        await pilot.press("escape")
        home.read_runs()
        await pilot.wait_for_text("paused")
        await pilot.reach(LiveScreen, "ctrl+g")
        await pilot.until(lambda: not followed.is_paused, "space")
        await pilot.reach(ResultsScreen, "x", "y")
        await pilot.wait_for(lambda: not runner.is_running)
    assert not isinstance(run.events()[-1].run_event, Finished)
    assert not (run.directory / "control").exists()


async def test_a_stopped_run_is_resumed_only_when_nothing_measures_it(
    context: Context, waiting_host: StartRunner
) -> None:
    run = make_run(context.store, finished=False)
    app = AdvisorApp(LaunchOptions(), context, start_runner=waiting_host)
    async with running_app(app) as pilot:
        with run.writer():
            await pilot.until_text("running", "down")
            assert "stopped" not in pilot.text()
            await pilot.wait_for(lambda: "resume" not in pilot.key_hints())
        await pilot.wait_for_text("stopped")
        await pilot.wait_for(lambda: "resume" in pilot.key_hints())
        await pilot.press("ctrl+g")
        for reply in ("escape", "y"):
            await pilot.reach(ChoiceDialog, "r")
            shown = app.run_controller.followed
            assert shown is None, "nothing starts without an answer"
            await pilot.press(reply)
        await pilot.wait_for_screen(LiveScreen)
        followed = builders.known(app.run_controller.followed)
        assert followed.run.directory == run.directory
        assert followed.runner is not None


async def test_details_scroll_at_once_and_q_means_quit_with_the_answer(context: Context) -> None:
    run = make_run(context.store, finished=True)
    app = AdvisorApp(LaunchOptions(open=str(run.directory)), context)
    async with showing(ResultsScreen, app) as (pilot, results):
        detail = await pilot.reach(DetailScreen, "enter")
        before = pilot.text()
        await pilot.press("pagedown")
        await pilot.settle()
        assert pilot.text() != before
        assert detail.focused is not None
        await pilot.until(lambda: app.return_value == 0, "q")
    assert first_line(results.original.answer) in app.exit_message()
    first, last = app.exit_message().splitlines()
    assert first.startswith(str(advice_of(results.original.answer).decision.word))
    assert last.endswith(f"p3-advisor show {run.directory.name}")


async def test_the_shell_says_that_another_programs_run_goes_on_or_was_stopped(
    context: Context,
) -> None:
    run = make_run(context.store, finished=False)
    for is_active, command in ((True, "ask --open"), (False, "resume")):
        app = AdvisorApp(LaunchOptions(open=run.directory.name), context)
        with run.writer() if is_active else contextlib.nullcontext():
            async with running_app(app) as pilot:
                await pilot.wait_for_screen(LiveScreen if is_active else ResultsScreen)
                await pilot.press("q")
            assert app.exit_message().endswith(f"p3-advisor {command} {run.directory.name}")
