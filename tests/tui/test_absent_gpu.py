"""Answers for a GPU that is not attached, from a stored run."""

from __future__ import annotations

import os
import pathlib

import builders
import pytest
from onscreen import (
    SMALLEST,
    async_test,
    check_screen_at,
    key_hints,
    running_app,
    screen_text,
    wait_for,
    wait_for_screen,
    wait_for_text,
)
from recorded_runs import make_run

from advisor.ask.answers import Answers
from advisor.context import Context
from advisor.store.store import Store
from advisor.tui.app import AdvisorApp
from advisor.tui.launch import LaunchOptions
from advisor.tui.screens.results import AbsentGpuScreen, ResultsScreen
from advisor.tui.screens.setup import SetupScreen

GPU = builders.gpu(name="NVIDIA H100 80GB HBM3")


@pytest.fixture
def context(tmp_path: pathlib.Path) -> Context:
    """The shipped catalogue, and an imported run on a GPU that is not attached."""
    store = Store(tmp_path)
    question = builders.question(batch_sizes=(1,), device="cuda", gpu=GPU.uuid)
    make_run(
        store, finished=True, question=question, machine=builders.gpu_machine(GPU), imported=True
    )
    return Context(environment=dict(os.environ), store=store)


@pytest.mark.slow
@async_test
async def test_a_stored_run_answers_and_can_be_opened(context: Context) -> None:
    answers = Answers(gpu="H100", model="synthetic/ffn@8x16")
    async with running_app(AdvisorApp(LaunchOptions(answers=answers), context)) as pilot:
        await pilot.press("ctrl+r")
        await wait_for_screen(pilot, AbsentGpuScreen)
        # The footer shows its keys after the screen has been composed.
        await wait_for(pilot, lambda: "open" in key_hints(pilot))
        await check_screen_at(pilot, SMALLEST)
        assert "From a stored run" in screen_text(pilot)
        await pilot.press("r")
        await wait_for(pilot, lambda: type(pilot.app.screen) is ResultsScreen)


@async_test
async def test_an_error_is_shown_for_a_gpu_without_any_figures(tui_context: Context) -> None:
    answers = Answers(gpu="Abacus 9000")
    async with running_app(AdvisorApp(LaunchOptions(answers=answers), tui_context)) as pilot:
        await pilot.press("ctrl+r")
        await wait_for_text(pilot, "Abacus 9000")
        assert isinstance(pilot.app.screen, SetupScreen)
        assert pilot.app.screen.query_one("#error").has_class("-shown")
