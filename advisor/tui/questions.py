"""Modal questions that the user answers with one key or one line of text."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import ClassVar, Generic

from textual.app import ComposeResult
from textual.await_complete import AwaitComplete
from textual.binding import BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen, ScreenResultType
from textual.widgets import Input, Static

from advisor.store.runs import HistoryEntry
from advisor.tui import text
from advisor.tui.widgets import KeyFooter, bind

#: Longest wait for a quiet machine.
WAIT_SECONDS = 300.0


class Dialog(ModalScreen[ScreenResultType]):
    """A modal screen that closes once.

    Textual pops whatever screen is on top, so a key that is pressed twice quickly would close the
    screen below, too.
    """

    def dismiss(self, result: ScreenResultType | None = None) -> AwaitComplete:
        """Close the dialog; do nothing if it is closed already."""
        if not self.is_current:
            return AwaitComplete()
        return super().dismiss(result)


@dataclasses.dataclass(frozen=True)
class Reply(Generic[ScreenResultType]):
    """What a question is answered with by one key; further keys are separated by commas."""

    keys: str
    label: str
    result: ScreenResultType
    #: What the reply does, where that is more than its label.
    meaning: str = ""

    def __str__(self) -> str:
        key = self.keys.partition(",")[0].replace("escape", "esc")
        return f"{key:<4} {self.meaning or self.label[0].lower() + self.label[1:]}"


class ChoiceDialog(Dialog[ScreenResultType]):
    """A question, and what its replies do."""

    def __init__(
        self, question: str, replies: Sequence[Reply[ScreenResultType]], details: str = ""
    ) -> None:
        super().__init__()
        self.question, self._replies, self._details = question, replies, details
        for number, reply in enumerate(replies):
            self._bindings.bind(reply.keys, f"reply({number})", reply.label)

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Static(self.question, markup=False, classes="lead")
            yield Static("\n".join([self._details, *map(str, self._replies)]), markup=False)
        yield KeyFooter()

    def action_reply(self, number: int) -> None:
        self.dismiss(self._replies[number].result)


def quit_dialog(run_status: str) -> ChoiceDialog[str]:
    """Ask what to do with a run in progress: `keep`, `cancel`, or an empty text to stay."""
    replies = (
        Reply("k", "Keep it running", "keep", "quit and keep the run: the history opens it later"),
        Reply(
            "c",
            "Cancel it",
            "cancel",
            "quit and cancel the run: its measurements are kept, p3-advisor resume continues it",
        ),
        Reply("escape", "Stay", ""),
    )
    return ChoiceDialog(f"Quit?  {text.printable(run_status, 60)}", replies)


def yes_or_no(
    question: str, yes: str, no: str, details: str = "", *, keys: str = "y", meaning: str = ""
) -> ChoiceDialog[bool]:
    """Ask whether to do something; `yes` and `no` are labels, `meaning` says what yes does."""
    replies = (
        Reply(keys, yes, result=True, meaning=meaning),
        Reply("escape,n", no, result=False),
    )
    return ChoiceDialog(question, replies, details)


def cancel_dialog() -> ChoiceDialog[bool]:
    question = "Cancel this run?  Its measurements are kept, and it can be resumed."
    return yes_or_no(question, "Cancel the run", "Continue", keys="y,x")


def skip_dialog(arm: str) -> ChoiceDialog[bool]:
    question = f"Skip {text.printable(arm, 60)}?  This run does not measure it any further."
    return yes_or_no(question, "Skip it", "Continue", keys="y,s")


def delete_dialog(entry: HistoryEntry) -> ChoiceDialog[bool]:
    facts = (entry.run_id, text.model_name(entry.model), text.printable(entry.device, 40))
    details = f"{'   '.join(facts)}\n{text.printable(entry.note, 200)}"
    question = "Delete this run?  Its figures, logs and note cannot be recovered."
    return yes_or_no(question, "Delete it", "Keep it", details)


def command_dialog(question: str, details: str, arguments: Sequence[str]) -> ChoiceDialog[bool]:
    """Ask whether to run a command of this program, which takes over the terminal."""
    command = text.printable(" ".join(("p3-advisor", *arguments)), 200)
    return yes_or_no(question, "Run it", "Not now", f"{details}\n", meaning=f"run {command}")


def start_dialog(
    question: str, work: str, problems: Sequence[str], wait_seconds: float
) -> ChoiceDialog[float | None]:
    """Ask for the seconds to wait for a quiet machine, 0 to start at once; None for no start.

    `work` is what would be measured. On a machine without problems the start keeps `wait_seconds`.
    """
    replies = [Reply[float | None]("y,enter", "Start", wait_seconds)]
    details = [work]
    if problems:
        busy = f"This machine is busy: {'; '.join(problems)}."
        question = f"{question}  {busy}".strip()
        details.append("Times that are measured now may not decide anything.")
        wait = f"wait at most {WAIT_SECONDS / 60:.0f} minutes until it is quiet"
        replies = [
            Reply[float | None]("w,enter", "Wait", WAIT_SECONDS, wait),
            Reply[float | None]("s", "Start now", 0.0),
        ]
    replies.append(Reply[float | None]("escape,n", "Do not start", None))
    return ChoiceDialog(question, replies, "\n".join([*details, ""]))


class LineInput(Input):
    """An input whose key is shown in the footer."""

    BINDINGS: ClassVar[list[BindingType]] = [bind("enter", "submit", "Save")]


class LineDialog(Dialog[None]):
    """Asks for a line of text; `save` takes it, and returns why the dialog stays open, if so."""

    BINDINGS: ClassVar[list[BindingType]] = [bind("escape", "dismiss", "Close")]

    def __init__(
        self, lead: str, proposed: str, save: Callable[[str], str], placeholder: str = ""
    ) -> None:
        super().__init__()
        self._lead, self._proposed, self._save = lead, proposed, save
        self._placeholder = placeholder

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Static(self._lead, markup=False, classes="lead")
            yield LineInput(self._proposed, placeholder=self._placeholder)
            yield Static("", id="note", markup=False)
        yield KeyFooter()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        note = self._save(event.value.strip())
        self.query_one("#note", Static).update(note)
        if not note:
            self.dismiss()
