"""Run the terminal program without a terminal and read its screens."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from typing import Any, TypeVar

from rich.cells import cell_len
from textual._context import visible_screen_stack
from textual.pilot import Pilot
from textual.screen import Screen
from textual.widgets._footer import FooterKey

from advisor.ask.context import Context
from advisor.ask.run_options import RunOptions
from advisor.store.runs import Run
from advisor.tui.app import AdvisorApp
from advisor.tui.dialogs import ChoiceDialog
from advisor.tui.followed_run import StartRunner
from advisor.tui.home import HomeScreen
from advisor.tui.launch import LaunchOptions
from advisor.tui.live import LiveScreen
from advisor.tui.setup import SetupScreen

ScreenKind = TypeVar("ScreenKind", bound=Screen[Any])
SIZES = [(80, 24), (120, 40), (200, 60), (60, 16)]
#: Where lines and keys are cut off first.
SMALLEST = (60, 16)
TIMEOUT_SECONDS = 120
POLL_SECONDS, SETTLED_SECONDS = 0.03, 0.04


class ScreenPilot(Pilot[int]):
    """Presses keys, waits for what they do, and reads the screen."""

    async def wait_for(self, condition: Callable[[], object]) -> None:
        """Wait until a condition holds; fail at once if the app has crashed."""
        end = time.monotonic() + TIMEOUT_SECONDS
        while not condition():
            assert self.app._exception is None
            assert time.monotonic() < end, self.text()
            await asyncio.sleep(POLL_SECONDS)

    async def wait_for_text(self, text: str) -> None:
        await self.wait_for(lambda: text in self.text())

    async def wait_for_screen(self, kind: type[ScreenKind]) -> ScreenKind:
        """Wait until a screen of this class is on top and drawn; return it."""
        await self.wait_for(lambda: type(self.app.screen) is kind and self.app.screen.is_mounted)
        await self.settle()
        screen = self.app.screen
        assert isinstance(screen, kind)
        return screen

    async def until(self, condition: Callable[[], object], *keys: str) -> None:
        """Press keys that make a condition hold."""
        await self.press(*keys)
        await self.wait_for(condition)

    async def until_text(self, text: str, *keys: str) -> None:
        """Press keys that make a text appear."""
        await self.until(lambda: text in self.text(), *keys)

    async def reach(self, kind: type[ScreenKind], *keys: str) -> ScreenKind:
        """Press keys that open a screen of this class; return it."""
        await self.press(*keys)
        return await self.wait_for_screen(kind)

    async def go_to_step(self, index: int) -> SetupScreen:
        """Press enter until the question with this index is shown."""
        await self.wait_for(lambda: self.app.screen.is_mounted)
        if isinstance(self.app.screen, HomeScreen):
            await self.press("n")
        setup = await self.wait_for_screen(SetupScreen)
        while setup.step_index < index:
            left = setup.step_index
            await self.press("enter")
            await self.wait_for(lambda left=left: setup.step_index != left)  # type: ignore[misc]
        await self.settle()
        return setup

    async def start_run(self, key: str = "ctrl+r") -> LiveScreen:
        """Start a run by a key, by default with the present answers, and agree to its plan."""
        await self.reach(ChoiceDialog, key)
        return await self.reach(LiveScreen, "y")

    async def settle(self) -> str:
        """Wait until the screen does not change any more; return its text."""
        before, now = "", " "
        while before != now:
            await self.pause(SETTLED_SECONDS)
            before, now = now, self.text()
        return now

    async def check_at(self, size: tuple[int, int]) -> str:
        """Return the text of the screen at a size; assert that no line and no key is cut off."""
        if self.app.size != size:
            await self.resize_terminal(*size)
        text = await self.settle()
        hints = [hint for hint in self.app.screen.query(FooterKey) if hint.display]
        assert hints[0].action == "help" or self.app.screen.is_modal
        if not self.app.screen.is_modal and not isinstance(self.app.screen, HomeScreen):
            assert any(hint.key == "escape" for hint in hints)
        assert max(hint.region.right for hint in hints) <= size[0]
        assert all(cell_len(line) <= size[0] for line in text.splitlines())
        assert self.app.screen.max_scroll_y == 0, "the screen fits its terminal"
        return text

    def key_hints(self) -> set[str]:
        """Return the actions whose keys the footer shows."""
        return {hint.action for hint in self.app.screen.query(FooterKey) if hint.display}

    def text(self) -> str:
        """Return the screen as text, with the screens behind a dialog."""
        visible_screen_stack.set(self.app._background_screens)
        strips = self.app.screen._compositor.render_strips()
        return "\n".join("".join(segment.text for segment in strip).rstrip() for strip in strips)


@contextlib.asynccontextmanager
async def running_app(
    app: AdvisorApp, size: tuple[int, int] = (80, 24)
) -> AsyncIterator[ScreenPilot]:
    """Run the app inside the `with`, and end its runner afterwards."""
    app.animation_level = "none"
    async with app.run_test(size=size, notifications=True):
        pilot = ScreenPilot(app)
        await pilot.pause()
        # A short test must not end the app while the first screen is still being mounted.
        await pilot.wait_for(lambda: app.screen.is_mounted)
        try:
            yield pilot
        finally:
            app.run_controller.terminate()


@contextlib.asynccontextmanager
async def showing(
    kind: type[ScreenKind], app: AdvisorApp, size: tuple[int, int] = (80, 24)
) -> AsyncIterator[tuple[ScreenPilot, ScreenKind]]:
    """Run the app inside the `with`, from the time when a screen of this class is shown."""
    async with running_app(app, size) as pilot:
        yield pilot, await pilot.wait_for_screen(kind)


def opened_app(context: Context, run: Run) -> AdvisorApp:
    return AdvisorApp(LaunchOptions(open=str(run.directory)), context)


def asking_app(
    context: Context,
    runner: StartRunner | None = None,
    given: RunOptions | None = None,
    **run_options: Any,
) -> AdvisorApp:
    """Return the app with initial answers, by default for the CPU."""
    given = given or RunOptions(**{"gpu": "cpu", **run_options})
    return AdvisorApp(LaunchOptions(run_options=given), context, start_runner=runner)
