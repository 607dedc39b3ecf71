"""Texts on the screens: names, numbers and help; and the chosen theme."""

from __future__ import annotations

import asyncio
import datetime as dt
import pathlib
import threading
import uuid

import builders
import built_answers
import pytest
from onscreen import running_app, showing
from recorded_runs import make_run
from textual.widgets import Input, Static
from textual.widgets._footer import FooterKey

from advisor.ask.catalogue_files import read_glossary
from advisor.ask.context import Context
from advisor.ask.run_options import RunOptions
from advisor.domain.errors import OptionValueError, UserError
from advisor.domain.text import truncate_middle
from advisor.store.files import HOME_VARIABLE
from advisor.store.runs import Run
from advisor.store.store import Store
from advisor.tui import launch, panels
from advisor.tui.answer_panes import ShownAnswer, render_answer_lines
from advisor.tui.app import AdvisorApp
from advisor.tui.dialogs import HelpDialog, LineDialog, describe_widget
from advisor.tui.followed_run import FollowedRun
from advisor.tui.form import AnswerInput, Choice
from advisor.tui.home import HomeScreen
from advisor.tui.launch import BackgroundTasks, LaunchOptions
from advisor.tui.live import LiveScreen
from advisor.tui.results import DetailScreen, ResultsScreen
from advisor.tui.table import Table
from advisor.tui.widgets import HELP, MORE, WeightBar, hide_excess_hints

HOSTILE = [
    "[/",
    "[/tmp/x]",
    "{'a':[true]}",
    "[red]x[/red]",
    "\x1b[31mred",
    "a\x00b\x07",
    "\u202eevil\u202c",
    "n" * 10000,
    "\ud800",
]


@pytest.mark.parametrize("hostile", HOSTILE, ids=lambda hostile: ascii(hostile[:20]))
def test_control_characters_and_bidirectional_marks_are_escaped(hostile: str) -> None:
    line = panels.printable(hostile)
    assert len(line) <= panels.MAX_CHARACTERS
    assert all(character.isprintable() or character == " " for character in line)
    assert panels.printable("[/ [b]") == "[/ [b]"


async def test_a_hostile_model_name_is_shown_without_markup(sample_app: AdvisorApp) -> None:
    async with showing(ResultsScreen, sample_app) as (pilot, results):
        original = results.shown
        for name in HOSTILE[:-1]:
            model = builders.replace(original.answer.question.model, name=name)
            renamed = built_answers.with_question(original.answer, model=model)
            results.original = results.shown = builders.replace(original, answer=renamed)
            results.draw()
            await pilot.wait_for_text(panels.printable(name)[:4])


async def test_a_notification_has_no_control_characters(app: AdvisorApp) -> None:
    async with running_app(app) as pilot:
        app.notify("from a stack: \x1b[31m\u202e red")
        await pilot.wait_for_text("from a stack")
        assert not {"\x1b", "\u202e"} & set(pilot.text())


async def test_the_output_of_a_stack_is_shown_without_markup(
    app: AdvisorApp, tmp_path: pathlib.Path
) -> None:
    followed = FollowedRun(make_run(Store(tmp_path), finished=False))
    followed.refresh()
    log = followed.run.worker_log_path(str(followed.active_arm), 0)
    log.parent.mkdir(parents=True)
    log.write_bytes(
        "\n".join(hostile[:200] for hostile in HOSTILE[:-1]).encode()
        + b"\n\xff\xfe\n"
        + b"x" * 100_000
        + b"\nlast line\n"
    )
    async with running_app(app, (100, 40)) as pilot:
        app.run_controller.show(followed)
        live = await pilot.wait_for_screen(LiveScreen)
        live.query_one(Table).move_cursor_to(str(followed.active_arm))
        await pilot.wait_for_text("its log ends: [/ oh")
        await pilot.until_text("last line", "l")
        assert "compiled" in pilot.text(), "the enlarged log keeps the processes"


def test_the_end_of_a_log_is_read_without_escape_sequences(recorded: Run) -> None:
    state = recorded.state()
    file = recorded.worker_log_path("an-arm", 0)
    assert panels.read_log(recorded, state, "an-arm") == []
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(b"x" * 10_000_000)
    (line,) = panels.read_log(recorded, state, "an-arm")
    assert len(line) <= panels.MAX_CHARACTERS
    file.write_bytes(b"\x1b[31mred\x1b[0m\n\n10%\r20%\r100%\n\xff [/")
    lines = panels.read_log(recorded, state, "an-arm")
    assert lines == ["red", "100%", "\N{REPLACEMENT CHARACTER} [/"]


def test_durations_and_long_names_are_shortened() -> None:
    clocks = [panels.format_clock(seconds) for seconds in (0, 61, 3661)]
    assert clocks == ["00:00", "01:01", "1:01:01"]
    cut = truncate_middle("torch-compile-inductor/max-autotune", 21)
    assert cut == "torch-comp\N{HORIZONTAL ELLIPSIS}x-autotune"
    long = ("/a/long/way/to/a/net.py:build", "owner/net", "an-owner/a-net-of-20-letters")
    names = [panels.model_name(each, 20) for each in long]
    assert names == ["net.py:build", "owner/net", "a-net-of-20-letters"]


def test_the_timeline_tells_what_the_run_has_done(recorded: Run) -> None:
    followed = FollowedRun(recorded)
    followed.refresh()
    lines = followed.timeline
    assert "arms to measure" in lines[0]
    assert any("misbehaving/segfault: crashed" in line for line in lines), "with its reason"
    assert "finished after" in lines[-1]
    times = [line.split()[0] for line in lines]
    assert times == sorted(times)


def test_decision_and_trust_stand_above_the_code_of_which_no_line_is_cut() -> None:
    code = "".join(f"line_{number} = {' + '.join('x' * 50)}\n" for number in range(9))
    made = built_answers.with_measurement(built_answers.answer(), "compiled", integration=code)
    for width in (80, 120):
        shown = render_answer_lines(ShownAnswer(made, builders.shipped_catalogue()), width)
        lines = shown.plain.split("\n")
        decision, trust = (
            next(place for place, line in enumerate(lines) if word in line)
            for word in ("LIKELY", "Trust ")
        )
        first = next(place for place, line in enumerate(lines) if "line_0" in line)
        last = next(place for place, line in enumerate(lines) if "5 more" in line)
        assert 0 < decision < trust < first
        assert "".join(lines[first:last]).count("x") == 4 * 50
        assert max(map(len, lines)) <= width


def test_a_unit_stays_on_the_line_of_its_number_and_further_lines_hang() -> None:
    lines = panels.wrap("  they may differ by 16.7 % here", 24)
    assert lines == ["  they may differ by", "    16.7 % here"]


HINTS = [
    ("help", "?", "Help"),
    ("leave_out", "space", "Leave out"),
    ("next", "\N{RETURN SYMBOL}", "Next"),
    ("resume", "r", "Resume"),
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


async def test_a_report_can_be_exported_with_the_mouse_alone(
    sample_app: AdvisorApp, tmp_path: pathlib.Path
) -> None:
    async def click(label: str) -> None:
        (hint,) = (hint for hint in pilot.app.screen.query(FooterKey) if hint.description == label)
        assert await pilot.click(hint)

    async with showing(ResultsScreen, sample_app, (100, 30)) as (pilot, results):
        await pilot.press("2")
        bar = results.query_one("#weight-performance")
        assert await pilot.click(bar, offset=(90, 0))
        await pilot.wait_for(lambda: results.is_explored)
        await click("Export")
        dialog = await pilot.wait_for_screen(LineDialog)
        file = tmp_path / "clicked.json"
        dialog.query_one(Input).value = str(file)
        await click("Save")
        await pilot.wait_for(file.exists)
        await pilot.wait_for_screen(ResultsScreen)
        await click("Evidence")
        await pilot.wait_for_screen(DetailScreen)


def test_a_background_task_supersedes_earlier_tasks_of_its_kind() -> None:
    delivered, gate, called = list[object](), threading.Event(), threading.Event()

    def call_in_app(function: object, value: object) -> None:
        function(value)  # type: ignore[operator]
        called.set()

    def fail() -> int:
        raise OptionValueError("no", "yes")

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


def test_an_exception_in_a_thread_ends_the_app_and_leaves_a_crash_report(app: AdvisorApp) -> None:
    async def run() -> None:
        async with running_app(app) as pilot:
            app.background.start("defect", lambda: 1 / 0, print)
            await pilot.wait_for(lambda: app.defect is not None)

    with pytest.raises(ZeroDivisionError):
        asyncio.run(run())
    (report,) = pathlib.Path(app.context.environment["P3_ADVISOR_HOME"]).glob("crash-*.txt")
    assert "ZeroDivisionError" in report.read_text()


async def test_a_focused_field_stands_out_and_has_help(tui_context: Context) -> None:
    app = AdvisorApp(LaunchOptions(run_options=RunOptions(gpu="cpu")), tui_context)
    async with running_app(app, (100, 30)) as pilot:
        setup = await pilot.go_to_step(1)
        for name, option, usage in (
            ("batch_sizes", "--batch-sizes: ", AnswerInput.HELP),
            ("device", "--gpu: ", Choice.HELP),
        ):
            widget = setup.query_one(f"#{name}")
            description, explained = describe_widget(widget).splitlines()
            assert description.startswith(option)
            assert explained == usage
            widget.focus()
            await pilot.settle()
            labels = [each for each in setup.query("Field > Label") if each.rich_style.reverse]
            assert [each.parent for each in labels] == [widget.parent]
            assert pilot.text().splitlines()[-1].startswith("F1 Help")
            await pilot.reach(HelpDialog, "question_mark" if name == "device" else "f1")
            assert description[:60] in pilot.text()
            await pilot.press("escape")
            await pilot.wait_for_screen(type(setup))
        field = setup.query_one("#batch_sizes", Input)
        field.focus()
        await pilot.press("question_mark")
        assert field.value == "?"


@pytest.mark.slow
async def test_question_mark_explains_what_has_the_focus_then_the_keys_with_the_exits_last(
    sample_app: AdvisorApp,
) -> None:
    async with showing(ResultsScreen, sample_app, (100, 40)) as (pilot, screen):
        await pilot.press("2")
        assert isinstance(screen.focused, WeightBar)
        dialog = await pilot.reach(HelpDialog, "question_mark")
        about, keys, *_ = (str(found.render()) for found in dialog.query(Static).results(Static))
        assert about.strip() == describe_widget(screen.focused)
        _, *lines = keys.strip().split("\n")
        assert [line.split()[0] for line in lines[-2:]] == ["esc", "q"]
        assert lines[0].startswith("\N{LEFT RIGHT ARROW}")
        assert any("Export: write a report" in line for line in lines)


def test_every_term_that_a_screen_explains_first_is_in_the_glossary() -> None:
    screens = (HomeScreen, LiveScreen, ResultsScreen)
    assert {term for each in screens for term in each.TERMS} <= read_glossary().keys()


async def test_a_chosen_theme_is_used_at_the_next_start(
    tui_context: Context, tmp_path: pathlib.Path
) -> None:
    file = tmp_path / "theme"
    async with running_app(AdvisorApp(LaunchOptions(), tui_context, theme_file=file)) as pilot:
        assert not file.exists()
        pilot.app.theme = "p3-high-contrast"
        await pilot.wait_for(file.exists)
    for chosen, theme in (("", "p3-high-contrast"), ("p3-dark", "p3-dark")):
        app = AdvisorApp(LaunchOptions(theme=chosen), tui_context, theme_file=file)
        async with running_app(app):
            assert app.theme == theme


def test_a_theme_that_cannot_be_read_is_none(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "theme"
    assert launch.read_theme(file) == ""
    file.write_bytes(b"\xff")
    assert launch.read_theme(file) == ""
