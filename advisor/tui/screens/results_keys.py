"""The keys of the results screen."""

from __future__ import annotations

from textual.binding import Binding, BindingType

from advisor.tui.screens.results_panes import PANES

RESULTS_KEYS: list[BindingType] = [
    Binding("enter", "detail", "Evidence", id="detail"),
    Binding("tab", "part(1)", "Next pane", show=False, priority=True),
    Binding("shift+tab", "part(-1)", "Previous pane", show=False, priority=True),
    *[
        Binding(str(number), f"show_part('{pane}')", title, show=False)
        for number, (pane, title) in enumerate(PANES.items(), 1)
    ],
    Binding("r", "code", "Code", id="code", tooltip="the script that does what was measured"),
    Binding(
        "m",
        "measure_again",
        "Repeat",
        id="measure-again",
        tooltip="measure what is undecided for longer, in a new run",
    ),
    Binding("w", "weights", "Weights", id="weights", tooltip="to the weights, and back"),
    Binding("e", "export", "Export", id="export", tooltip="write a report to a file"),
    Binding(
        "c",
        "compare",
        "Compare",
        id="compare",
        tooltip="compare with another run",
    ),
    Binding(
        "v",
        "verify",
        "Verify",
        id="verify",
        tooltip="run the code again and check that it reaches the measured speed",
    ),
    Binding("o", "sort", "Sort", id="sort", tooltip="sort by score, speed, build time, memory"),
    Binding(
        "x",
        "show_part('unmeasured')",
        "Not measured",
        id="excluded",
        show=False,
        tooltip="what is not in the ranking, and why",
    ),
    Binding("u", "undo", "Undo", id="undo", tooltip="restore the weights of the run", show=False),
    Binding(
        "ctrl+g",
        "resume",
        "Resume",
        id="resume",
        key_display="^g",
        tooltip="resume a stopped run",
    ),
    Binding(
        "f",
        "retry",
        "Retry failed",
        id="retry",
        tooltip="measure the failed arms again, in a new run",
    ),
    Binding("n", "app.new_question", "New", id="new", tooltip="a new question", show=False),
    Binding("H", "app.history", "History", id="history", show=False),
    Binding(
        "y",
        "copy",
        "Copy",
        id="copy",
        tooltip="copy the command that shows this run",
        show=False,
    ),
    Binding("escape", "back", "Back", id="back"),
    Binding("q", "app.leave", "Quit", id="quit"),
]
