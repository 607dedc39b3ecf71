"""Modal screens: questions that one key or one line of text answers, help, and all commands.

The help is about the focused widget, the screen below and its keys.
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, ClassVar, Generic

import msgspec
from rich.text import Text
from textual.app import ComposeResult, SystemCommand
from textual.await_complete import AwaitComplete
from textual.binding import BindingType
from textual.command import CommandPalette
from textual.containers import Vertical, VerticalScroll
from textual.message import Message
from textual.screen import ModalScreen, Screen, ScreenResultType
from textual.widget import Widget
from textual.widgets import Input, OptionList, Static

from advisor.ask.catalogue_files import read_glossary
from advisor.ask.run_options import RunOptions
from advisor.store.runs import HistoryEntry
from advisor.tui import panels
from advisor.tui.widgets import HELP_ACTION, KeyFooter, bind, footer_place

if TYPE_CHECKING:
    from advisor.tui.app import AdvisorApp

#: Longest wait for a quiet machine.
WAIT_SECONDS = 300.0


class Dialog(ModalScreen[ScreenResultType]):
    """A modal screen that closes once.

    Textual pops whatever screen is on top, so a key that is pressed twice quickly would close the
    screen below, too.
    """

    def dismiss(self, result: ScreenResultType | None = None) -> AwaitComplete:
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
        Reply("k", "Keep it running", "keep", "quit; the run goes on, and Home opens it"),
        Reply(
            "c",
            "Cancel it",
            "cancel",
            "quit and cancel the run: its measurements are kept, p3-advisor resume continues it",
        ),
        Reply("escape", "Stay", ""),
    )
    return ChoiceDialog(f"Quit?  {panels.printable(run_status, 60)}", replies)


def yes_or_no(
    question: str, yes: str, no: str, details: str = "", *, keys: str = "y", meaning: str = ""
) -> ChoiceDialog[bool]:
    """Ask whether to do something; `yes` and `no` are labels, `meaning` says what yes does."""
    replies = (Reply(keys, yes, result=True, meaning=meaning), Reply("escape,n", no, result=False))
    return ChoiceDialog(question, replies, details)


def delete_dialog(entry: HistoryEntry) -> ChoiceDialog[bool]:
    facts = (entry.run_id, panels.model_name(entry.model), panels.printable(entry.device_name, 40))
    details = f"{'   '.join(facts)}\n{panels.printable(entry.note, 200)}"
    question = "Delete this run?  Its figures, logs and note cannot be recovered."
    return yes_or_no(question, "Delete it", "Keep it", details)


def start_dialog(
    question: str, work: str, problems: Sequence[str], wait_seconds: float
) -> ChoiceDialog[float | None]:
    """Ask for the seconds to wait for a quiet machine, 0 to start at once; None for no start.

    `work` is what would be measured. On a machine without problems the start keeps `wait_seconds`.
    """
    replies = [Reply[float | None]("y,enter", "Start", wait_seconds)]
    if problems:
        wait = f"wait at most {WAIT_SECONDS / 60:.0f} minutes until it is quiet"
        replies = [
            Reply[float | None]("w,enter", "Wait", WAIT_SECONDS, wait),
            Reply[float | None]("s", "Start now", 0.0),
        ]
    replies.append(Reply[float | None]("escape,n", "Do not start", None))
    question, details = with_warning(question, work, problems)
    return ChoiceDialog(question, replies, f"{details}\n")


def with_warning(question: str, details: str, problems: Sequence[str]) -> tuple[str, str]:
    """Return a question and its details with what keeps the machine from being quiet."""
    if not problems:
        return question, details
    busy = f"This machine is busy: {'; '.join(problems)}."
    outlook = "Times that are measured now may not decide anything."
    return f"{question}  {busy}".strip(), f"{details}\n{outlook}"


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


GENERAL = """\
F1  ?        help (in a field F1)   ctrl+p  all commands
esc          up one level           q  ctrl+q  quit
arrows j k   move                   tab     next widget
ctrl+g       the run in progress    H       Home, with the stored runs
ctrl+z       suspend; fg returns, and a run continues meanwhile"""
#: The option of the command line that a widget answers, where their names differ.
OPTION_NAMES = {"device": "gpu", "absent_gpu": "gpu"}


class HelpDialog(Dialog[None]):
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("escape,question_mark,f1,q,enter", "dismiss", "Close")
    ]

    def __init__(self, below: Screen[None]) -> None:
        super().__init__()
        self._below = below

    def compose(self) -> ComposeResult:
        focused, known = self._below.focused, read_glossary()
        widget_help = describe_widget(focused) if focused is not None else ""
        about = " ".join(getattr(self._below, "HELP_TEXT", "").split())
        first = getattr(self._below, "TERMS", ())
        others = sorted(known.keys() - set(first), key=str.lower)
        terms = [Text.assemble((each, "bold"), f"  {known[each]}\n") for each in (*first, *others)]
        with VerticalScroll(classes="dialog"):
            if widget_help:
                yield Static(f"{widget_help}\n", markup=False)
            for title, content in (
                ("Keys of this screen", self._keys()),
                ("This screen", Text(about)),
                ("Everywhere", Text(GENERAL)),
                ("Terms", Text().join(terms)),
            ):
                yield Static(Text.assemble((f"{title}\n", "bold"), content, "\n"), markup=False)
        yield KeyFooter()

    def _keys(self) -> Text:
        own = [
            active
            for active in self._below.active_bindings.values()
            if type(active.node).__module__.startswith("advisor.")
            and active.node is not self.app
            and active.binding.action != HELP_ACTION
            and (active.binding.show or active.tooltip)
        ]
        lines = []
        for active in sorted(own, key=lambda active: footer_place(active.binding.action)):
            label, meaning = active.binding.description, active.tooltip
            key = self.app.get_key_display(active.binding)
            lines.append(f"{key:<6} {label}{f': {meaning}' if meaning not in {'', label} else ''}")
        return Text("\n".join(dict.fromkeys(lines)))


def describe_widget(widget: Widget) -> str:
    """Return the help of the command-line option that a widget answers, and of the widget."""
    name = OPTION_NAMES.get(widget.id or "", widget.id or "")
    lines = []
    if name in RunOptions.__struct_fields__:
        _, meta = typing.get_args(typing.get_type_hints(RunOptions, include_extras=True)[name])
        lines.append(
            f"--{name.replace('_', '-')}: {typing.cast('msgspec.Meta', meta).description}."
        )
    lines += [" ".join(widget.HELP.split())] if widget.HELP else []
    return "\n".join(lines)


class Palette(CommandPalette):
    """A palette that closes and calls its command once, however often enter is pressed."""

    async def _dispatch_message(self, message: Message) -> None:
        is_choice = isinstance(message, Input.Submitted | OptionList.OptionSelected)
        if self.is_current or not is_choice:
            await super()._dispatch_message(message)


def available_commands(app: AdvisorApp) -> Iterable[SystemCommand]:
    yield SystemCommand("go: Home", "this machine and the stored runs", app.action_home)
    yield SystemCommand(
        "go: Questions", "ask a new question; a run continues", app.action_new_question
    )
    yield SystemCommand("go: Doctor", "check this machine for problems", app.action_doctor)
    yield SystemCommand("run: Start", "measure with the current answers", app.action_start_now)
