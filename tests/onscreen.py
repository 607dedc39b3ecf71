"""Run the terminal program without a terminal, and read what it shows."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

from textual.pilot import Pilot

from advisor.store import Run
from advisor.tui.app import AdvisorApp
from advisor.tui.wishes import Wishes
from advisor.world import World

PATIENCE_SECONDS = 60


@contextlib.asynccontextmanager
async def shown(app: AdvisorApp, size: tuple[int, int] = (80, 24)) -> AsyncIterator[Pilot[int]]:
    """Run the app without a terminal; nothing of it goes on afterwards."""
    async with app.run_test(size=size, notifications=True) as pilot:
        await pilot.pause()
        try:
            yield pilot
        finally:
            app.runs.end()


async def wait_for(pilot: Pilot[int], condition: Callable[[], object]) -> None:
    """Wait until it holds."""
    end = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < end, lines_of(pilot)
        await pilot.pause(0.05)


async def wait_for_screen(pilot: Pilot[int], name: str) -> None:
    """Wait until the screen is shown and drawn."""
    await wait_for(pilot, lambda: type(pilot.app.screen).__name__ == name and pilot.app.screen.is_mounted)
    await pilot.pause(0.2)


def lines_of(pilot: Pilot[int]) -> str:
    """Return the screen as text."""
    strips = pilot.app.screen._compositor.render_strips()
    return "\n".join("".join(segment.text for segment in strip).rstrip() for strip in strips)


def replay(world: World, run: Run, **wishes: Any) -> AdvisorApp:
    """Return the app that plays a recorded run back, at once."""
    return AdvisorApp(Wishes(replay=str(run.directory), speed=1000.0, **wishes), world)


def asynchronous(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Let a test be a coroutine."""

    @functools.wraps(test)
    def run(*arguments: Any, **keywords: Any) -> None:
        asyncio.run(test(*arguments, **keywords))

    return run
