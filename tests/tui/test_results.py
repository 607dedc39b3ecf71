from __future__ import annotations

import contextlib
import datetime as dt
import pathlib
import sys

import builders
import built_answers
import pytest
from built_answers import with_decision, without_advice
from kept.runs import EVIDENCE
from onscreen import SMALLEST, running_app, showing
from recorded_runs import make_run
from textual import events
from textual.widgets import Input, Markdown, Tab, TabbedContent

from advisor.ask.context import Context
from advisor.ask.option_values import parse_constraints
from advisor.domain.errors import BudgetSpentError, NothingViableError
from advisor.domain.measurement import Interval
from advisor.domain.text import format_speedup
from advisor.report import recipe_text
from advisor.report.answer_files import answer_of_run, read_answer
from advisor.report.answer_lines import short_answer_lines
from advisor.report.generation import TEXT_COLUMNS
from advisor.report.text_report import render_summary
from advisor.store.runs import Run
from advisor.tui import app as terminal_app
from advisor.tui.answer_panes import (
    PANE_SECTIONS,
    PANES,
    AnswerPanel,
    ShownAnswer,
    describe_question,
    render_answer_lines,
    render_pane,
)
from advisor.tui.app import AdvisorApp
from advisor.tui.dialogs import ChoiceDialog, LineDialog
from advisor.tui.home import HomeScreen, list_examples
from advisor.tui.launch import LaunchOptions
from advisor.tui.results import ANSWER, PARTS, RANKING, DetailScreen, ResultsScreen
from advisor.tui.table import SpeedAxis, Table
from advisor.tui.widgets import WeightBar

#: A run that generated text.
TEXT = str(EVIDENCE / "h200-generate-tinyllama-bfloat16.json")


@pytest.fixture
def shipped(tui_context: Context) -> Context:
    """A context with the shipped catalogue, which knows the workflows of the kept runs."""
    return Context(environment=tui_context.environment, store=tui_context.store)


@pytest.mark.slow
async def test_every_pane_is_reached_by_tab_by_number_and_by_mouse(sample_app: AdvisorApp) -> None:
    async with showing(ResultsScreen, sample_app, SMALLEST) as (pilot, screen):
        seen = []
        for _ in PARTS:
            await pilot.press("tab")
            seen.append(screen.focused_part)
        assert seen == [*PANES, ANSWER, RANKING]
        await pilot.press("shift+tab", "shift+tab")
        assert screen.focused_part == list(PANES)[-1]
        for number, pane in enumerate(PANES, 1):
            await pilot.press(str(number))
            assert screen.focused_part == pane
            focused = builders.known(screen.focused)
            assert focused.region.height > 0
        for tab, pane in zip(screen.query(Tab), PANES, strict=True):
            assert await pilot.click(tab)
            await pilot.wait_for(lambda pane=pane: screen.focused_part == pane)  # type: ignore[misc]


async def test_panes_follow_keys_that_are_typed_without_a_pause(sample_app: AdvisorApp) -> None:
    async with showing(ResultsScreen, sample_app, SMALLEST) as (pilot, screen):
        activated: list[str] = []

        def note(pane: str) -> None:
            activated.append(pane)

        screen.watch(screen.query_one(TabbedContent), "active", note, init=False)
        for key in "2345":
            pilot.app.post_message(events.Key(key, key))
        await pilot.wait_for(lambda: screen.focused_part == "unmeasured")
        await pilot.settle()
        assert activated == ["weights", "trust", "next", "unmeasured"]
        assert screen.focused_part == "unmeasured"


def test_the_pane_of_next_steps_begins_as_the_printed_answer_does() -> None:
    opened = with_decision(built_answers.answer(foreign=False), word="OPEN")
    first = render_pane(opened, "next").splitlines()[0].removeprefix("- ")
    printed = " ".join(render_summary(opened, 100).split())
    assert "resume" in first
    assert "f what has no result" in render_pane(opened, "next"), "keys, not options alone"
    assert f"Next: {first.replace('`', '')}" in printed


def test_the_panes_of_a_run_without_an_answer_say_why() -> None:
    made = without_advice(
        built_answers.answer(), BudgetSpentError("it was busy", "stop other work")
    )
    assert "busy" in render_pane(made, "why")
    assert "stop other work" in render_pane(made, "why")
    assert "repeated in a fresh process" in render_pane(made, "trust")
    bare = builders.replace(made, scores=())
    assert "Nothing was measured." in render_pane(bare, "trust")
    command = "run p3-advisor show --json for the reason of each workflow"
    nothing = without_advice(bare, NothingViableError("it was busy", command))
    cancelled = ShownAnswer(nothing, builders.shipped_catalogue())
    for shown in (render_answer_lines(cancelled, 80).plain, render_pane(cancelled.answer, "next")):
        assert "5 shows the reason" in shown
        assert "--json" not in shown


def test_the_pane_of_what_is_not_measured_says_what_was_not_asked_for() -> None:
    pane = render_pane(read_answer(str(EVIDENCE / "h200-minilm-float32.json")), "unmeasured")
    assert "Only what was asked for was measured." in pane
    assert r"left out \(4\): " in pane
    assert "Every workflow" not in pane
    assert "asked for" not in render_pane(built_answers.answer(), "unmeasured")


def test_without_a_measurement_no_code_is_offered(sample_run: Run) -> None:
    made = built_answers.answer(scores=())
    screen = ResultsScreen(ShownAnswer(made, sample_run.header().catalogue, sample_run))
    for action in ("detail", "code", "verify"):
        assert "measured" in screen.refusal_of(action)


def test_an_empty_log_of_a_stack_says_so(made_run: Run) -> None:
    log = made_run.worker_log_path("compiled", 0)
    log.parent.mkdir(parents=True)
    log.touch()
    answer = ShownAnswer(answer_of_run(made_run), made_run.header().catalogue, made_run)
    (line,) = DetailScreen(answer, "compiled")._log()
    assert line == "No output of the stack is stored here."


async def test_the_details_of_an_unfit_machine_show_no_single_speed_up(
    sample_app: AdvisorApp,
) -> None:
    async with showing(ResultsScreen, sample_app) as (pilot, results):
        unfit = built_answers.with_results(results.shown.answer, noise_floor=4.0)
        shown, first = builders.replace(results.shown, answer=unfit), unfit.ranking[0]
        for answered, has_value in ((results.shown, True), (shown, False)):
            await sample_app.push_screen(DetailScreen(answered, first.arm))
            await pilot.settle()
            assert (format_speedup(first.speedup) in pilot.text()) is has_value


def test_intervals_share_one_axis_with_the_baseline_at_one() -> None:
    slow, fast = Interval(value=0.02, low=0.01, high=0.03), Interval(value=8.0, low=7.0, high=9.0)
    eager = Interval(value=1.0, low=1.0, high=1.0)
    axis = SpeedAxis.for_speedups((slow, eager, fast), 30)
    one = axis.place(1.0)
    labels = axis.labels()
    assert len(labels) == 30
    assert labels[one : one + 2] == "1x"
    assert [len(axis.bar(each)) for each in (slow, eager, fast)] == [30] * 3
    assert axis.bar(slow)[0] == "\N{BLACK LEFT-POINTING TRIANGLE}"
    assert axis.bar(eager)[one] == "\N{BLACK CIRCLE}"
    assert axis.bar(fast)[one] == "\N{BOX DRAWINGS LIGHT VERTICAL}"
    assert axis.bar(fast)[axis.place(8.0)] == "\N{BLACK CIRCLE}"
    crossing = axis.bar(Interval(value=1.3, low=0.7, high=2.0))
    assert crossing[one] == "\N{BOX DRAWINGS LIGHT VERTICAL AND HORIZONTAL}"


@pytest.mark.parametrize("value", [float("inf"), float("nan"), 0.0])
def test_an_axis_is_drawn_for_every_speed_up(value: float) -> None:
    odd = Interval(value=value, low=None, high=None)
    assert len(SpeedAxis.for_speedups((odd,), 20).bar(odd)) == 20


async def test_all_lines_of_an_answer_are_reachable_with_a_scroll_bar(shipped: Context) -> None:
    app = AdvisorApp(LaunchOptions(), shipped)
    async with running_app(app, SMALLEST) as pilot:
        app.run_controller.open(str(EVIDENCE / "h100-served-llama3.1-8b-bfloat16.json"))
        screen = await pilot.wait_for_screen(ResultsScreen)
        assert (screen.shown.answer.rerun_command or "").startswith("p3-advisor show")
        panel = screen.query_one(AnswerPanel)
        assert panel.max_scroll_y > 0
        assert panel.scrollbars_enabled == (True, False)
        assert panel.vertical_scrollbar.size.width == 1
        assert short_answer_lines(screen.shown.answer)[0].split()[0] in pilot.text()
        await pilot.press("up")
        assert screen.focused_part == ANSWER
        await pilot.until_text("curl http", "end")


async def test_no_word_of_the_widest_table_of_a_pane_is_cut_at_120_columns(
    shipped: Context,
) -> None:
    app = AdvisorApp(LaunchOptions(open=TEXT), shipped)
    async with showing(ResultsScreen, app, (120, 100)) as (pilot, _):
        _, table = (await pilot.settle()).split("Generated text: ")
        heads = {head for head, _ in TEXT_COLUMNS}
        assert {word for head in heads for word in head.split()} <= {*table.split()}
        assert "\N{HORIZONTAL ELLIPSIS}" not in table


@pytest.mark.parametrize(
    ("width", "name"),
    [(80, "TinyLlama-1.1B-Chat-v1.0"), (120, "TinyLlama/TinyLlama-1.1B-Chat-v1.0")],
)
async def test_the_title_cuts_a_long_name_once_and_only_where_there_is_no_room(
    shipped: Context, width: int, name: str
) -> None:
    app = AdvisorApp(LaunchOptions(open=TEXT), shipped)
    async with showing(ResultsScreen, app, (width, 36)) as (pilot, _):
        assert f"Results  {name} " in pilot.text().splitlines()[0]


@pytest.mark.parametrize("width", [200, 120, 100, 80, 72, 60])
def test_the_title_shows_the_batch_sizes_at_every_width(width: int) -> None:
    document = read_answer(TEXT)
    shown = describe_question(document.question, document.device_name, width)
    assert len(shown) < width
    assert shown.endswith("batch 1,4,16,64")
    required = parse_constraints("performance>=B,memory<=2GiB")
    asked = builders.replace(document.question, constraints=required)
    shown = describe_question(asked, document.device_name, width)
    assert shown.endswith("batch 1,4,16,64 \N{MIDDLE DOT} Perf>=B memory<=2GiB")
    assert ("generate text" in shown) == (width >= 100)
    own = builders.replace(document.question, dtype="own")
    assert "own precision" in describe_question(own, document.device_name, width)


async def test_a_pane_shows_the_answer_for_the_weights_that_are_set_now(
    sample_app: AdvisorApp,
) -> None:
    async with showing(ResultsScreen, sample_app, (120, 40)) as (pilot, screen):
        await pilot.press("2", "right")
        for pane in PANE_SECTIONS:
            await pilot.press(str(list(PANES).index(pane) + 1))
            shown = screen.query_one(f"#text-{pane}", Markdown)
            expected = render_pane(screen.shown.answer, pane)
            await pilot.wait_for(lambda: shown.source == expected)  # noqa: B023 - waits at once
        await pilot.press("2")
        await pilot.settle()
        told = [
            str(each.render()) for each in screen.query("#text-answer, #weights-note").results()
        ]
        for bar in screen.query(WeightBar):
            assert all(f"{bar.pillar} {bar.weight:g} %" in each for each in told), "one scale"
        await pilot.press("u", "1")
        why = screen.query_one("#text-why", Markdown)
        await pilot.wait_for(lambda: why.source == render_pane(screen.original.answer, "why"))


@pytest.fixture(autouse=True)
def no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run commands without a terminal to leave and to return from."""
    monkeypatch.setattr(AdvisorApp, "suspend", lambda _: contextlib.nullcontext())
    monkeypatch.setattr("builtins.input", lambda _: "")


async def test_c_and_e_write_what_is_shown_and_v_waits_for_a_run(
    recorded_app: AdvisorApp,
    recorded: Run,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    app = recorded_app
    async with showing(ResultsScreen, app) as (pilot, results):
        advised, answer = "", answer_of_run(recorded)
        for keys in (["down"], ["2", "left", "left", "left"]):
            await pilot.press(*keys)
            await pilot.settle()
            before, advised = advised, built_answers.advice_of(results.shown.answer).arm
            assert advised != before, "other weights"
            await pilot.press("c")
            found = recipe_text.choose_recipe(answer, recorded, advised)
            assert recipe_text.render_short(answer, *found) in capfd.readouterr().out
        monkeypatch.setattr(app.run_controller, "refuse_if_busy", lambda: True)
        await pilot.press("v")
        await pilot.pause()
        assert app.screen is results
        field = (await pilot.reach(LineDialog, "e")).query_one(Input)
        assert field.value.endswith("-explored.html")
        file = tmp_path / "report.md"
        field.value = str(file)
        await pilot.until(file.exists, "enter")
        await pilot.wait_for_screen(ResultsScreen)
        assert f"Use {advised} for" in file.read_text()
        again = await pilot.reach(LineDialog, "e")
        again.query_one(Input).value = str(file)
        file.write_text("mine")
        await pilot.until_text("not written", "enter")
        assert file.read_text() == "mine", "no file is overwritten"
        await pilot.reach(ResultsScreen, "escape")


async def test_c_prints_the_code_of_a_file_and_keys_of_stored_runs_say_why_they_do_nothing(
    shipped: Context, capfd: pytest.CaptureFixture[str]
) -> None:
    (example,) = list_examples()
    app = AdvisorApp(LaunchOptions(open=str(example)), shipped)
    async with showing(ResultsScreen, app) as (pilot, results):
        await pilot.press("c")
        assert "vllm.LLM(" in capfd.readouterr().out
        for key, action in (("m", "measure_again"), ("v", "verify"), ("u", "undo")):
            await pilot.press(key)
            await pilot.pause()
            (notice,) = app._notifications
            assert results.refusal_of(action) in notice.message
            app.clear_notifications()
    assert app.exit_message() == ""


async def test_a_command_runs_in_the_terminal_after_a_confirmation(
    recorded_app: AdvisorApp, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    succeeded = []
    async with showing(ResultsScreen, recorded_app) as (pilot, _):
        for status in (0, 1):
            asked = tmp_path / f"asked-{status}"
            script = (
                f"import sys; open({str(asked)!r}, 'w').write(repr(sys.argv)); sys.exit({status})"
            )
            monkeypatch.setattr(terminal_app, "ADVISOR_COMMAND", (sys.executable, "-c", script))
            for key, is_asked in (("escape", False), ("y", True)):
                recorded_app.ask_to_run(
                    "Do it?", "", ["verify", "a b"], lambda: succeeded.append(1)
                )
                await pilot.wait_for_screen(ChoiceDialog)
                assert "p3-advisor verify a b" in pilot.text()
                await pilot.reach(ResultsScreen, key)
                assert asked.exists() is is_asked
            assert asked.read_text() == "['-c', 'verify', 'a b']"
    assert succeeded == [1]


async def test_b_in_the_results_asks_for_the_second_run_and_enter_compares(
    context: Context, capfd: pytest.CaptureFixture[str]
) -> None:
    first = make_run(context.store, finished=True)
    later = builders.CREATED + dt.timedelta(hours=1)
    second = make_run(context.store, finished=True, run_id="20261121-130000-0002", created=later)
    app = AdvisorApp(LaunchOptions(open=str(second.directory)), context)
    async with showing(ResultsScreen, app) as (pilot, _):
        home = await pilot.reach(HomeScreen, "b")
        table = home.query_one(Table)
        await pilot.wait_for_text("Compare with which run?")
        await pilot.wait_for(lambda: first.directory.name in table.rows)
        table.move_cursor_to(first.directory.name)
        await pilot.until(lambda: "compare" in pilot.key_hints())
        assert "open" not in pilot.key_hints()
        await pilot.press("enter")
    command, _, before, after = capfd.readouterr().out.splitlines()[:4]
    assert command.startswith("p3-advisor compare ")
    assert first.directory.name in before
    assert second.directory.name in after


async def test_a_low_terminal_shows_the_code_until_a_pane_is_read(shipped: Context) -> None:
    async with showing(ResultsScreen, AdvisorApp(LaunchOptions(open=TEXT), shipped)) as (pilot, _):
        call, grade = "tokens = [", "target needs"
        assert call in pilot.text()
        await pilot.press("1")
        text = await pilot.settle()
        assert call not in text
        assert grade in text


async def test_a_long_answer_leaves_room_for_the_tabs_at_every_size(shipped: Context) -> None:
    app = AdvisorApp(LaunchOptions(open=str(EVIDENCE / "cpu-demo-default.json")), shipped)
    async with showing(ResultsScreen, app) as (pilot, _):
        for size in ((80, 24), SMALLEST, (80, 20), (100, 30)):
            assert "5 Not measured" in await pilot.check_at(size)
