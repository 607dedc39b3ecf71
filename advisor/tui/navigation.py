"""Switch between the screens that do not show a run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, cast

from textual.app import App, SystemCommand
from textual.screen import Screen

from advisor.tui.interfaces import AppInterface
from advisor.tui.screens.home import HomeScreen

if TYPE_CHECKING:
    from advisor.tui.screens.setup import SetupScreen


class NavigatedApp(App[int]):
    """An app whose first screen is Home, with an action for each other screen.

    Further screens are imported when they are needed, so that the first screen appears quickly.
    """

    _setup_screen: SetupScreen | None = None

    @property
    def app_interface(self) -> AppInterface:
        """The app, with the type that screens may use."""
        return cast("AppInterface", self)

    def get_default_screen(self) -> HomeScreen:
        return HomeScreen()

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        from advisor.tui import command_palette  # noqa: PLC0415 - rarely used

        own = command_palette.available_commands(self.app_interface)
        yield from command_palette.run_once([*super().get_system_commands(screen), *own])

    def action_command_palette(self) -> None:
        """Show all commands."""
        from advisor.tui.command_palette import Palette  # noqa: PLC0415 - rarely used

        if not isinstance(self.screen, Palette):
            self.push_screen(Palette(id="--command-palette"))

    def action_home(self) -> None:
        """Show the first screen."""
        while len(self.screen_stack) > 1:
            self.pop_screen()

    @property
    def setup_screen(self) -> SetupScreen:
        """The questions; they keep their answers while other screens are shown."""
        if self._setup_screen is None:
            from advisor.tui.screens.setup import SetupScreen  # noqa: PLC0415 - see the class

            self._setup_screen = SetupScreen()
            self.install_screen(self._setup_screen, "setup")
        return self._setup_screen

    @property
    def is_asking(self) -> bool:
        """Whether the questions are shown."""
        return self._setup_screen is not None and self.screen is self._setup_screen

    def action_setup(self) -> None:
        """Show the questions."""
        if not self.is_asking:
            self.action_home()
            self.push_screen(self.setup_screen)

    def action_new_question(self) -> None:
        """Show the first question."""
        self.action_setup()
        self.setup_screen.restart()

    def action_history(self) -> None:
        """Show the stored runs."""
        from advisor.tui.screens.history import HistoryScreen  # noqa: PLC0415 - see the class

        if not isinstance(self.screen, HistoryScreen):
            self.push_screen(HistoryScreen())

    def action_fleet(self) -> None:
        """Show the answers of the newest fleet."""
        from advisor.report.fleets import fleet_matrix  # noqa: PLC0415 - see the class
        from advisor.tui.screens.fleet import FleetScreen  # noqa: PLC0415 - see the class

        store = self.app_interface.context.store
        self.app_interface.background.start(
            "fleet",
            lambda: fleet_matrix.read_fleet("latest", store),
            lambda document: self.push_screen(FleetScreen(document)),
        )

    def action_doctor(self) -> None:
        """Show the findings about this machine."""
        from advisor.tui.screens.doctor import DoctorScreen  # noqa: PLC0415 - see the class

        if not isinstance(self.screen, DoctorScreen):
            self.push_screen(DoctorScreen())
