"""Help for the screen below: what it shows and its keys."""

from __future__ import annotations

import typing
from typing import ClassVar

import msgspec
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen, Screen
from textual.widget import Widget
from textual.widgets import Static

from advisor.question.answers import Answers
from advisor.tui.widgets.keys import Keys

GENERAL = """\
?  F1        this help              ctrl+p  all commands
esc          up one level           q  ctrl+q  quit
arrows hjkl  move                   tab     next part
ctrl+o       jump to any part       y       copy, where there is something to copy
ctrl+z       suspend; fg comes back, and a run goes on meanwhile
"""
WORDS = """\
Tiers        A best, B, C least. Trust: A to D, how far the measurement can be relied on.
Verdicts     PROVEN every rival is slower; TIE slower or as fast; SAFE none can be faster
             by more than the margin; INCONCLUSIVE the noise hides who is fastest.
Noise floor  the most that two equal processes may differ by here.
Phases       queued, start, import, imported, load, compile, correctness, warm-up, ready,
             measure, done.
"""
#: Parts that answer an option of another name.
OPTIONS = {"device": "gpu", "elsewhere": "gpu"}


class Help(ModalScreen[None]):
    """The help."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,question_mark,f1,q,enter", "dismiss", "Close")
    ]

    def __init__(self, below: Screen[None]) -> None:
        super().__init__()
        self._below = below

    def compose(self) -> ComposeResult:
        """Show the words of what has the focus, of the screen below, then those for all screens."""
        part = words_of_part(self._below.focused) if self._below.focused is not None else ""
        with VerticalScroll(classes="dialog"):
            if part:
                yield Static(Text(part), markup=False)
                yield Static(Text("\nThis screen", style="bold"), markup=False)
            yield Static(
                Text(" ".join(getattr(self._below, "HELP_TEXT", "").split()) + "\n"), markup=False
            )
            yield Static(Text("Keys of this screen", style="bold"), markup=False)
            yield Static(self._keys(), markup=False)
            yield Static(Text("\nEverywhere", style="bold"), markup=False)
            yield Static(GENERAL, markup=False)
            yield Static(Text("Words", style="bold"), markup=False)
            yield Static(WORDS, markup=False)
        yield Keys()

    def _keys(self) -> Text:
        lines = []
        for active in self._below.active_bindings.values():
            binding = active.binding
            ours = (
                type(active.node).__module__.startswith("advisor.") and active.node is not self.app
            )
            if ours and binding.action != "help" and (binding.show or active.tooltip):
                lines.append(
                    f"{self.app.get_key_display(binding):<12} {active.tooltip or binding.description}"
                )
        return Text("\n".join(dict.fromkeys(lines)))


def words_of_part(part: Widget) -> str:
    """Return what an option asks for, in the words of the command line, and how its part of the screen is used."""
    name = OPTIONS.get(part.id or "", part.id or "")
    lines = []
    if name in Answers.__struct_fields__:
        _, meta = typing.get_args(typing.get_type_hints(Answers, include_extras=True)[name])
        lines.append(
            f"--{name.replace('_', '-')}: {typing.cast('msgspec.Meta', meta).description}."
        )
    inside = [
        node
        for node in part.ancestors_with_self
        if isinstance(node, Widget) and not isinstance(node, Screen)
    ]
    lines += [node.HELP for node in inside if node.HELP][:1]
    return "\n".join(lines)
