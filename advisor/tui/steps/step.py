"""What the four questions share."""

from __future__ import annotations

from typing import Any, cast

import msgspec
from textual.containers import VerticalScroll

from advisor.question.answers import Answers
from advisor.tui.interfaces import Advisor


class Step(VerticalScroll, can_focus=False):
    """One question."""

    @property
    def advisor(self) -> Advisor:
        """The app."""
        return cast("Advisor", self.app)

    @property
    def answers(self) -> Answers:
        """The answers so far."""
        return self.advisor.answers

    def answer(self, **changes: Any) -> None:  # noqa: ANN401 - fields of Answers
        """Change some answers."""
        self.advisor.answers = msgspec.structs.replace(self.advisor.answers, **changes)

    def begin(self) -> None:
        """Show the answers as they are now, and take the focus."""

    def check(self) -> None:
        """Take in what was typed; raise the `UserError` that says what does not fit."""
