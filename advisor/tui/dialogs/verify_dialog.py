"""Run the snippet of an arm and show whether it does what was measured."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType

from advisor.tui.dialogs.create_env_dialog import CreateEnvDialog


class VerifyDialog(CreateEnvDialog):
    """Runs `p3-advisor verify` after a confirmation and shows its output."""

    LEAD = "Run the code of {title} and check its outputs and its speed?"
    CHOICES = "y    run it; this takes the build and a few seconds\nesc  not now"
    RUNNING = "Running it"
    FAILED = "It does not do what was measured, or cannot be run; see below.  esc closes"
    SUCCEEDED = "Its outputs are right and it is as fast as measured.  esc closes"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "create", "Run it"),
        Binding("escape,n", "back", "Not now"),
    ]
