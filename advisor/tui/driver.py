"""How the screens take the terminal and give it back."""

from __future__ import annotations

from textual.drivers.linux_driver import LinuxDriver


class ScreenDriver(LinuxDriver):
    """A driver that takes the terminal once, also if SIGCONT arrives while the screens are shown.

    Textual's would take it again, and from then on restore the mode of the screens, in which
    commands get no enter. https://github.com/Textualize/textual/issues/3727 added the signal.
    """

    def start_application_mode(self) -> None:
        if self._key_thread is None or not self._key_thread.is_alive():
            super().start_application_mode()  # type: ignore[no-untyped-call]
