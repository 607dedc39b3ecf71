"""Runs that the screens start, and environments that they offer to create."""

from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
import threading

import builders
import pytest
from built_answers import with_decision
from onscreen import SMALLEST, ScreenPilot, asking_app, running_app, showing
from sessions import short_options

from advisor.ask.context import Context
from advisor.ask.run_options import RunOptions
from advisor.decide.recommend import further_budget, undecided_workflows
from advisor.decide.unmeasured import arms_to_retry
from advisor.execute.repetitions import leaders_of
from advisor.store.files import HOME_VARIABLE
from advisor.store.runs import Run
from advisor.store.store import Store
from advisor.tui import actions
from advisor.tui.app import AdvisorApp
from advisor.tui.dialogs import WAIT_SECONDS, ChoiceDialog
from advisor.tui.followed_run import RunnerProcess, StartRunner
from advisor.tui.home import HomeScreen
from advisor.tui.launch import LaunchOptions
from advisor.tui.live import LiveScreen
from advisor.tui.results import ResultsScreen
from advisor.tui.setup import SetupScreen


@pytest.fixture
def busy_machine(monkeypatch: pytest.MonkeyPatch) -> tuple[str, ...]:
    problems = ("only 0.1 of 8 usable processors are idle", "2 other processes use the GPU")
    monkeypatch.setattr(actions, "find_quiet_problems", lambda *_: problems)
    return problems


async def start(pilot: ScreenPilot) -> None:
    """Start a run from the questions, up to the question about the load."""
    await pilot.wait_for_screen(SetupScreen)
    await pilot.reach(ChoiceDialog, "ctrl+r")


def quick_app(context: Context, runner: StartRunner) -> AdvisorApp:
    return asking_app(context, runner, short_options("quick"))


async def test_a_busy_machine_is_named_and_a_run_waits_or_starts_at_once_or_not_at_all(
    context: Context, busy_machine: tuple[str, ...], waiting_host: StartRunner
) -> None:
    async with running_app(quick_app(context, waiting_host)) as pilot:
        await start(pilot)
        shown = " ".join((await pilot.check_at(SMALLEST)).split())
        assert all(word in shown for word in " ".join(busy_machine).split())
        await pilot.reach(SetupScreen, "escape")
        await pilot.settle()
        assert isinstance(pilot.app.screen, SetupScreen)
        assert context.store.history() == []
        await start(pilot)
        await pilot.reach(LiveScreen, "enter")
    (entry,) = context.store.history()
    assert wait_seconds(context, entry.run_id) == WAIT_SECONDS
    async with running_app(quick_app(context, waiting_host)) as pilot:
        await start(pilot)
        await pilot.reach(LiveScreen, "s")
    other = next(each for each in context.store.history() if each.run_id != entry.run_id)
    assert wait_seconds(context, other.run_id) == 0.0


async def test_a_run_starts_after_its_time_is_shown_and_not_without_an_answer(
    context: Context, waiting_host: StartRunner
) -> None:
    async with running_app(quick_app(context, waiting_host)) as pilot:
        await start(pilot)
        assert "At most" in await pilot.check_at(SMALLEST)
        await pilot.press("escape")
        await pilot.resize_terminal(80, 24)
        await pilot.go_to_step(3)
        await pilot.wait_for_text("At most")
        await pilot.reach(LiveScreen, "ctrl+r")


async def test_a_screen_that_was_left_asks_nothing(
    context: Context, monkeypatch: pytest.MonkeyPatch, waiting_host: StartRunner
) -> None:
    """The question would take the keys that are typed elsewhere."""
    is_observed = threading.Event()

    def observe(*_: object) -> tuple[str, ...]:
        assert is_observed.wait(60.0)
        return ()

    monkeypatch.setattr(actions, "find_quiet_problems", observe)
    async with showing(SetupScreen, quick_app(context, waiting_host)) as (pilot, _):
        home = await pilot.reach(HomeScreen, "ctrl+r", "escape")
        is_observed.set()
        await pilot.settle()
        assert pilot.app.screen is home
        await pilot.wait_for_text("not started")
    assert context.store.history() == []


def open_copy(context: Context, recorded: Run, runner: StartRunner) -> AdvisorApp:
    """Return the app that shows a copy of the recorded run in the store of the test."""
    stored = context.store.run(recorded.directory.name).directory
    shutil.copytree(recorded.directory, stored)
    return AdvisorApp(LaunchOptions(open=stored.name), context, start_runner=runner)


async def test_a_run_goes_on_when_the_machine_is_quiet_also_one_whose_answer_is_not_clear(
    context: Context, recorded: Run, busy_machine: tuple[str, ...], waiting_host: StartRunner
) -> None:
    waits = list[float | None]()

    def runner(run: Run, wait_seconds: float | None) -> RunnerProcess:
        waits.append(wait_seconds)
        return waiting_host(run, wait_seconds)

    app = open_copy(context, recorded, runner)
    async with showing(ResultsScreen, app) as (pilot, results):
        changed = with_decision(results.original.answer, word="LIKELY")
        results.original = builders.replace(results.original, answer=changed)
        builds = builders.known(results.original.run).scratch
        shutil.rmtree(builds, ignore_errors=True)
        assert results.refusal_of("leaders")
        builds.mkdir()
        assert results.refusal_of("resume"), "a finished run is not resumed, but measured again"
        assert not results.refusal_of("leaders")
        shown = ""
        for keys in (["v"], ["escape", "r"]):
            await pilot.reach(ChoiceDialog, *keys)
            shown = " ".join((await pilot.check_at(SMALLEST)).split())
            assert all(word in shown for word in " ".join(busy_machine).split())
        plan = builders.known(results.original.run).state().plan
        leaders = leaders_of(results.original.answer, plan)
        assert ", ".join(each.id for each in leaders) in shown
        assert f"{len(leaders)} ways to run" in shown
        live = await pilot.reach(LiveScreen, "enter")
        await pilot.settle()
        assert app.screen is live, "the results of before are not those of the end"
    assert waits == [WAIT_SECONDS]


async def test_f_measures_an_arm_that_was_not_reached_without_a_time_limit(
    context: Context, recorded: Run, waiting_host: StartRunner
) -> None:
    app = open_copy(context, recorded, waiting_host)
    async with showing(ResultsScreen, app, (120, 40)) as (pilot, results):
        document = results.original.answer
        skipped = builders.unmeasured(
            "quick", option="", status="skipped", skip_cause="out-of-time"
        )
        changed = builders.replace(document, unmeasured=(skipped,))
        results.shown = builders.replace(results.original, answer=changed)
        results.original = results.shown
        await pilot.until_text("without a time limit", "f")
        await pilot.wait_for_text("With the baseline: 2 ways")
        await pilot.reach(LiveScreen, "y")
        question = builders.known(app.run_controller.followed).header.question
    assert question.all_arms
    assert question.workflows == ("quick",)
    useless = builders.replace(skipped, skip_cause="build-limit")
    assert arms_to_retry(builders.replace(document, unmeasured=(useless,))) == ()


def wait_seconds(context: Context, run_id: str) -> float:
    return context.store.run(run_id).header().question.wait_seconds


async def test_m_measures_the_undecided_workflows_for_longer(
    context: Context, recorded: Run, waiting_host: StartRunner
) -> None:
    app = open_copy(context, recorded, waiting_host)
    async with showing(ResultsScreen, app) as (pilot, results):
        await pilot.until(lambda: results.is_explored, "2", "left")
        shown = results.shown.answer
        advice, asked = builders.known(shown.recommendation), shown.question
        for key in ("escape", "y"):
            assert len(context.store.history()) == 1, "nothing starts without an answer"
            await pilot.reach(ChoiceDialog, "m")
            assert "At most" in await pilot.check_at((80, 24))
            await pilot.press(key)
        await pilot.wait_for_screen(LiveScreen)
        question = builders.known(app.run_controller.followed).header.question
        assert question.workflows == undecided_workflows(advice, asked)
        assert question.priorities == asked.priorities
        assert question.budget == further_budget(shown, results.original.catalogue)
        assert question.budget.measuring_seconds > asked.budget.measuring_seconds


@pytest.mark.slow
async def test_the_plan_offers_to_create_an_environment_and_a_failure_is_explained(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("UV_OFFLINE", "1")
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("UV_FIND_LINKS", raising=False)
    monkeypatch.setattr(AdvisorApp, "suspend", lambda _: contextlib.nullcontext())
    monkeypatch.setattr("builtins.input", lambda _: "")
    context = Context(
        environment={**os.environ, HOME_VARIABLE: str(tmp_path)}, store=Store(tmp_path)
    )
    run_options = RunOptions(gpu="cpu", workflows="openvino")
    async with running_app(
        AdvisorApp(LaunchOptions(run_options=run_options), context), (100, 30)
    ) as pilot:
        await pilot.go_to_step(3)
        await pilot.wait_for_text("has not been created")
        assert "create_env" not in pilot.key_hints()
        while "openvino==" not in pilot.text():
            await pilot.press("down")
        assert "create_env" in pilot.key_hints()
        await pilot.reach(ChoiceDialog, "m")
        await pilot.check_at((80, 24))
        assert "p3-advisor env create openvino" in pilot.text()
        await pilot.reach(SetupScreen, "y")
    printed = capfd.readouterr().err
    assert "No solution found" in printed
    assert "next: " in printed
    assert not [*(tmp_path / "environments").glob("openvino-*")]
