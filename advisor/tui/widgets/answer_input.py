"""An input whose footer names the effect of enter."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.widgets import Input


class AnswerInput(Input):
    """The input for one answer."""

    HELP = "Type the answer; an empty input stands for the grey text. Enter goes to the next step."

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "submit", "Next")]
