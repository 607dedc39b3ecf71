from __future__ import annotations

import datetime as dt
import json
import os

import builders
import pytest
from builders import replace
from kept.runs import EVIDENCE
from onscreen import SMALLEST, ScreenPilot, running_app, showing
from recorded_runs import make_planned_run, make_run

from advisor.ask.context import Context
from advisor.domain.answer import AnswerSummary, Problem
from advisor.domain.errors import RunFileError
from advisor.domain.measurement import Interval
from advisor.domain.model import TransformersModel
from advisor.domain.text import MISSING
from advisor.store.runs import Run
from advisor.store.store import Store
from advisor.tui import home
from advisor.tui.app import AdvisorApp
from advisor.tui.dialogs import ChoiceDialog
from advisor.tui.launch import LaunchOptions
from advisor.tui.results import ResultsScreen
from advisor.tui.setup import SetupScreen
from advisor.tui.table import Table, fit_columns


async def test_the_first_screen_lists_answers_and_opens_them(context: Context) -> None:
    run = make_run(context.store, finished=True)
    unfinished = make_run(context.store, finished=False)
    shipped = Context(environment=context.environment, store=context.store)
    async with showing(home.HomeScreen, AdvisorApp(LaunchOptions(), shipped)) as (pilot, first):
        with unfinished.writer():
            first.read_runs()
            await pilot.wait_for_text("running")
            unfinished.control.set_paused(paused=True)
            first.read_runs()
            await pilot.wait_for_text("paused")
        await pilot.wait_for_text(f"compiled{home.STOPPED_MARK}")
        await pilot.wait_for_text("2.29x C")
        assert home.TRADE_OFF[:20] in await pilot.check_at(SMALLEST)
        first.query_one(Table).move_cursor_to(run.directory.name)
        await pilot.reach(ResultsScreen, "enter")
        await pilot.reach(home.HomeScreen, "escape")
        await pilot.press("G", "enter")  # the recorded run of the program
        screen = await pilot.wait_for_screen(ResultsScreen)
        assert screen.shown.answer.machine.gpus


def test_the_recorded_runs_of_the_program_are_kept_runs() -> None:
    examples = home.list_examples()
    assert examples
    for file, answer in examples.items():
        kept = EVIDENCE / file.name
        assert file.read_bytes() == kept.read_bytes()
        assert answer.device_name == json.loads(kept.read_bytes())["machine"]["gpus"][0]["name"]


async def test_n_asks_enter_asks_and_escape_returns_with_the_answers_kept(app: AdvisorApp) -> None:
    async with showing(home.HomeScreen, app) as (pilot, _):
        setup = await pilot.reach(SetupScreen, "enter")
        await pilot.until(lambda: setup.step_index == 1, *"demo/gpt2", "enter")
        await pilot.until(lambda: setup.step_index == 0, "escape")
        await pilot.reach(home.HomeScreen, "escape")
        await pilot.press("n")
        assert await pilot.wait_for_screen(SetupScreen) is setup
        assert "demo/gpt2" in pilot.text()


def test_an_arm_that_leads_an_open_decision_is_marked() -> None:
    clear = AnswerSummary(arm="quick", decision_word="CLEAR")
    assert home.describe_winner(clear) == "quick"
    assert home.describe_winner(replace(clear, decision_word="OPEN")) == f"quick{home.OPEN_MARK}"
    assert home.describe_winner(AnswerSummary()) == "no answer"
    assert AnswerSummary(problem=Problem.of(RunFileError("", ""))).label == "cannot be read"


def test_a_speed_of_a_busy_machine_is_not_shown_as_a_fact(sample_run: Run) -> None:
    entry = Store(sample_run.directory.parents[1]).history()[0]
    item, now = home.StoredItem(entry=entry, state="finished"), dt.datetime.now(dt.timezone.utc)
    summary = AnswerSummary(
        arm="quick", decision_word="LIKELY", speedup=Interval(value=9.0, low=1.0, high=81.0)
    )
    fit, busy = (home.list_cells(item, replace(summary, fit=each), now) for each in (True, False))
    assert (fit["answer"], fit["speed"]) == ("quick", "9.00x")
    assert (busy["answer"], busy["speed"]) == (f"quick{home.BUSY_MARK}", MISSING)


def test_names_get_the_cells_that_other_columns_do_not_need() -> None:
    arm = "onnxruntime-cpu/io-binding (busy)"
    columns = fit_columns(home.COLUMNS, 80, [{"model": "demo", "answer": arm, "device": "CPU"}])
    widths = {column.key: column.width for column in columns}
    assert widths["answer"] == len(arm)
    assert (widths["model"], widths["device"]) == (len("Model"), len("Device"))
    model, device = "TinyLlama/TinyLlama-1.1B-Chat-v1.0", "NVIDIA H200"
    columns = fit_columns(home.COLUMNS, 80, [{"model": model, "answer": arm, "device": device}])
    assert max(column.width for column in columns) == 27, "the answer loses least"


def test_ages(context: Context) -> None:
    passed = (dt.timedelta(seconds=10), dt.timedelta(hours=1), dt.timedelta(days=2, hours=1))
    ages = [home.format_age(context.now() - each, context.now()) for each in passed]
    assert ages == ["just now", "1 h ago", "2 d ago"]


async def test_the_load_average_is_that_of_now_and_a_key_that_follows_q_opens_nothing(
    app: AdvisorApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(AdvisorApp, "_detect_machine", lambda _: builders.machine())
    async with running_app(app) as pilot:
        for load in (7.5, 0.5):
            monkeypatch.setattr(os, "getloadavg", lambda load=load: (load, 0.0, 0.0))
            await pilot.wait_for_text(f"average {load}")
        for key in "qn":  # without waiting between the keys
            app.simulate_key(key)
        await pilot.wait_for(lambda: app.return_value == 0)
    assert app.defect is None


def test_a_list_of_runs_may_be_read_after_the_widgets_are_gone() -> None:
    screen = home.HomeScreen()
    screen.draw()
    assert not screen.query(Table)


async def list_runs(pilot: ScreenPilot, runs: int) -> home.HomeScreen:
    """Wait until so many runs are listed; move the cursor to the first one."""
    screen = await pilot.wait_for_screen(home.HomeScreen)
    others = 1 + len(home.list_examples())
    await pilot.wait_for(lambda: screen.query_one(Table).row_count == runs + others)
    await pilot.press("down")
    return screen


async def test_a_note_can_be_written_and_removed(app: AdvisorApp) -> None:
    run = make_run(app.context.store, finished=True)
    make_run(app.context.store, finished=False)
    async with running_app(app) as pilot:
        await list_runs(pilot, 2)
        await pilot.until_text("Note: [/old] driver", "t", *"[/old] driver", "enter")
        assert run.note() == "[/old] driver"
        await pilot.resize_terminal(140, 40)
        await pilot.wait_for_text("Note: [/old] driver")
        await pilot.press("t", "escape")
        assert run.note() == "[/old] driver"
        await pilot.until(lambda: run.note() == "", "t", *["backspace"] * 13, "enter")


async def test_the_footer_offers_only_keys_with_an_effect(app: AdvisorApp) -> None:
    make_run(app.context.store, finished=True)
    make_run(app.context.store, finished=False)
    async with running_app(app) as pilot:
        rows = {"mark", "note", "delete"}
        assert not {"resume", "compare", "back", *rows} & pilot.key_hints()
        await list_runs(pilot, 2)
        await pilot.wait_for(lambda: rows <= pilot.key_hints())
        assert not {"resume", "compare", "back"} & pilot.key_hints()
        await pilot.press("space")
        assert "compare" not in pilot.key_hints(), "a run is not compared with itself"
        await pilot.until(lambda: "compare" in pilot.key_hints(), "down")
        await pilot.until(lambda: "compare" not in pilot.key_hints(), "escape")


def test_a_run_that_failed_before_a_measurement_is_marked(context: Context) -> None:
    failed, stopped = "20261121-130000-0002", make_run(context.store, finished=False)
    with make_planned_run(context.store.run(failed).directory.parents[1], failed).writer():
        going_on = home.list_items(context.store)[0]
    cells = [home.list_cells(item, None, context.now()) for item in home.list_items(context.store)]
    answers = {each["id"]: each["answer"] for each in cells}
    assert answers == {failed: "no measurement", stopped.directory.name: "stopped"}
    assert home.list_cells(going_on, None, context.now())["answer"] == "running"
    undecided = home.list_cells(home.list_items(context.store)[-1], AnswerSummary(), context.now())
    assert undecided["answer"] == "stopped"


async def test_the_list_is_as_wide_as_the_terminal_also_with_a_scroll_bar(app: AdvisorApp) -> None:
    model = TransformersModel(name="an-owner/a-model-with-a-long-name-that-fills", weights="random")
    question = builders.question(model=model)
    for number in range(10, 40):
        run_id = f"20261121-1300{number}-0000"
        app.context.store.create(builders.header(run_id=run_id, question=question))
    async with running_app(app) as pilot:
        table = (await list_runs(pilot, 30)).query_one(Table)
        await pilot.wait_for_text("no measurement")
        assert table.max_scroll_y > 0
        assert table.virtual_size.width <= table.scrollable_content_region.width


async def test_a_run_is_deleted_after_a_confirmation_and_not_while_it_is_active(
    app: AdvisorApp,
) -> None:
    run, other = (make_run(app.context.store, finished=each) for each in (True, False))
    async with running_app(app) as pilot:
        screen = await list_runs(pilot, 2)
        await pilot.reach(ChoiceDialog, "d")
        assert run.directory.name in await pilot.check_at(SMALLEST)
        await pilot.reach(home.HomeScreen, "escape")
        assert run.directory.exists()
        with run.writer():
            await pilot.until_text("another process", "d", "y")
        assert run.directory.exists()
        await pilot.until(lambda: not run.directory.exists(), "d", "y")
        table = screen.query_one(Table)
        await pilot.wait_for(lambda: run.directory.name not in table.rows)
        assert other.directory.name in table.rows
