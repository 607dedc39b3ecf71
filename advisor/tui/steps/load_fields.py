"""The fields for a load of requests: the limits on their latency, their lengths and their rate."""

from __future__ import annotations

from typing import TypedDict

from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.widgets import Input, Label

from advisor.domain.catalogue import Catalogue
from advisor.question.answers import Answers
from advisor.question.load import FIRST_ITL, FIRST_TTFT
from advisor.tui.steps import checks
from advisor.tui.widgets.answer_input import AnswerInput


class LoadAnswers(TypedDict):
    """The options that the fields set."""

    ttft: str
    itl: str
    lengths: str
    rate: float
    gpus_per_model: int


#: The options of other tasks.
NO_LOAD: LoadAnswers = {"ttft": "", "itl": "", "lengths": "", "rate": 0.0, "gpus_per_model": 1}


class LoadFields(Vertical):
    """One line for each option of a load."""

    def __init__(self, answers: Answers, catalogue: Catalogue) -> None:
        super().__init__(id="load-fields")
        self._answers, self._catalogue = answers, catalogue

    def compose(self) -> ComposeResult:
        answers, rules = self._answers, self._catalogue.serving
        mixes = ", ".join(rules.lengths)
        count = answers.gpus_per_model
        fields = [
            ("ttft", "First token within", answers.ttft or FIRST_TTFT, FIRST_TTFT),
            ("itl", "Between tokens", answers.itl or FIRST_ITL, FIRST_ITL),
            ("request_lengths", "Request lengths", answers.lengths, f"{mixes}, or a file"),
            ("rate", "Requests/s needed", f"{answers.rate:g}" if answers.rate else "", "not known"),
            ("gpus_per_model", "GPUs per model", str(count) if count > 1 else "", "1"),
        ]
        for name, label, value, placeholder in fields:
            with Horizontal(classes="field"):
                yield Label(f"  {label:<21}", markup=False)
                check = checks.of_field(name, label, self._catalogue)
                yield AnswerInput(value, placeholder=placeholder, id=name, check=check)

    def typed(self) -> LoadAnswers:
        """Return the options; the texts have been checked."""
        return {
            "ttft": self._text("ttft"),
            "itl": self._text("itl"),
            "lengths": self._text("request_lengths"),
            "rate": float(self._text("rate") or 0),
            "gpus_per_model": int(self._text("gpus_per_model") or 1),
        }

    def _text(self, name: str) -> str:
        return self.query_one(f"#{name}", Input).value.strip()
