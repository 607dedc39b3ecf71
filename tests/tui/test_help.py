"""Help about screens and widgets, and the settings of the user."""

from __future__ import annotations

import pathlib

import pytest
from onscreen import (
    async_test,
    go_to_step,
    replay_app,
    running_app,
    screen_text,
    wait_for,
    wait_for_screen,
)
from textual.pilot import Pilot
from textual.widgets import Static

from advisor.ask.rubric_files import read_glossary
from advisor.ask.run_options import RunOptions
from advisor.context import Context
from advisor.domain.constraints import PILLARS
from advisor.errors import SettingsError
from advisor.report.answer_files import read_answer
from advisor.report.ranking import ranking_columns
from advisor.store.runs import Run
from advisor.tui.answer import AnswerPanel, TextPane
from advisor.tui.app import AdvisorApp
from advisor.tui.dialogs import HelpDialog, LineDialog, describe_widget
from advisor.tui.launch import LaunchOptions, check_actions
from advisor.tui.progress import process_columns
from advisor.tui.screens.results import ResultsScreen
from advisor.tui.steps.form import AnswerInput, Choice
from advisor.tui.table import SelectableTable
from advisor.tui.widgets import WeightBar

EVIDENCE = pathlib.Path(__file__).parents[1] / "stacks" / "evidence"
#: It has the columns of generated text.
GENERATED = EVIDENCE / "h200-generate-tinyllama-bfloat16.json"
GLOSSARY = read_glossary()


@async_test
async def test_the_help_of_a_field_starts_with_its_option(tui_context: Context) -> None:
    app = AdvisorApp(LaunchOptions(run_options=RunOptions(gpu="cpu")), tui_context)
    async with running_app(app, (100, 30)) as pilot:
        setup = await go_to_step(pilot, 1)
        for name, option, usage in (
            ("batch_sizes", "--batch-sizes: ", AnswerInput.HELP),
            ("device", "--gpu: ", Choice.HELP),
        ):
            widget = setup.query_one(f"#{name}")
            description, explained = describe_widget(widget).splitlines()
            assert description.startswith(option)
            assert explained == usage
            widget.focus()
            await pilot.press("f1")
            await wait_for_screen(pilot, HelpDialog)
            assert description[:60] in screen_text(pilot)
            await pilot.press("escape")
            await wait_for_screen(pilot, type(setup))


async def open_help(pilot: Pilot[int]) -> str:
    """Open the help and return what it says about the focus; close it again."""
    below = pilot.app.screen
    await pilot.press("question_mark")
    dialog = await wait_for_screen(pilot, HelpDialog)
    shown = "\n".join(str(found.render()) for found in dialog.query("#at-focus").results(Static))
    await pilot.press("escape")
    await wait_for_screen(pilot, type(below))
    return shown


@pytest.mark.slow
@async_test
async def test_question_mark_explains_what_has_the_focus(
    tui_context: Context, sample_run: Run
) -> None:
    async with running_app(replay_app(tui_context, sample_run), (100, 40)) as pilot:
        screen = await wait_for_screen(pilot, ResultsScreen)
        table = screen.query_one(SelectableTable)
        shown = await open_help(pilot)
        assert shown.startswith(f"{table.key_at_cursor()}: ")
        explained = table.help_terms()
        assert {"Productivity", "grade", "score", "weights"} <= set(explained)
        assert all(f"{term}  {GLOSSARY[term]}" in shown for term in explained)

        await pilot.press("up")  # from the first row of the ranking
        assert screen.focused_part == "answer"
        shown = await open_help(pilot)
        assert all(f"{term}  {GLOSSARY[term]}" in shown for term in AnswerPanel.TERMS)

        for key, term in (("1", "declared"), ("2", "Performance"), ("3", "trust")):
            await pilot.press(key)
            assert f"{term}  {GLOSSARY[term]}" in await open_help(pilot)
        await pilot.press("2", "question_mark")
        await wait_for_screen(pilot, HelpDialog)
        assert isinstance(screen.focused, WeightBar)
        assert describe_widget(screen.focused)[:60] in screen_text(pilot)


def test_every_term_that_a_screen_explains_is_in_the_glossary() -> None:
    explained = {*AnswerPanel.TERMS}
    explained |= {term for terms in TextPane.TERMS.values() for term in terms}
    columns = ranking_columns(read_answer(str(GENERATED)), has_latency=True)
    explained |= {term for column in columns for term in column.terms}
    explained |= {term for pillar in PILLARS for term in WeightBar(pillar).help_terms()}
    explained |= {term for size in (False, True) for term in _terms_of_live(generates_text=size)}
    assert explained <= GLOSSARY.keys()


def _terms_of_live(*, generates_text: bool) -> set[str]:
    columns = process_columns(None, generates_text=generates_text)
    return {term for column in columns for term in column.terms}


def test_an_unknown_action_in_the_settings_is_an_error_with_the_known_ones() -> None:
    check_actions({"export": "ctrl+e", "quit": "ctrl+x", "verify": "v"})
    with pytest.raises(SettingsError) as refusal:
        check_actions({"exprt": "ctrl+e"})
    assert refusal.value.next_step == "did you mean export?"


@async_test
async def test_the_settings_change_keys(
    sample_run: Run, tui_context: Context, tmp_path: pathlib.Path
) -> None:
    file = tmp_path / "config.toml"
    file.write_text('[keys]\nexport = "ctrl+e"\n')
    app = AdvisorApp(
        LaunchOptions(replay=str(sample_run.directory), speed=1000), tui_context, settings_file=file
    )
    async with running_app(app) as pilot:
        await wait_for_screen(pilot, ResultsScreen)
        await pilot.press("ctrl+e")
        await wait_for_screen(pilot, LineDialog)


@async_test
async def test_a_chosen_theme_is_used_at_the_next_start(
    tui_context: Context, tmp_path: pathlib.Path
) -> None:
    file = tmp_path / "config.toml"
    async with running_app(AdvisorApp(LaunchOptions(), tui_context, settings_file=file)) as pilot:
        assert not file.exists()
        pilot.app.theme = "p3-high-contrast"
        await wait_for(pilot, file.exists)
    for chosen, theme in (("", "p3-high-contrast"), ("p3-dark", "p3-dark")):
        app = AdvisorApp(LaunchOptions(theme=chosen), tui_context, settings_file=file)
        async with running_app(app):
            assert app.theme == theme
