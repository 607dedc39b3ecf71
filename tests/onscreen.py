"""Run the terminal program without a terminal, and read what it shows."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

from rich.cells import cell_len
from textual.pilot import Pilot
from textual.widgets._footer import FooterKey

from advisor.context import Context
from advisor.store import Run
from advisor.tui.app import AdvisorApp
from advisor.tui.options import LaunchOptions

SIZES = [(80, 24), (100, 30), (140, 40), (60, 16)]
PATIENCE_SECONDS = 120
POLL_SECONDS, SETTLED_SECONDS = 0.02, 0.04


@contextlib.asynccontextmanager
async def shown(app: AdvisorApp, size: tuple[int, int] = (80, 24)) -> AsyncIterator[Pilot[int]]:
    """Run the app without a terminal; nothing of it goes on afterwards."""
    app.animation_level = "none"
    async with app.run_test(size=size, notifications=True) as pilot:
        await pilot.pause()
        # A screen that is still being put together must not be taken apart by a test that has
        # nothing more to ask.
        await wait_for(pilot, lambda: app.screen.is_mounted)
        try:
            yield pilot
        finally:
            app.runs.end()


async def wait_for(pilot: Pilot[int], condition: Callable[[], object]) -> None:
    """Wait until it holds."""
    end = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert pilot.app._exception is None
        assert time.monotonic() < end, lines_of(pilot)
        await asyncio.sleep(POLL_SECONDS)


async def wait_for_screen(pilot: Pilot[int], name: str) -> None:
    """Wait until the screen is shown and drawn."""
    await wait_for(
        pilot, lambda: type(pilot.app.screen).__name__ == name and pilot.app.screen.is_mounted
    )
    await settle(pilot)


async def settle(pilot: Pilot[int]) -> None:
    """Wait until what is shown changes no more."""
    before, now = "", " "
    while before != now:
        await pilot.pause(SETTLED_SECONDS)
        before, now = now, lines_of(pilot)


async def shown_at(pilot: Pilot[int], size: tuple[int, int]) -> str:
    """Return the screen at a size, as text; see that nothing is cut and that the help is among the keys."""
    if pilot.app.size != size:
        await pilot.resize_terminal(*size)
    await settle(pilot)
    hints = [hint for hint in pilot.app.screen.query(FooterKey) if hint.display]
    assert hints[0].action == "help" or pilot.app.screen.is_modal
    assert max(hint.region.right for hint in hints) <= size[0]
    lines = lines_of(pilot)
    assert all(cell_len(line) <= size[0] for line in lines.splitlines())
    return lines


def lines_of(pilot: Pilot[int]) -> str:
    """Return the screen as text."""
    strips = pilot.app.screen._compositor.render_strips()
    return "\n".join("".join(segment.text for segment in strip).rstrip() for strip in strips)


def replay(world: Context, run: Run, **wishes: Any) -> AdvisorApp:
    """Return the app that plays a recorded run back, at once."""
    return AdvisorApp(LaunchOptions(replay=str(run.directory), speed=1000.0, **wishes), world)


def asynchronous(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Let a test be a coroutine."""

    @functools.wraps(test)
    def run(*arguments: Any, **keywords: Any) -> None:
        asyncio.run(test(*arguments, **keywords))

    return run
