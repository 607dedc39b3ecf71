"""Help about the focused widget, the screen below and its keys; and the palette of all commands."""

from __future__ import annotations

import typing
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

import msgspec
from rich.text import Text
from textual.app import ComposeResult, SystemCommand
from textual.binding import BindingType
from textual.command import CommandPalette
from textual.containers import VerticalScroll
from textual.message import Message
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Input, OptionList, Static

from advisor.ask.rubric_files import read_glossary
from advisor.ask.run_options import RunOptions
from advisor.tui.questions import Dialog
from advisor.tui.widgets import KeyFooter, bind

if TYPE_CHECKING:
    from advisor.tui.app import AdvisorApp


GENERAL = """\
?  F1        this help              ctrl+p  all commands
esc          up one level           q  ctrl+q  quit
arrows hjkl  move                   tab     next widget
ctrl+g       the run in progress    H       the stored runs
ctrl+z       suspend; fg returns, and a run continues meanwhile
"""
#: The option of the command line that a widget answers, where their names differ.
OPTION_NAMES = {"device": "gpu", "absent_gpu": "gpu"}


class HelpDialog(Dialog[None]):
    """Explains the screen, its keys and the terms under the cursor."""

    BINDINGS: ClassVar[list[BindingType]] = [
        bind("escape,question_mark,f1,q,enter", "dismiss", "Close")
    ]

    def __init__(self, below: Screen[None]) -> None:
        super().__init__()
        self._below = below

    def compose(self) -> ComposeResult:
        focused, at_focus = self._below.focused, self._describe_focus()
        widget_help = describe_widget(focused) if focused is not None else ""
        about = " ".join(getattr(self._below, "HELP_TEXT", "").split())
        terms = render_terms(getattr(self._below, "TERMS", ()))
        with VerticalScroll(classes="dialog"):
            if widget_help:
                yield Static(f"{widget_help}\n", markup=False)
            if at_focus:
                yield Static(at_focus, id="at-focus", markup=False)
            for title, content in (
                ("This screen", Text(f"{about}\n")),
                ("Keys of this screen", self._keys()),
                ("\nEverywhere", Text(GENERAL)),
                ("Terms", terms),
            ):
                yield Static(Text.assemble((f"{title}\n", "bold"), content), markup=False)
        yield KeyFooter()

    def _describe_focus(self) -> Text:
        """Return what the row under the cursor is, and the terms at the focus."""
        description = getattr(self._below, "describe_focus", str)()
        terms = render_entries(terms_at(self._below.focused), glossary())
        return Text(f"{description}\n" if description else "") + terms

    def _keys(self) -> Text:
        lines = []
        for active in self._below.active_bindings.values():
            binding = active.binding
            is_own = (
                type(active.node).__module__.startswith("advisor.") and active.node is not self.app
            )
            if is_own and binding.action != "help" and (binding.show or active.tooltip):
                key = self.app.get_key_display(binding)
                lines.append(f"{key:<12} {active.tooltip or binding.description}")
        return Text("\n".join(dict.fromkeys(lines)))


def render_terms(first: Sequence[str]) -> Text:
    """Return the glossary, with the terms in `first` before the others."""
    known = glossary()
    others = sorted(known.keys() - set(first), key=str.lower)
    return render_entries((*first, *others), known)


def glossary() -> dict[str, str]:
    return read_glossary()


def render_entries(terms: Sequence[str], meanings: Mapping[str, str]) -> Text:
    parts = [((term, "bold"), f"  {meanings[term]}\n") for term in terms]
    return Text.assemble(*(part for pair in parts for part in pair))


def terms_at(widget: Widget | None) -> tuple[str, ...]:
    """Return the terms of the glossary that explain a widget, or what it contains at its cursor."""
    nodes = widget.ancestors_with_self if widget is not None else ()
    found: tuple[str, ...] = next(
        (node.help_terms() for node in nodes if hasattr(node, "help_terms")), ()
    )
    return found


def describe_widget(widget: Widget) -> str:
    """Return the help of the command-line option that a widget answers, and of the widget."""
    name = OPTION_NAMES.get(widget.id or "", widget.id or "")
    lines = []
    if name in RunOptions.__struct_fields__:
        _, meta = typing.get_args(typing.get_type_hints(RunOptions, include_extras=True)[name])
        lines.append(
            f"--{name.replace('_', '-')}: {typing.cast('msgspec.Meta', meta).description}."
        )
    widgets = [
        node
        for node in widget.ancestors_with_self
        if isinstance(node, Widget) and not isinstance(node, Screen)
    ]
    lines += [" ".join(node.HELP.split()) for node in widgets if node.HELP][:1]
    return "\n".join(lines)


class Palette(CommandPalette):
    """A palette that closes and calls its command once, however often enter is pressed."""

    async def _dispatch_message(self, message: Message) -> None:
        is_choice = isinstance(message, Input.Submitted | OptionList.OptionSelected)
        if self.is_current or not is_choice:
            await super()._dispatch_message(message)


def available_commands(app: AdvisorApp) -> Iterable[SystemCommand]:
    """Yield the commands that are possible now, titled `group: action`."""
    yield SystemCommand("go: Home", "this machine and the last runs", app.action_home)
    yield SystemCommand(
        "go: Questions", "ask a new question; a run continues", app.action_new_question
    )
    yield SystemCommand("go: History", "the stored runs", app.action_history)
    yield SystemCommand("go: Doctor", "check this machine for problems", app.action_doctor)
    yield SystemCommand("run: Start", "measure with the current answers", app.action_start_now)
    controller = app.run_controller
    if controller.session is not None and controller.session.is_controlled:
        yield SystemCommand("run: Show", "the run that is going on", app.action_show_run)
        yield SystemCommand(
            "run: Cancel", "end the run; its measurements are kept", controller.ask_to_cancel
        )
        yield SystemCommand(
            "run: Pause or continue", "after the current timed section", controller.toggle_pause
        )
