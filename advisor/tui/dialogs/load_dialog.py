"""Ask what to do about a machine that is busy before a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import Static

from advisor.domain.machine import QuietProblem
from advisor.tui.dialogs.dialog import Dialog
from advisor.tui.widgets.key_footer import KeyFooter

#: Longest wait for a quiet machine.
WAIT_SECONDS = 300.0
PROBLEMS: dict[QuietProblem, str] = {
    "cpu-busy": "other processes keep processors busy",
    "cpu-stolen": "the hypervisor takes processor time",
    "gpu-processes": "other processes use the GPU",
    "gpu-busy": "the GPU is busy",
    "gpu-clocks-held-down": "heat or a fault holds the clocks of the GPU down",
}


class LoadDialog(Dialog[float]):
    """Returns the seconds to wait for a quiet machine, 0 to start at once; None for no start."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("w,enter", f"dismiss({WAIT_SECONDS})", "Wait"),
        Binding("s", "dismiss(0.0)", "Start now"),
        Binding("escape", "dismiss(None)", "Do not start"),
    ]

    def __init__(self, problems: Sequence[QuietProblem]) -> None:
        super().__init__()
        self._problems = problems

    def compose(self) -> ComposeResult:
        found = "; ".join(PROBLEMS[problem] for problem in self._problems)
        with Vertical(classes="dialog"):
            yield Static(f"This machine is busy: {found}.", markup=False, classes="lead")
            yield Static(
                "Times that are measured now may not decide anything.\n\n"
                f"w    wait at most {WAIT_SECONDS / 60:.0f} minutes until it is quiet\n"
                "s    start now\n"
                "esc  do not start",
                markup=False,
            )
        yield KeyFooter()
