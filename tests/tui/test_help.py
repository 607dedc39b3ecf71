"""The help: of the part that has the focus first, in the words of the option that it answers."""

from __future__ import annotations

import pytest
from onscreen import asynchronous, lines_of, replay, shown, wait_for, wait_for_screen

from advisor.context import Context
from advisor.question.answers import Answers
from advisor.store import Run
from advisor.tui.app import AdvisorApp
from advisor.tui.options import LaunchOptions


@pytest.mark.parametrize(
    ("part", "words"),
    [
        ("batch_sizes", ["--batch-sizes: batch sizes to measure", "Type the answer"]),
        ("dtype", ["--dtype: precision of weights", "Left and right, or space, choose"]),
        ("device", ["--gpu: index, UUID or name", "Left and right, or space, choose"]),
    ],
)
def test_a_question_s_part_is_explained_in_the_words_of_its_option(
    part: str, words: list[str], tui_world: Context
) -> None:
    @asynchronous
    async def look() -> None:
        async with shown(
            AdvisorApp(LaunchOptions(answers=Answers(gpu="cpu")), tui_world), (100, 30)
        ) as pilot:
            await pilot.press("enter")
            await wait_for(pilot, lambda: "Where will it run" in lines_of(pilot))
            pilot.app.screen.query_one(f"#{part}").focus()
            await pilot.press("f1")
            await wait_for_screen(pilot, "Help")
            assert all(each in lines_of(pilot) for each in [*words, "This screen"])

    look()


@asynchronous
async def test_the_weights_and_the_ranking_are_explained_each(
    tui_world: Context, recorded: Run
) -> None:
    async with shown(replay(tui_world, recorded), (100, 30)) as pilot:
        await wait_for_screen(pilot, "Results")
        await pilot.press("question_mark")
        await wait_for_screen(pilot, "Help")
        assert "enter opens the row" in lines_of(pilot)
        await pilot.press("escape", "w", "question_mark")
        await wait_for(pilot, lambda: "digits set it; = balances" in lines_of(pilot))
