"""Run the script of an arm again and show whether it reaches the measured speed."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType

from advisor.tui.dialogs.create_env_dialog import CreateEnvDialog


class VerifyDialog(CreateEnvDialog):
    """Runs `p3-advisor verify` after a confirmation and shows its output."""

    LEAD = "Run the code of {title} again and compare its speed?"
    CHOICES = "y    run it; this takes the build and a few seconds\nesc  not now"
    RUNNING = "Running it"
    FAILED = "It does not reach the measured speed, or cannot be run; see below.  esc closes"
    SUCCEEDED = "It reaches the measured speed.  esc closes"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "create", "Run it"),
        Binding("escape,n", "back", "Not now"),
    ]
