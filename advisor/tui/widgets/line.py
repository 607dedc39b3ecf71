"""A line to type in that says what enter does."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.widgets import Input


class Line(Input):
    """One answer, typed."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "submit", "Next")]
