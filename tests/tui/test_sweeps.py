"""Sweeps over lengths on the screens: asked, measured by real processes, stopped and opened."""

from __future__ import annotations

import pathlib
from collections.abc import Callable

import msgspec
import pytest
from onscreen import (
    SIZES,
    async_test,
    check_screen_at,
    go_to_step,
    key_hints,
    running_app,
    screen_text,
    settle,
    wait_for,
    wait_for_screen,
    wait_for_text,
)
from recorded_sweep import SWEEP_ID, store_sweep
from textual.widgets import Input

from advisor.context import Context
from advisor.domain.sweep import SweepRecord
from advisor.pipeline.sweeps.decision import decide_lengths
from advisor.question.answers import Answers
from advisor.question.constraints import parse_duration
from advisor.question.sweep import LengthAnswers
from advisor.report.sweeps.sweep_document import SweepDocument, decide_and_compose
from advisor.store.runs import Run
from advisor.store.store import Store
from advisor.tui import run_starter
from advisor.tui.app import AdvisorApp
from advisor.tui.dialogs.questions import WAIT_SECONDS, LoadDialog
from advisor.tui.options import LaunchOptions
from advisor.tui.run.host_process import HostProcess
from advisor.tui.run.session import RunSession
from advisor.tui.run.stored_items import list_items
from advisor.tui.run.unfinished import find_unfinished_run
from advisor.tui.screens.history import HistoryScreen
from advisor.tui.screens.home import HomeScreen
from advisor.tui.screens.live import LiveScreen
from advisor.tui.screens.results import ResultsScreen
from advisor.tui.screens.setup import SetupScreen
from advisor.tui.screens.sweep import LengthTable, SweepScreen
from advisor.tui.screens.sweep_parts import MAX_MISSING_ARMS, length_notes
from advisor.tui.widgets.table import Table

StartHost = Callable[[Run], HostProcess]


def sweeping_app(
    context: Context, host: StartHost, *, lengths: str = "8,16,32", **changes: str
) -> AdvisorApp:
    answers = {"gpu": "cpu", "workflows": "quick", "batch_sizes": "1", "budget": "3", **changes}
    options = LaunchOptions(
        answers=Answers(**answers),  # type: ignore[arg-type]
        lengths=LengthAnswers(input_tokens=lengths, length_mix="8:75,32:25"),
    )
    return AdvisorApp(options, context, start_host=host)


def stored_sweep(context: Context) -> SweepRecord:
    (name,) = context.store.sweeps.ids()
    return context.store.sweeps.find(name)


def test_arms_without_a_measurement_at_a_length_are_named_up_to_a_limit(
    tmp_path: pathlib.Path,
) -> None:
    store = Store(tmp_path / "stored")
    record = store_sweep(store)
    document = decide_and_compose(record, decide_lengths(record, store), store)
    (broken,) = document.missing
    entry = document.lengths[0]
    names = [f"arm-{number}" for number in range(MAX_MISSING_ARMS + 2)]
    many = tuple(msgspec.structs.replace(broken, arm=name) for name in names)
    (missing,) = (each for each in broken.missing if each.lengths == entry.lengths)
    _, line = length_notes(entry, document, "finished")
    assert line.startswith(f"broken: {missing.status}")
    assert missing.reason in line
    crowded = msgspec.structs.replace(document, missing=many)
    _, *lines, last = length_notes(entry, crowded, "finished")
    assert len(lines) == MAX_MISSING_ARMS
    assert last.startswith("2 more")


@async_test
async def test_several_lengths_are_asked_with_their_mix_and_checked(context: Context) -> None:
    app = AdvisorApp(LaunchOptions(answers=Answers(gpu="cpu", workflows="quick")), context)
    async with running_app(app) as pilot:
        setup = await go_to_step(pilot, 1)
        tokens, mix = setup.query_one("#input_tokens", Input), setup.query_one("#length_mix", Input)
        field, error = setup.query_one("#field-length_mix"), setup.query_one("#error")
        assert not field.display
        tokens.value = "2048,32"
        await wait_for(pilot, lambda: field.display)
        for size in SIZES:
            await check_screen_at(pilot, size)
        for wrong in ("32", "32:x", "64:1", "32:0"):
            mix.focus()
            mix.value = wrong
            await pilot.press("tab")
            await wait_for(pilot, lambda: error.has_class("-shown"))
            assert "--" not in str(error.render())
            mix.focus()
            mix.value = ""
            await pilot.press("tab")
            await wait_for(pilot, lambda: not error.has_class("-shown"))
        mix.value = "32:3,2048:1"
        await pilot.press("enter")
        await wait_for(pilot, lambda: setup.step_index == 2)
        assert [each.share for each in app.lengths.parse()] == [0.75, 0.25]
        assert app.answers.input_tokens == 32
        await pilot.press("escape")
        await wait_for(pilot, lambda: setup.step_index == 1)
        tokens.value = "64"
        await wait_for(pilot, lambda: not field.display)
        await pilot.press("enter")
        await wait_for(pilot, lambda: setup.step_index == 2)
        assert len(app.lengths.parse()) == 1
        assert app.answers.input_tokens == 64


@async_test
async def test_a_sweep_is_planned_measured_length_by_length_and_opened(
    context: Context, fake_host: StartHost
) -> None:
    app = sweeping_app(context, fake_host)
    async with running_app(app) as pilot:
        await go_to_step(pilot, 3)
        await wait_for_text(pilot, "3 runs")
        await pilot.press("enter")
        await wait_for_screen(pilot, LiveScreen)
        for place, tokens in enumerate((8, 32), start=1):
            await wait_for_text(pilot, f"length {place} of 3: {tokens} input")
        screen = await wait_for_screen(pilot, SweepScreen)
        record = stored_sweep(context)
        document = screen.document
        assert document.finished
        assert [run.lengths.input_tokens for run in record.runs] == [8, 32, 16]
        assert [each.share for each in document.lengths] == [0.75, 0, 0.25]
        assert {*decide_lengths(record, context.store)} == {
            each.lengths for each in document.lengths
        }
        assert app.exit_message().endswith(f"p3-advisor show {record.sweep_id}")
        assert screen.query_one(LengthTable).row_count == 3
        await pilot.press("down", "enter")
        results = await wait_for_screen(pilot, ResultsScreen)
        assert results.answer.document.question.input_tokens == 16
        await pilot.press("escape")
        await wait_for_screen(pilot, SweepScreen)


@async_test
async def test_a_cancelled_sweep_shows_what_is_measured_and_is_resumed(
    context: Context, fake_host: StartHost
) -> None:
    app = sweeping_app(context, fake_host, lengths="8,32")
    async with running_app(app) as pilot:
        await pilot.press("ctrl+r")
        await wait_for_screen(pilot, LiveScreen)
        await wait_for_text(pilot, "length 2 of 2")
        await pilot.press("x", "y")
        screen = await wait_for_screen(pilot, SweepScreen)
        problem = screen.document.problem
        assert problem is not None
        assert problem.name == "sweep-unfinished"
        assert [each.finished for each in screen.document.lengths] == [True, False]
        assert stored_sweep(context).sweep_id in app.exit_message()
        await wait_for(pilot, lambda: app.run_controller.owned_host is None)
        app.action_home()
        home = await wait_for_screen(pilot, HomeScreen)
        await wait_for_text(pilot, "stopped, 1/2")
        home.query_one(Table).move_cursor_to(stored_sweep(context).sweep_id)
        await pilot.press("enter")
        await wait_for_screen(pilot, SweepScreen)
        await pilot.press("ctrl+g")
        await wait_for_screen(pilot, LiveScreen)
        ended = await wait_for_screen(pilot, SweepScreen)
        assert ended.document.finished
        assert ended.document.recommendation is not None
    assert len(context.store.history()) == 2


@async_test
async def test_a_sweep_that_is_left_is_measured_to_its_end(
    context: Context, fake_host: StartHost
) -> None:
    app = sweeping_app(context, fake_host, lengths="8,32")
    async with running_app(app) as pilot:
        await pilot.press("ctrl+r")
        await wait_for_screen(pilot, LiveScreen)
        session = app.run_controller.session
        assert session is not None
        await wait_for(pilot, lambda: session.follower.state.plan is not None)
        await pilot.press("q", "k")
        await wait_for(pilot, lambda: app.return_value == 0)
    sweep_id = stored_sweep(context).sweep_id
    assert f"--open {sweep_id}" in app.exit_message()
    shown = AdvisorApp(LaunchOptions(open=sweep_id), context)
    async with running_app(shown) as pilot:
        screen = await wait_for_screen(pilot, SweepScreen)
        # The process of the other program goes on, and the screen follows it.
        await wait_for(pilot, lambda: screen.document.finished)
    assert session.host is not None
    session.host.terminate()


@async_test
async def test_the_lists_mark_a_sweep_and_open_resume_and_delete_it(context: Context) -> None:
    store_sweep(context.store, measured=(32, 2048), started=(512,))
    app = AdvisorApp(LaunchOptions(), context)
    async with running_app(app) as pilot:
        home = await wait_for_screen(pilot, HomeScreen)
        await wait_for_text(pilot, "stopped, 2/3")
        assert home.query_one(Table).row_count == 3
        await pilot.press("H")
        history = await wait_for_screen(pilot, HistoryScreen)
        table = history.query_one(Table)
        await wait_for(pilot, lambda: table.row_count == 4)
        assert table.key_at_cursor() == SWEEP_ID
        assert {"resume", "delete"} <= key_hints(pilot)
        assert not {"mark", "compare", "note"} & key_hints(pilot)
        await pilot.press("enter")
        screen = await wait_for_screen(pilot, SweepScreen)
        assert "resume" in key_hints(pilot)
        await pilot.press("down")
        await settle(pilot)
        await pilot.press("enter")
        results = await wait_for_screen(pilot, ResultsScreen)
        assert not results.answer.document.finished
        await pilot.press("escape", "H")
        await wait_for_screen(pilot, HistoryScreen)
        await wait_for(pilot, lambda: SWEEP_ID in screen_text(pilot))
        await pilot.press("d", "y")
        await wait_for(pilot, lambda: not context.store.sweeps.ids())
        assert len(context.store.history()) == 3
        assert screen.has_run(results.answer.document.run_id)


def test_an_unfinished_sweep_is_offered_in_place_of_its_run(context: Context) -> None:
    store_sweep(context.store, measured=(32,), started=(512,))
    found = find_unfinished_run(context.store)
    assert found is not None
    assert (found.run_id, found.others) == (SWEEP_ID, 0)
    first, *others = list_items(context.store)
    assert (first.item_id, first.measured, first.lengths, first.state) == (
        SWEEP_ID,
        1,
        3,
        "stopped",
    )
    assert {each.sweep_id for each in others} == {SWEEP_ID}


@async_test
async def test_a_sweep_is_exported(context: Context, tmp_path: pathlib.Path) -> None:
    store_sweep(context.store)
    app = AdvisorApp(LaunchOptions(open=SWEEP_ID), context)
    async with running_app(app) as pilot:
        await wait_for_screen(pilot, SweepScreen)
        for name in ("sweep.html", "sweep.md", "sweep.json"):
            await pilot.press("e")
            await wait_for_text(pilot, "Export this sweep")
            file = tmp_path / name
            app.screen.query_one(Input).value = str(file)
            await pilot.press("enter")
            await wait_for(pilot, file.exists)
            await wait_for_screen(pilot, SweepScreen)
    written = msgspec.json.decode((tmp_path / "sweep.json").read_bytes(), type=SweepDocument)
    assert written.sweep_id == SWEEP_ID


@async_test
async def test_every_run_of_a_sweep_waits_for_a_quiet_machine(
    context: Context, fake_host: StartHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_starter, "find_load_problems", lambda *_: ("cpu-busy",))
    app = sweeping_app(context, fake_host)
    async with running_app(app) as pilot:
        await pilot.press("ctrl+r")
        await wait_for_screen(pilot, LoadDialog)
        assert not context.store.sweeps.ids()
        await pilot.press("w")
        await wait_for_screen(pilot, LiveScreen)
    record = stored_sweep(context)
    first = context.store.find(record.runs[0].run_id).header().question
    assert first.wait_seconds == WAIT_SECONDS
    answers = msgspec.convert(record.answers, Answers)
    assert parse_duration("", answers.wait_for_quiet) == WAIT_SECONDS


@async_test
async def test_a_sweep_needs_a_device_that_is_attached(context: Context) -> None:
    options = LaunchOptions(answers=Answers(gpu="H100"), lengths=LengthAnswers(input_tokens="8,32"))
    app = AdvisorApp(options, context)
    async with running_app(app) as pilot:
        setup = await wait_for_screen(pilot, SetupScreen)
        await pilot.press("ctrl+r")
        await wait_for(pilot, lambda: setup.query_one("#error").has_class("-shown"))
        assert app.screen is setup
    assert not context.store.sweeps.ids()


class EndedHost:
    """A host process that has failed to plan the next length."""

    is_running = False

    def failure_reason(self) -> str:
        return "the model cannot be read"


@async_test
async def test_a_sweep_whose_next_length_cannot_be_planned_shows_why(context: Context) -> None:
    record = store_sweep(context.store, measured=(32,))
    run = context.store.find(record.runs[0].run_id)
    app = AdvisorApp(LaunchOptions(), context)
    async with running_app(app) as pilot:
        app.run_controller.show(RunSession.for_run(run, EndedHost(), record))  # type: ignore[arg-type]
        screen = await wait_for_screen(pilot, SweepScreen)
        await wait_for_text(pilot, EndedHost().failure_reason())
        assert [each.finished for each in screen.document.lengths] == [True, False, False]


@async_test
async def test_a_measured_length_is_opened_while_a_run_is_in_progress(
    context: Context, fake_host: StartHost
) -> None:
    store_sweep(context.store)
    answers = Answers(gpu="cpu", workflows="misbehaving/hangs", batch_sizes="1", budget="1")
    app = AdvisorApp(LaunchOptions(answers=answers), context, start_host=fake_host)
    async with running_app(app) as pilot:
        await pilot.press("ctrl+r")
        await wait_for_screen(pilot, LiveScreen)
        app.open_stored(SWEEP_ID)
        await wait_for_screen(pilot, SweepScreen)
        await pilot.press("enter")
        results = await wait_for_screen(pilot, ResultsScreen)
        assert results.answer.run is not None
        assert results.answer.run.directory.name == results.answer.document.run_id
        session = app.run_controller.session
        assert session is not None
        assert session.host is app.run_controller.owned_host is not None
        assert session.follower.header.question.workflows == ("misbehaving/hangs",)
        await pilot.press("ctrl+g")
        await wait_for_screen(pilot, LiveScreen)
