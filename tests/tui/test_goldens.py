"""The screens as text, as they were when somebody last looked at them: `python -m pytest tests/tui --update-goldens` writes them anew.

They come from a run made by hand, so that no figure changes from one day to the next.
"""

from __future__ import annotations

import dataclasses
import pathlib
import sys
import time

import builders
import pytest
from onscreen import SIZES, asynchronous, lines_of, shown, shown_at, wait_for, wait_for_screen
from recorded_runs import make_run
from textual.pilot import Pilot

from advisor.context import Context
from advisor.question.answers import Answers
from advisor.store import Run, Store
from advisor.tui.app import AdvisorApp
from advisor.tui.options import LaunchOptions
from advisor.tui.run.session import Session

GOLDENS = pathlib.Path(__file__).parent / "goldens"
#: Less than that of other waits: a screen that does look different is not to keep the tests waiting
#: at every size.
PATIENCE_SECONDS = 20


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return Store(tmp_path_factory.mktemp("goldens"))


@pytest.fixture(scope="module")
def finished(store: Store) -> Run:
    return make_run(store, finished=True)


@pytest.fixture(scope="module")
def going_on(store: Store) -> Run:
    return make_run(store, finished=False)


async def compare(name: str, pilot: Pilot[int], *, update: bool) -> None:
    """Compare the screen at each size with what is kept, without the lines that tell time and load; no key and no line is cut."""
    for size in SIZES:
        await compare_at(size, name, pilot, update=update)


async def compare_at(size: tuple[int, int], name: str, pilot: Pilot[int], *, update: bool) -> None:
    """Compare the screen at one size; what a thread has still to bring is waited for, however busy the machine."""
    file = GOLDENS / f"{name}-{size[0]}x{size[1]}.txt"
    if update:
        GOLDENS.mkdir(exist_ok=True)
        file.write_text(kept_lines(await shown_at(pilot, size)), encoding="utf-8")
    golden, end = file.read_text(encoding="utf-8"), time.monotonic() + PATIENCE_SECONDS
    while (text := kept_lines(await shown_at(pilot, size))) != golden and time.monotonic() < end:
        pass
    assert text == golden, file.name


def kept_lines(drawn: str) -> str:
    lines = [
        line for line in drawn.splitlines() if "elapsed" not in line and "CPU  busy" not in line
    ]
    return "\n".join(lines).rstrip() + "\n"


@asynchronous
async def test_results_and_detail_look_as_they_did(
    finished: Run, tui_world: Context, request: pytest.FixtureRequest
) -> None:
    update = request.config.getoption("--update-goldens")
    async with shown(
        AdvisorApp(LaunchOptions(replay=str(finished.directory), speed=1000), tui_world)
    ) as pilot:
        await wait_for_screen(pilot, "Results")
        for size in SIZES:  # all screens at one size: a resize costs more than a key
            await compare_at(size, "results", pilot, update=update)
            await pilot.press("w", "right", "right", "right", "right")
            await compare_at(size, "explored", pilot, update=update)
            await pilot.press("u", "w", "x")
            await compare_at(size, "why-not", pilot, update=update)
            await pilot.press("x", "enter")
            await wait_for_screen(pilot, "Detail")
            await compare_at(size, "detail", pilot, update=update)
            await pilot.press("2")
            await wait_for(pilot, lambda: "visit   1" in lines_of(pilot))
            await compare_at(size, "timing", pilot, update=update)
            await pilot.press("escape")
            await wait_for_screen(pilot, "Results")


@asynchronous
async def test_the_questions_and_the_history_look_as_they_did(
    finished: Run,
    going_on: Run,
    tui_world: Context,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    software = builders.interpreter(executable=sys.executable, torch_cuda="13.0")
    here = builders.machine(gpus=(builders.gpu(),), gpu_problem=None, software=software)
    monkeypatch.setattr(AdvisorApp, "_look_at_machine", lambda _: here)
    assert finished.directory.parent == going_on.directory.parent
    store = Store(finished.directory.parents[1])
    update = request.config.getoption("--update-goldens")
    async with shown(
        AdvisorApp(
            LaunchOptions(answers=Answers(gpu="cpu", workflows="quick,alike")),
            dataclasses.replace(tui_world, store=store),
        )
    ) as pilot:
        app = pilot.app
        assert isinstance(app, AdvisorApp)
        await wait_for(pilot, lambda: app.machine is not None)
        await wait_for(pilot, lambda: "Stopped: run" in lines_of(pilot))
        await compare("model", pilot, update=update)
        for words, name in (
            ("Fancy CPU", "target"),
            ("sum to 100", "priorities"),
            ("ways to run", "plan"),
        ):
            await pilot.press("enter")
            await wait_for(pilot, lambda words=words: words in lines_of(pilot))  # type: ignore[misc]
            await compare(name, pilot, update=update)
        await pilot.press("question_mark")
        await wait_for_screen(pilot, "Help")
        await compare("help", pilot, update=update)
        await pilot.press("escape")
        app.action_history()
        await wait_for_screen(pilot, "History")
        await pilot.press("space", "down", "space")
        await compare("history", pilot, update=update)
        await pilot.press("c")
        await wait_for_screen(pilot, "Compare")
        await compare("compare", pilot, update=update)


@asynchronous
async def test_a_run_looks_as_it_did(
    going_on: Run, tui_world: Context, request: pytest.FixtureRequest
) -> None:
    async with shown(AdvisorApp(LaunchOptions(), tui_world)) as pilot:
        assert isinstance(pilot.app, AdvisorApp)
        session = Session.of(going_on)
        session.look()
        session.lead(session.ranking(0.0)())  # type: ignore[misc]
        pilot.app.runs.show(session)
        await wait_for_screen(pilot, "Live")
        await compare("live", pilot, update=request.config.getoption("--update-goldens"))


@asynchronous
async def test_generated_text_looks_as_it_did(
    tui_world: Context, tmp_path: pathlib.Path, request: pytest.FixtureRequest
) -> None:
    update = request.config.getoption("--update-goldens")
    store = Store(tmp_path)
    async with shown(
        AdvisorApp(LaunchOptions(), dataclasses.replace(tui_world, store=store))
    ) as pilot:
        assert isinstance(pilot.app, AdvisorApp)
        pilot.app.runs.show(Session.of(make_run(store, finished=False, generates=True)))
        await wait_for_screen(pilot, "Live")
        await compare("generating", pilot, update=update)
        pilot.app.runs.open(make_run(store, finished=True, generates=True).directory.name)
        await wait_for_screen(pilot, "Results")
        await compare("generated", pilot, update=update)
        await pilot.press("enter")
        await wait_for_screen(pilot, "Detail")
        await pilot.press("2")
        await wait_for(pilot, lambda: "first token after" in lines_of(pilot))
