"""What a notebook shows: a line of progress while a run is measured, and a summary of it.

IPython is used only where the caller runs in it; all text is escaped.
"""

from __future__ import annotations

import html
import sys
import types
from collections.abc import Callable, Sequence

from advisor.domain.answer import Answer
from advisor.domain.plan import Plan
from advisor.domain.run_events import LoggedEvent, WorkerEnded, WorkerReported
from advisor.report import progress_lines
from advisor.report.ranking import ranking_rows
from probes.wire.events import PhaseStarted

#: The phase from which on an arm is built.
BUILT_PHASE = "warmup"


def notebook_progress(plan: Plan, *, wanted: bool | None) -> Callable[[LoggedEvent], None]:
    """Return a function that shows an event; it does nothing outside a notebook."""
    display = _notebook_display() if wanted is not False else None
    return _ProgressLine(plan, display) if display else lambda _event: None


def _notebook_display() -> types.ModuleType | None:
    """Return `IPython.display` where a notebook runs this process; else None."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return sys.modules.get("IPython.display") if getattr(shell, "kernel", None) else None


class _ProgressLine:
    """A bar of the arms that are built or have failed, and the last line of progress."""

    def __init__(self, plan: Plan, display: types.ModuleType) -> None:
        self._arms = {arm.id for arm in plan.arms}
        self._done: set[str] = set()
        self._display = display
        self._handle = display.display(display.HTML(""), display_id=True)

    def __call__(self, event: LoggedEvent) -> None:
        match event.run_event:
            case WorkerReported(arm=arm, worker_event=PhaseStarted(phase=phase)) if (
                phase == BUILT_PHASE
            ):
                self._done.add(arm)
            case WorkerEnded(arm=arm):
                self._done.add(arm)
            case _:
                pass
        line = progress_lines.render_event(event)
        if line is not None:
            done = len(self._done & self._arms)
            bar = f'<progress max="{len(self._arms)}" value="{done}"></progress>'
            self._handle.update(self._display.HTML(f"{bar} {html.escape(line)}"))


def render_summary(answer: Answer, headline: Sequence[str]) -> str:
    """Return the headline and a table of the ranked arms as HTML without style or script."""
    first, *rest = (html.escape(line) for line in headline)
    head, *rows = ranking_rows(answer, has_intervals=True) or [[]]
    lines = [_row(head, "th"), *(_row(row, "td") for row in rows)]
    table = f"<table>{''.join(lines)}</table>" if rows else ""
    return f"<div><p><strong>{first}</strong><br>{'<br>'.join(rest)}</p>{table}</div>"


def _row(cells: Sequence[str], kind: str) -> str:
    return "<tr>" + "".join(f"<{kind}>{html.escape(cell)}</{kind}>" for cell in cells) + "</tr>"
