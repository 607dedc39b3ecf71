"""The text of the screens compared with stored goldens.

`python -m pytest tests/tui --update-goldens` writes the goldens. The runs are made by hand, so that
their figures never change.
"""

from __future__ import annotations

import os
import pathlib
import re
import time
from collections.abc import Mapping

import builders
import pytest
from kept.runs import EVIDENCE
from onscreen import SIZES, SMALLEST, ScreenPilot, asking_app, opened_app, running_app, showing
from recorded_runs import SECONDS, make_gpu_run, make_long_run, make_run

from advisor.ask.context import Context
from advisor.ask.run_options import RunOptions
from advisor.store.runs import Run
from advisor.store.store import Store
from advisor.tui.app import AdvisorApp
from advisor.tui.dialogs import HelpDialog
from advisor.tui.followed_run import FollowedRun
from advisor.tui.home import HomeScreen
from advisor.tui.launch import LaunchOptions
from advisor.tui.live import LiveScreen
from advisor.tui.results import DetailScreen, ResultsScreen

GOLDENS = pathlib.Path(__file__).parent / "goldens"
#: Of work in the background; a screen that differs is compared so long.
TIMEOUT_SECONDS = 60
#: Lists have more columns in a wide terminal, and a run in progress has fewer in the smallest one;
#: others look alike and are compared at the smaller of the usual sizes.
FURTHER_SIZES = {
    "live": SMALLEST,
    **dict.fromkeys(("home", "model", "generated", "detail"), (120, 40)),
}
#: Lines with the time differ in every run.
TIME = "elapsed"
#: The end of a scroll bar's thumb: after a resize under load, Textual may leave the old one drawn.
SCROLL_BAR_END = re.compile(r" *[▁-▇](?= *│?$)")


@pytest.fixture
def update(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--update-goldens"))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return Store(tmp_path_factory.mktemp("goldens"))


@pytest.fixture(scope="module")
def finished(store: Store) -> Run:
    return make_run(store, finished=True)


@pytest.fixture(scope="module")
def unfinished(store: Store) -> Run:
    return make_run(store, finished=False)


async def compare(name: str, pilot: ScreenPilot, *, update: bool) -> None:
    """Compare the screen with its golden at each size at which it differs."""
    await compare_at(SIZES[0], name, pilot, update=update)
    if name in FURTHER_SIZES:
        await compare_at(FURTHER_SIZES[name], name, pilot, update=update)


async def compare_at(size: tuple[int, int], name: str, pilot: ScreenPilot, *, update: bool) -> None:
    """Compare the screen at one size with its golden; wait for work in the background."""
    file = GOLDENS / f"{name}-{size[0]}x{size[1]}.txt"
    if update:
        GOLDENS.mkdir(exist_ok=True)
        file.write_text(constant_lines(await pilot.check_at(size)), encoding="utf-8")
    golden, end = file.read_text(encoding="utf-8"), time.monotonic() + TIMEOUT_SECONDS
    text = constant_lines(await pilot.check_at(size))
    while text != golden and time.monotonic() < end:
        text = constant_lines(await pilot.check_at(size))
    assert text == golden, file.name


async def compare_answers(
    app: AdvisorApp, size: tuple[int, int], files: Mapping[str, str], *, update: bool
) -> None:
    """Compare the results of runs or documents, one after the other, with their goldens."""
    async with running_app(app, size) as pilot:
        for name, file in files.items():
            app.run_controller.open(file)
            screen = await pilot.wait_for_screen(ResultsScreen)
            await compare_at(size, f"results-{name}", pilot, update=update)
            app.action_home()
            await pilot.wait_for(lambda screen=screen: app.screen is not screen)  # type: ignore[misc]


def constant_lines(screen: str) -> str:
    """Return the screen without the lines that differ in every run and without scroll bars."""
    lines = [
        SCROLL_BAR_END.sub("", line).rstrip() for line in screen.splitlines() if TIME not in line
    ]
    return "\n".join(lines).rstrip() + "\n"


@pytest.mark.slow
async def test_results_and_details(
    finished: Run, store: Store, tui_context: Context, *, update: bool
) -> None:
    context = builders.replace(tui_context, store=store)
    async with showing(ResultsScreen, opened_app(context, finished)) as (pilot, _):
        for size in (*SIZES[1:], SIZES[0]):
            await compare_at(size, "results", pilot, update=update)
        await pilot.press("2", "right", "right", "right", "right")
        await compare("explored", pilot, update=update)
        await pilot.press("u", "5")
        await compare("why-not", pilot, update=update)
        await pilot.reach(DetailScreen, "1", "shift+tab", "enter")
        await compare("detail", pilot, update=update)


#: Kept documents by what their answer is like.
DOCUMENTS = {
    "gpu-text": "h200-generate-tinyllama-bfloat16",
    "not-fit": "cpu-ffn-512x2048",
    "open": "cpu-demo",
    "served": "cpu-served-demo-llama",
}


@pytest.mark.slow
async def test_results_of_kept_documents(tui_context: Context, *, update: bool) -> None:
    shipped = Context(environment=tui_context.environment, store=tui_context.store)
    files = {name: str(EVIDENCE / f"{each}.json") for name, each in DOCUMENTS.items()}
    await compare_answers(AdvisorApp(LaunchOptions(), shipped), SIZES[1], files, update=update)


@pytest.mark.slow
async def test_results_of_equal_and_of_many_arms(app: AdvisorApp, *, update: bool) -> None:
    equal = {**SECONDS, "compiled": 0.0039}
    workflows = [builders.workflow(name) for name in ("compiled", "exported", "broken", "absent")]
    equally_good = make_run(
        app.context.store, finished=True, seconds_of=equal, catalogue=builders.catalogue(*workflows)
    )
    runs = {"equal": equally_good, "16-arms": make_long_run(app.context.store)}
    names = {name: run.directory.name for name, run in runs.items()}
    await compare_answers(app, SIZES[0], names, update=update)


@pytest.mark.slow
async def test_questions_and_help(
    finished: Run, tui_context: Context, monkeypatch: pytest.MonkeyPatch, *, update: bool
) -> None:
    machine = builders.gpu_machine()
    monkeypatch.setattr(AdvisorApp, "_detect_machine", lambda _: machine)
    context = builders.replace(tui_context, store=Store(finished.directory.parents[1]))
    app = asking_app(context, workflows="quick,alike")
    async with running_app(app) as pilot:
        await pilot.wait_for(lambda: app.machine is not None)
        for index, name in enumerate(("model", "target", "priorities", "plan")):
            await pilot.go_to_step(index)
            await compare(name, pilot, update=update)
        await pilot.reach(HelpDialog, "question_mark")
        await compare("help", pilot, update=update)


async def test_home_without_runs_and_with_them(
    app: AdvisorApp, monkeypatch: pytest.MonkeyPatch, *, update: bool
) -> None:
    monkeypatch.setattr(AdvisorApp, "_detect_machine", lambda _: builders.gpu_machine())
    monkeypatch.setattr(os, "getloadavg", lambda: (0.5, 0.5, 0.5))
    async with showing(HomeScreen, app) as (pilot, home):
        await pilot.wait_for(lambda: app.machine is not None)
        await compare("home-empty", pilot, update=update)
        for is_finished in (True, False):
            make_run(app.context.store, finished=is_finished)
        home.read_runs()
        await pilot.wait_for_text("2.29x")
        await pilot.until_text("Compare with", "down", "space")
        await compare("home", pilot, update=update)


@pytest.mark.slow
async def test_a_gpu_that_is_not_attached(
    tui_context: Context, tmp_path: pathlib.Path, *, update: bool
) -> None:
    run_options = RunOptions(gpu="H100", model="synthetic/ffn@8x16")
    make_gpu_run(Store(tmp_path), foreign=True)
    shipped = Context(
        environment=tui_context.environment, store=Store(tmp_path), now=tui_context.now
    )
    async with running_app(AdvisorApp(LaunchOptions(run_options=run_options), shipped)) as pilot:
        absent = await pilot.reach(ResultsScreen, "ctrl+r")
        await compare("absent-imported", pilot, update=update)
        await pilot.check_at(SMALLEST)
        await pilot.until(lambda: pilot.app.screen is not absent, "o")
        await pilot.wait_for_screen(ResultsScreen)


async def test_a_run_in_progress(unfinished: Run, app: AdvisorApp, *, update: bool) -> None:
    followed = FollowedRun(unfinished)
    followed.refresh()
    rank = builders.known(followed.ranking_job(0.0))
    followed.set_provisional(rank())
    async with running_app(app) as pilot:
        app.run_controller.show(followed)
        await pilot.wait_for_screen(LiveScreen)
        await compare("live", pilot, update=update)


async def test_text_generation(app: AdvisorApp, *, update: bool) -> None:
    async with running_app(app) as pilot:
        run = make_run(app.context.store, finished=False, generates=True)
        app.run_controller.show(FollowedRun(run))
        await pilot.wait_for_screen(LiveScreen)
        await pilot.wait_for_text("So far")
        await compare("generating", pilot, update=update)
        run = make_run(app.context.store, finished=True, generates=True)
        app.run_controller.open(run.directory.name)
        await pilot.wait_for_screen(ResultsScreen)
        await compare("generated", pilot, update=update)


async def test_the_questions_of_several_lengths(
    tui_context: Context, monkeypatch: pytest.MonkeyPatch, *, update: bool
) -> None:
    monkeypatch.setattr(AdvisorApp, "_detect_machine", lambda _: builders.machine())
    mix = "32:70,512:20,2048:10"
    app = asking_app(
        tui_context, workflows="quick,alike", input_tokens="32,512,2048", length_mix=mix
    )
    async with running_app(app) as pilot:
        await pilot.wait_for(lambda: app.machine is not None)
        for index, name in ((1, "target-lengths"), (3, "plan-lengths")):
            await pilot.go_to_step(index)
            await compare(name, pilot, update=update)
