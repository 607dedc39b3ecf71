"""The environment of a workflow, made from the plan: asked for, shown, stopped, failed."""

from __future__ import annotations

import functools
import os
import pathlib
import sys

import psutil
import pytest
from onscreen import asynchronous, lines_of, shown, shown_at, wait_for, wait_for_screen

from advisor.context import Context
from advisor.question.answers import Answers
from advisor.store import HOME_VARIABLE, Store
from advisor.tui.app import AdvisorApp
from advisor.tui.create_env_dialog import Making
from advisor.tui.options import LaunchOptions
from advisor.tui.screens.setup import Setup


def making(tui_world: Context, script: str) -> tuple[AdvisorApp, Making]:
    return AdvisorApp(LaunchOptions(answers=Answers(gpu="cpu")), tui_world), Making(
        "Rare", "1 MiB", (sys.executable, "-c", script), os.environ
    )


@asynchronous
async def test_what_is_said_is_shown_as_text_and_the_end_is_handed_back(
    tui_world: Context, tmp_path: pathlib.Path
) -> None:
    go_on = tmp_path / "go-on"
    app, screen = making(
        tui_world,
        "import pathlib, sys, time\n"
        "print('p3-advisor: rare: [red]making[/red] it \\x1b[31mnow', file=sys.stderr, flush=True)\n"
        f"while not pathlib.Path({str(go_on)!r}).exists(): time.sleep(0.01)\n",
    )
    handed: list[bool | None] = []
    async with shown(app) as pilot:
        await app.push_screen(screen, handed.append)
        await wait_for_screen(pilot, "Making")
        await shown_at(pilot, (80, 24))
        await wait_for(pilot, lambda: "y    make it" in lines_of(pilot))
        await pilot.press("y")
        await wait_for(pilot, lambda: "rare: [red]making[/red] it now" in lines_of(pilot))
        await wait_for(pilot, lambda: "s so far.  esc stops it" in lines_of(pilot))
        await pilot.press("y")
        go_on.touch()
        await wait_for_screen(pilot, "Setup")
    assert handed == [True]


@asynchronous
async def test_who_stops_it_has_it_take_back_what_it_began(
    tui_world: Context, tmp_path: pathlib.Path
) -> None:
    begun = tmp_path / "begun"
    app, screen = making(
        tui_world,
        "import pathlib, time\n"
        f"begun = pathlib.Path({str(begun)!r})\n"
        "try:\n    begun.touch(); time.sleep(3600)\n"
        "finally:\n    begun.unlink(); print('taken back')\n",
    )
    async with shown(app) as pilot:
        await app.push_screen(screen)
        await wait_for_screen(pilot, "Making")
        await pilot.press("y")
        await wait_for(pilot, begun.exists)
        await pilot.press("escape")
        await wait_for(
            pilot, lambda: "It was not made" in lines_of(pilot) and "taken back" in lines_of(pilot)
        )
        assert not begun.exists()
        await pilot.press("escape")
        await wait_for_screen(pilot, "Setup")


@asynchronous
async def test_nothing_is_made_that_nobody_waits_for(
    tui_world: Context, tmp_path: pathlib.Path
) -> None:
    number = tmp_path / "number"
    script = f"import os, pathlib, time; pathlib.Path({str(number)!r}).write_text(str(os.getpid())); time.sleep(3600)"
    app, screen = making(tui_world, script)
    async with shown(app) as pilot:
        await app.push_screen(screen)
        await wait_for_screen(pilot, "Making")
        await pilot.press("y")
        await wait_for(pilot, lambda: number.exists() and number.read_text())
        process = psutil.Process(int(number.read_text()))
        await pilot.press("ctrl+q")
    assert not psutil.pid_exists(process.pid)


def has_gone_on(setup: Setup, place: int) -> bool:
    return setup.place > place


@asynchronous
async def test_an_environment_is_offered_in_the_plan_and_why_it_was_not_made_is_told(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UV_OFFLINE", "1")
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("UV_FIND_LINKS", raising=False)
    world = Context(environment={**os.environ, HOME_VARIABLE: str(tmp_path)}, store=Store(tmp_path))
    async with shown(
        AdvisorApp(LaunchOptions(answers=Answers(gpu="cpu", workflows="openvino")), world),
        (100, 30),
    ) as pilot:
        setup = pilot.app.screen
        assert isinstance(setup, Setup)
        while setup.place < 3:
            before = setup.place
            await pilot.press("enter")
            await wait_for(pilot, functools.partial(has_gone_on, setup, before))
        await wait_for(pilot, lambda: "not-installed" in lines_of(pilot))
        assert "m Make environment" not in lines_of(pilot)
        while "openvino==" not in lines_of(pilot):
            await pilot.press("down")
        assert "m Make environment" in lines_of(pilot)
        await pilot.press("m")
        await wait_for_screen(pilot, "Making")
        assert "Make an environment for" in lines_of(pilot)
        await pilot.press("y")
        await wait_for(pilot, lambda: "It was not made" in lines_of(pilot))
        await shown_at(pilot, (80, 24))
        assert "No solution found" in lines_of(pilot)
        assert "next: mend what it says" in lines_of(pilot), lines_of(pilot)
        await pilot.press("escape")
        await wait_for_screen(pilot, "Setup")
    assert not [*(tmp_path / "environments").glob("openvino-*")]
