"""The help dialog: it starts with the focused widget and the option that the widget answers."""

from __future__ import annotations

import pytest
from onscreen import async_test, go_to_step, replay_app, running_app, screen_text, wait_for_screen
from textual.widget import Widget

from advisor.context import Context
from advisor.question.answers import Answers
from advisor.store import Run
from advisor.tui.app import AdvisorApp
from advisor.tui.dialogs.help_dialog import HelpDialog, describe_widget
from advisor.tui.options import LaunchOptions
from advisor.tui.screens.results import ResultsScreen
from advisor.tui.widgets.answer_input import AnswerInput
from advisor.tui.widgets.choice import Choice
from advisor.tui.widgets.table import SelectableTable
from advisor.tui.widgets.weights import WeightBar


@pytest.mark.parametrize(
    ("widget_id", "option", "kind"),
    [
        ("batch_sizes", "--batch-sizes: ", AnswerInput),
        ("dtype", "--dtype: ", Choice),
        ("device", "--gpu: ", Choice),
    ],
)
@async_test
async def test_the_help_of_a_field_starts_with_its_option(
    widget_id: str, option: str, kind: type[Widget], tui_context: Context
) -> None:
    app = AdvisorApp(LaunchOptions(answers=Answers(gpu="cpu")), tui_context)
    async with running_app(app, (100, 30)) as pilot:
        setup = await go_to_step(pilot, 1)
        widget = setup.query_one(f"#{widget_id}")
        description, usage = describe_widget(widget).splitlines()
        assert description.startswith(option)
        assert usage == kind.HELP
        widget.focus()
        await pilot.press("f1")
        await wait_for_screen(pilot, HelpDialog)
        assert description[:60] in screen_text(pilot)


@async_test
async def test_weights_and_ranking_have_help_of_their_own(
    tui_context: Context, sample_run: Run
) -> None:
    async with running_app(replay_app(tui_context, sample_run), (100, 30)) as pilot:
        screen = await wait_for_screen(pilot, ResultsScreen)
        for kind, keys in ((SelectableTable, ()), (WeightBar, ("w",))):
            await pilot.press(*keys, "question_mark")
            await wait_for_screen(pilot, HelpDialog)
            focused = screen.focused
            assert isinstance(focused, kind)
            assert describe_widget(focused)[:60] in screen_text(pilot)
            await pilot.press("escape")
            await wait_for_screen(pilot, ResultsScreen)
