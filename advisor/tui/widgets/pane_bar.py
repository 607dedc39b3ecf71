"""One line with the numbers and names of the panes below it."""

from __future__ import annotations

from collections.abc import Mapping

from rich.cells import cell_len
from rich.text import Text
from textual import events
from textual.app import RenderResult
from textual.message import Message
from textual.reactive import reactive
from textual.widget import Widget


class PaneBar(Widget):
    """The names of the panes; the name of the pane that is shown is in brackets."""

    DEFAULT_CSS = "PaneBar { height: 1; background: $panel; }"
    active: reactive[str] = reactive("")

    class Selected(Message):
        """The user clicked on the name of a pane."""

        def __init__(self, pane: str) -> None:
            super().__init__()
            self.pane = pane

    def __init__(self, titles: Mapping[str, str], active: str) -> None:
        super().__init__()
        self._titles = dict(titles)
        self.set_reactive(PaneBar.active, active)

    def set_title(self, pane: str, title: str) -> None:
        """Change the name of a pane."""
        if self._titles[pane] != title:
            self._titles[pane] = title
            self.refresh()

    def render(self) -> RenderResult:
        line = Text(no_wrap=True)
        for pane, label in self._labels().items():
            line.append(label, "bold reverse" if pane == self.active else "")
        return line

    def _labels(self) -> dict[str, str]:
        """Return what is drawn for each pane, with less space in narrow terminals."""
        names = {
            pane: f"{number} {title}"
            for number, (pane, title) in enumerate(self._titles.items(), 1)
        }
        roomy = {
            pane: f"[{name}] " if pane == self.active else f" {name}  "
            for pane, name in names.items()
        }
        if sum(map(cell_len, roomy.values())) <= self.size.width:
            return roomy
        narrow = _narrow(names, self.active)
        if sum(map(cell_len, narrow.values())) <= self.size.width:
            return narrow
        return _narrow({pane: name.partition(" (")[0] for pane, name in names.items()}, self.active)

    def on_click(self, event: events.Click) -> None:
        """Select the pane under the mouse."""
        end = 0
        for pane, label in self._labels().items():
            end += cell_len(label)
            if event.x < end:
                self.post_message(self.Selected(pane))
                return


def _narrow(names: Mapping[str, str], active: str) -> dict[str, str]:
    return {pane: f"[{name}]" if pane == active else f" {name}" for pane, name in names.items()}
