"""Widgets that Textual does not have: bars that change weights, a footer that hides keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import msgspec
from rich.cells import cell_len
from rich.text import Text
from textual import events
from textual.app import ComposeResult, RenderResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.message import Message
from textual.reactive import reactive
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Footer
from textual.widgets._footer import FooterKey

from advisor.domain.constraints import PILLARS, Priorities
from advisor.domain.recommendation import Flip

#: Colours of the three Ps, from the palette of Okabe and Ito, which every type of colour vision
#: distinguishes.
PILLAR_COLOURS = {"performance": "#e69f00", "productivity": "#56b4e9", "portability": "#009e73"}
FULL, EMPTY, TICK = "\N{FULL BLOCK}", "\N{LIGHT SHADE}", "\N{BLACK DIAMOND}"
WHOLE = 100
BAR_START = 23


def bind(
    keys: str, action: str, label: str = "", tooltip: str = "", *, priority: bool = False
) -> Binding:
    """Return the keys of an action: with a label in the last line, with either in the help."""
    show = bool(label)
    return Binding(keys, action, label or tooltip, show=show, priority=priority, tooltip=tooltip)


class WeightBar(Widget, can_focus=True):
    HELP = """\
Left and right change the weight by 5, with shift by 1. The other two share the rest, so that the
three always sum to 100 %. A mark shows the weight at which the recommendation changes."""

    BINDINGS: ClassVar[list[BindingType]] = [
        bind("left,minus", "step(-5)"),
        Binding("right,plus", "step(5)", "Change", key_display="\N{LEFT RIGHT ARROW}"),
        bind("shift+left", "step(-1)"),
        bind("shift+right", "step(1)"),
        bind("up,k", "app.focus_previous"),
        bind("down,j", "app.focus_next"),
    ]
    weight: reactive[float] = reactive(0.0)
    ticks: reactive[tuple[float, ...]] = reactive(())

    def __init__(self, pillar: str) -> None:
        super().__init__(id=f"weight-{pillar}")
        self.pillar = pillar

    def render(self) -> RenderResult:
        mark = ">" if self.has_focus else " "
        text = Text(
            f"{mark} {self.pillar.capitalize():<13}{self.weight:>5.3g} % ",
            no_wrap=True,
            style="bold" if self.has_focus else "",
        )
        width = self._bar_width()
        filled = round(width * self.weight / WHOLE)
        cells = [FULL] * filled + [EMPTY] * (width - filled)
        ticked = {min(int(width * tick / WHOLE), width - 1) for tick in self.ticks}
        colour = PILLAR_COLOURS[self.pillar]
        for position, cell in enumerate(cells):
            if position in ticked:
                text.append(TICK, "bold")
            else:
                text.append(cell, colour if cell == FULL else f"{colour} dim")
        return text

    def _bar_width(self) -> int:
        return max(self.size.width - BAR_START - 1, 4)

    def action_step(self, points: int) -> None:
        self._request(round(self.weight) + points)

    def on_mouse_down(self, event: events.MouseDown) -> None:
        self.capture_mouse()
        self._request_at(event.x)

    def on_mouse_move(self, event: events.MouseMove) -> None:
        if self.app.mouse_captured is self:
            self._request_at(event.x)

    def on_mouse_up(self) -> None:
        self.release_mouse()

    def _request_at(self, x: int) -> None:
        if x >= BAR_START:
            self._request(round((x - BAR_START) / max(self._bar_width() - 1, 1) * WHOLE))

    def _request(self, weight: float) -> None:
        # The next key counts from here, even before the other bars have followed.
        self.weight = float(min(max(weight, 0), WHOLE))
        self.query_ancestor(Weights).move(self.pillar, self.weight)


class Weights(Vertical):
    """The three bars; the weights always sum to 100."""

    class Changed(Message):
        def __init__(self, priorities: Priorities) -> None:
            super().__init__()
            self.priorities = priorities

        def can_replace(self, message: Message) -> bool:
            return isinstance(message, Weights.Changed)

    def __init__(self, priorities: Priorities) -> None:
        super().__init__(id="weights")
        self.priorities = priorities

    def compose(self) -> ComposeResult:
        for pillar in PILLARS:
            yield WeightBar(pillar)

    def on_mount(self) -> None:
        self.set_priorities(self.priorities)

    def set_priorities(self, priorities: Priorities) -> None:
        """Show other weights; sends no message."""
        self.priorities = priorities
        for bar in self.query(WeightBar):
            bar.weight = getattr(priorities, bar.pillar)

    def set_flips(self, flips: tuple[Flip, ...]) -> None:
        for bar in self.query(WeightBar):
            bar.ticks = tuple(flip.weight for flip in flips if flip.criterion == bar.pillar)

    def move(self, pillar: str, weight: float) -> None:
        """Set the weight of a pillar; the other two share the rest."""
        self.set_priorities(whole_numbers(self.priorities.with_weight(pillar, weight), pillar))
        self.post_message(self.Changed(self.priorities))


def whole_numbers(priorities: Priorities, kept: str) -> Priorities:
    """Round the weights to whole percent that sum to 100 without changing `kept`."""
    first, second = (name for name in PILLARS if name != kept)
    rest = WHOLE - round(getattr(priorities, kept))
    share = round(getattr(priorities, first))
    return msgspec.structs.replace(
        priorities, **{kept: float(WHOLE - rest), first: float(share), second: float(rest - share)}
    )


HELP_ACTION = "help"
#: Labels of the help, which lists all keys: while the footer shows all of them, and while not.
HELP, MORE = "Help", "More"
#: Actions that close a screen or the program, in the order in which their keys are shown.
EXIT_ACTIONS = ("back", "app.pop_screen", "app.home", "dismiss", "app.leave")


class KeyFooter(Footer):
    """A footer that hides the keys that do not fit; Textual's footer would cut them off."""

    def __init__(self) -> None:
        super().__init__(compact=True, show_command_palette=False)
        self._composed_bindings: list[object] = []

    def compose(self) -> ComposeResult:
        self._composed_bindings = self._bindings_to_show() if self._bindings_ready else []
        hints = [hint for hint in super().compose() if isinstance(hint, FooterKey)]
        hints.sort(key=lambda hint: footer_place(hint.action))
        hide_excess_hints(hints, self.app.size.width)
        yield from hints

    def bindings_changed(self, screen: Screen[object]) -> None:
        """Recompose the hints only if they differ, because that lays out the whole screen."""
        if not self._bindings_ready or self._composed_bindings != self._bindings_to_show():
            super().bindings_changed(screen)

    def _bindings_to_show(self) -> list[object]:
        active = self.screen.active_bindings.values()
        return [(each.binding, each.enabled) for each in active if each.binding.show]

    def on_resize(self) -> None:
        hide_excess_hints(list(self.query(FooterKey)), self.app.size.width)


def footer_place(action: str) -> int:
    """Return what sorts keys: the help first, and the exits last."""
    if action in EXIT_ACTIONS:
        return 1 + EXIT_ACTIONS.index(action)
    return -1 if action == HELP_ACTION else 0


def hide_excess_hints(hints: Sequence[FooterKey], width: int) -> None:
    """Hide the last of the hints between help and exits that do not fit into `width` cells.

    The label of the help says whether it has more of them.
    """
    cells = [cell_len(f"{hint.key_display} {hint.description} ") for hint in hints]
    room = width + 1 - sum(cells)
    for index, hint in reversed(list(enumerate(hints))):
        hint.display = room >= 0 or footer_place(hint.action) != 0
        if not hint.display:
            room += cells[index]
    label = HELP if all(hint.display for hint in hints) else MORE
    for hint in hints:
        if hint.action == HELP_ACTION:
            hint.description = label
            hint.refresh()
