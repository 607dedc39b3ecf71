"""A GPU that is not attached, asked about in the terminal program: answered from a stored run or from published figures."""

from __future__ import annotations

import os
import pathlib

import builders
import pytest
from onscreen import SIZES, asynchronous, lines_of, shown, shown_at, wait_for, wait_for_screen
from recorded_runs import make_run
from textual.widgets import Input

from advisor.context import Context
from advisor.question.answers import Answers
from advisor.store import Store
from advisor.tui.app import AdvisorApp
from advisor.tui.options import LaunchOptions

GPU = builders.gpu(name="NVIDIA H100 80GB HBM3")


@pytest.fixture
def world(tmp_path: pathlib.Path) -> Context:
    """The shipped catalogue, and a finished run on a GPU that is not here."""
    store = Store(tmp_path)
    question = builders.question(batch_sizes=(1,), device="cuda", gpu=GPU.uuid)
    make_run(
        store, finished=True, question=question, machine=builders.gpu_machine(GPU), imported=True
    )
    return Context(environment=dict(os.environ), store=store)


@asynchronous
async def test_a_stored_run_answers_and_can_be_opened(world: Context) -> None:
    answers = Answers(gpu="H100", model="synthetic/ffn@8x16")
    async with shown(AdvisorApp(LaunchOptions(answers=answers), world)) as pilot:
        await pilot.press("ctrl+r")
        await wait_for_screen(pilot, "Elsewhere")
        assert "from a stored run" in lines_of(pilot)
        assert "Imported: measured" in lines_of(pilot)
        for size in SIZES:
            await shown_at(pilot, size)
        await pilot.press("r")
        await wait_for_screen(pilot, "Results")


@asynchronous
async def test_published_figures_answer_where_no_run_does(tmp_path: pathlib.Path) -> None:
    shipped = Context(environment=dict(os.environ), store=Store(tmp_path))
    async with shown(
        AdvisorApp(
            LaunchOptions(answers=Answers(model="TinyLlama/TinyLlama-1.1B-Chat-v1.0")), shipped
        )
    ) as pilot:
        await pilot.press("enter")
        await wait_for(pilot, lambda: "Or a GPU not here" in lines_of(pilot))
        pilot.app.screen.query_one("#elsewhere").value = "RTX 4090"  # type: ignore[attr-defined]
        await pilot.press("ctrl+r")
        await wait_for_screen(pilot, "Elsewhere")
        assert "from published figures" in lines_of(pilot)
        assert "r Open the run" not in lines_of(pilot)
        await pilot.press("e")
        await wait_for_screen(pilot, "Export")
        file = tmp_path / "published.html"
        pilot.app.screen.query_one(Input).value = str(file)
        await pilot.press("enter")
        await wait_for(pilot, file.exists)
        assert "published for the RTX 4090" in file.read_text()
        await wait_for_screen(pilot, "Elsewhere")
        await pilot.press("escape")
        await wait_for_screen(pilot, "Setup")


@asynchronous
async def test_a_gpu_of_which_nothing_is_known_is_told(tui_world: Context) -> None:
    async with shown(
        AdvisorApp(LaunchOptions(answers=Answers(gpu="Abacus 9000")), tui_world)
    ) as pilot:
        await pilot.press("ctrl+r")
        await wait_for(pilot, lambda: "there is no GPU" in lines_of(pilot))
