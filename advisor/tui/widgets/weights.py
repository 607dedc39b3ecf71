"""Bars for the weights of the three Ps: moved by keys or mouse, with a tick where the answer would change."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual import events
from textual.app import ComposeResult, RenderResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.message import Message
from textual.reactive import reactive
from textual.widget import Widget

from advisor.domain.decision import Flip
from advisor.domain.question import PILLARS, Priorities
from advisor.tui.themes import PILLAR_COLOURS

FULL, EMPTY, TICK = "\N{FULL BLOCK}", "\N{LIGHT SHADE}", "\N{BLACK DIAMOND}"
WHOLE = 100


class WeightBar(Widget, can_focus=True):
    """The weight of one P on one line."""

    HELP = """\
Left and right move the weight by 5, with shift by 1; digits set it; = balances. The two others share the
rest, so that the three always sum to 100 %. Marks stand where the answer would change."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left,h,minus", "step(-5)", show=False),
        Binding("right,l,plus", "step(5)", show=False),
        Binding("shift+left", "step(-1)", show=False),
        Binding("shift+right", "step(1)", show=False),
        Binding("up,k", "app.focus_previous", show=False),
        Binding("down,j", "app.focus_next", show=False),
        *[Binding(str(digit), f"type({digit})", show=False) for digit in range(10)],
    ]
    weight: reactive[float] = reactive(0.0)
    ticks: reactive[tuple[float, ...]] = reactive(())

    class Moved(Message):
        """The user wants another weight; of several that wait only the last counts."""

        def __init__(self, bar: WeightBar, weight: float) -> None:
            super().__init__()
            self.bar, self.weight = bar, weight

        @property
        def control(self) -> WeightBar:
            """The bar."""
            return self.bar

        def can_replace(self, message: Message) -> bool:
            """Say whether this makes an earlier one needless."""
            return isinstance(message, WeightBar.Moved) and message.bar is self.bar

    def __init__(self, pillar: str) -> None:
        super().__init__(id=f"weight-{pillar}")
        self.pillar = pillar
        self._typed = ""

    def render(self) -> RenderResult:
        """Draw label, figure and bar."""
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
        for place, cell in enumerate(cells):
            if place in ticked:
                text.append(TICK, "bold")
            else:
                text.append(cell, colour if cell == FULL else f"{colour} dim")
        return text

    def _bar_width(self) -> int:
        return max(self.size.width - 24, 4)

    def action_step(self, points: int) -> None:
        """Move by so many percent."""
        self._typed = ""
        self._wish(round(self.weight) + points)

    def action_type(self, digit: int) -> None:
        """Set the weight by typing it."""
        self._typed = f"{self._typed}{digit}"[-3:]
        if int(self._typed) > WHOLE:
            self._typed = str(digit)
        self._wish(int(self._typed))

    def on_blur(self) -> None:
        """Forget half a number."""
        self._typed = ""

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """Begin to drag."""
        self.capture_mouse()
        self._point(event.x)

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """Follow the mouse."""
        if self.app.mouse_captured is self:
            self._point(event.x)

    def on_mouse_up(self) -> None:
        """Let go."""
        self.release_mouse()

    def _point(self, x: int) -> None:
        if x >= 23:  # noqa: PLR2004 - where the bar begins
            self._wish(round((x - 23) / max(self._bar_width() - 1, 1) * WHOLE))

    def _wish(self, weight: float) -> None:
        self.post_message(self.Moved(self, float(min(max(weight, 0), WHOLE))))


class Weights(Vertical):
    """The three bars; they always sum to 100."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("equals_sign", "balance", "Balance", show=False)
    ]

    class Changed(Message):
        """The weights are others now."""

        def __init__(self, weights: Weights, priorities: Priorities) -> None:
            super().__init__()
            self.weights, self.priorities = weights, priorities

        @property
        def control(self) -> Weights:
            """The bars."""
            return self.weights

        def can_replace(self, message: Message) -> bool:
            """Say whether this makes an earlier one needless."""
            return isinstance(message, Weights.Changed)

    def __init__(self, priorities: Priorities, *, id: str = "weights") -> None:  # noqa: A002 - Textual's word
        super().__init__(id=id)
        self.priorities = priorities

    def compose(self) -> ComposeResult:
        """Make the bars."""
        for pillar in PILLARS:
            yield WeightBar(pillar)

    def on_mount(self) -> None:
        """Show the first weights."""
        self.set_priorities(self.priorities)

    def set_priorities(self, priorities: Priorities) -> None:
        """Show other weights; tells nobody."""
        self.priorities = priorities
        for bar in self.query(WeightBar):
            bar.weight = getattr(priorities, bar.pillar)

    def set_flips(self, flips: tuple[Flip, ...]) -> None:
        """Show where the answer would change."""
        for bar in self.query(WeightBar):
            bar.ticks = tuple(flip.weight for flip in flips if flip.criterion == bar.pillar)

    def on_weight_bar_moved(self, message: WeightBar.Moved) -> None:
        """Let the two others share the rest."""
        message.stop()
        self._change(
            whole_numbers(
                self.priorities.with_weight(message.bar.pillar, message.weight), message.bar.pillar
            )
        )

    def action_balance(self) -> None:
        """Give all three the same, but for rounding."""
        self._change(
            whole_numbers(self.priorities.with_weight(PILLARS[0], 34.0), PILLARS[0], even=True)
        )

    def _change(self, priorities: Priorities) -> None:
        self.set_priorities(priorities)
        self.post_message(self.Changed(self, priorities))


def whole_numbers(priorities: Priorities, kept: str, *, even: bool = False) -> Priorities:
    """Return the weights in whole percent that sum to 100, the one `kept` as it is."""
    import msgspec  # noqa: PLC0415 - only when a weight moves

    first, second = (name for name in PILLARS if name != kept)
    rest = WHOLE - round(getattr(priorities, kept))
    one = rest // 2 if even else round(getattr(priorities, first))
    return msgspec.structs.replace(
        priorities, **{kept: float(WHOLE - rest), first: float(one), second: float(rest - one)}
    )
