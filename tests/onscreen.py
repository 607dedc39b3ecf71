"""Run the terminal program without a terminal and read its screens."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, TypeVar

from rich.cells import cell_len
from textual._context import visible_screen_stack
from textual.pilot import Pilot
from textual.screen import Screen
from textual.widgets._footer import FooterKey

from advisor.ask.context import Context
from advisor.ask.run_options import LaunchOptions, RunOptions
from advisor.store.runs import Run
from advisor.tui.app import AdvisorApp
from advisor.tui.dialogs import ChoiceDialog
from advisor.tui.home import HomeScreen
from advisor.tui.live import LiveScreen
from advisor.tui.session import StartHost
from advisor.tui.setup import SetupScreen

ScreenKind = TypeVar("ScreenKind", bound=Screen[Any])
SIZES = [(80, 24), (120, 40), (200, 60), (60, 16)]
#: Where lines and keys are cut off first.
SMALLEST = (60, 16)
TIMEOUT_SECONDS = 120
POLL_SECONDS, SETTLED_SECONDS = 0.03, 0.04


@contextlib.asynccontextmanager
async def running_app(
    app: AdvisorApp, size: tuple[int, int] = (80, 24)
) -> AsyncIterator[Pilot[int]]:
    """Run the app inside the `with`, and end its host process afterwards."""
    app.animation_level = "none"
    async with app.run_test(size=size, notifications=True) as pilot:
        await pilot.pause()
        # A short test must not end the app while the first screen is still being mounted.
        await wait_for(pilot, lambda: app.screen.is_mounted)
        try:
            yield pilot
        finally:
            app.run_controller.terminate()


async def wait_for(pilot: Pilot[int], condition: Callable[[], object]) -> None:
    """Wait until a condition holds; fail at once if the app has crashed."""
    end = time.monotonic() + TIMEOUT_SECONDS
    while not condition():
        assert pilot.app._exception is None
        assert time.monotonic() < end, screen_text(pilot)
        await asyncio.sleep(POLL_SECONDS)


async def wait_for_text(pilot: Pilot[int], text: str) -> None:
    await wait_for(pilot, lambda: text in screen_text(pilot))


async def wait_for_screen(pilot: Pilot[int], kind: type[ScreenKind]) -> ScreenKind:
    """Wait until a screen of this class is on top and drawn; return it."""
    await wait_for(pilot, lambda: type(pilot.app.screen) is kind and pilot.app.screen.is_mounted)
    await settle(pilot)
    screen = pilot.app.screen
    assert isinstance(screen, kind)
    return screen


async def go_to_step(pilot: Pilot[int], index: int) -> SetupScreen:
    """Press enter until the question with this index is shown."""
    await wait_for(pilot, lambda: pilot.app.screen.is_mounted)
    if isinstance(pilot.app.screen, HomeScreen):
        await pilot.press("n")
    setup = await wait_for_screen(pilot, SetupScreen)
    while setup.step_index < index:
        left = setup.step_index
        await pilot.press("enter")
        await wait_for(pilot, lambda left=left: setup.step_index != left)  # type: ignore[misc]
    await settle(pilot)
    return setup


async def start_run(pilot: Pilot[int], key: str = "ctrl+r") -> LiveScreen:
    """Start a run by a key, by default with the present answers, and agree to its plan."""
    await pilot.press(key)
    await wait_for_screen(pilot, ChoiceDialog)
    await pilot.press("y")
    return await wait_for_screen(pilot, LiveScreen)


async def settle(pilot: Pilot[int]) -> str:
    """Wait until the screen does not change any more; return its text."""
    before, now = "", " "
    while before != now:
        await pilot.pause(SETTLED_SECONDS)
        before, now = now, screen_text(pilot)
    return now


async def check_screen_at(pilot: Pilot[int], size: tuple[int, int]) -> str:
    """Return the text of the screen at a size; assert that no line and no key is cut off."""
    if pilot.app.size != size:
        await pilot.resize_terminal(*size)
    text = await settle(pilot)
    hints = [hint for hint in pilot.app.screen.query(FooterKey) if hint.display]
    assert hints[0].action == "help" or pilot.app.screen.is_modal
    if not pilot.app.screen.is_modal and not isinstance(pilot.app.screen, HomeScreen):
        assert any(hint.key == "escape" for hint in hints)
    assert max(hint.region.right for hint in hints) <= size[0]
    assert all(cell_len(line) <= size[0] for line in text.splitlines())
    return text


def key_hints(pilot: Pilot[int]) -> set[str]:
    """Return the actions whose keys the footer shows."""
    return {hint.action for hint in pilot.app.screen.query(FooterKey) if hint.display}


def screen_text(pilot: Pilot[int]) -> str:
    """Return the screen as text, with the screens behind a dialog."""
    visible_screen_stack.set(pilot.app._background_screens)
    strips = pilot.app.screen._compositor.render_strips()
    return "\n".join("".join(segment.text for segment in strip).rstrip() for strip in strips)


def opened_app(context: Context, run: Run) -> AdvisorApp:
    """Return the app that shows a run."""
    return AdvisorApp(LaunchOptions(open=str(run.directory)), context)


def asking_app(
    context: Context,
    host: StartHost | None = None,
    given: RunOptions | None = None,
    **run_options: Any,
) -> AdvisorApp:
    """Return the app with initial answers, by default for the CPU."""
    given = given or RunOptions(**{"gpu": "cpu", **run_options})
    return AdvisorApp(LaunchOptions(run_options=given), context, start_host=host)


def async_test(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    @functools.wraps(test)
    def run(*arguments: Any, **keywords: Any) -> None:
        asyncio.run(test(*arguments, **keywords))

    return run
