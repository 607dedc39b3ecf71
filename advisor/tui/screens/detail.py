"""Show one arm: what `explain` and `recipe` print about it, and its log."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.widgets import Static, TabbedContent, TabPane

from advisor.decide.trust import is_unfit
from advisor.domain.constraints import CRITERIA
from advisor.errors import NoRecipeError
from advisor.report import explanation, found_recipe, recipe_text
from advisor.report.answer import has_unfit_problem
from advisor.report.ranking import speed_or_range
from advisor.store.runs import Run
from advisor.system import read_tail
from advisor.tui import text
from advisor.tui.answer import RunAnswer
from advisor.tui.screens.advisor_screen import AdvisorScreen
from advisor.tui.widgets import bind

TABS = ("Explanation", "Code", "Log")
MAX_LOG_BYTES = 200_000
NOT_STORED = "The files of this run are not stored here."


class DetailScreen(AdvisorScreen):
    """The details of one arm, in tabs."""

    HELP_TEXT = """\
Explanation: the figures, and each criterion with its value, the rule of its grade, and what the
next letter requires, as p3-advisor explain prints them. Code: the measured code, as p3-advisor
recipe prints it. Log: the output of the stack."""
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("left_square_bracket,left", "step(-1)", "Previous", name="previous"),
        bind("right_square_bracket,right", "step(1)", "Next", name="next-arm"),
        *[
            bind(str(number), f"tab('{name.lower()}')", tooltip=name)
            for number, name in enumerate(TABS, start=1)
        ],
    ]

    def __init__(self, answer: RunAnswer, arm: str, run: Run | None) -> None:
        super().__init__()
        self._answer, self._arm, self._run = answer, arm, run

    def compose_body(self) -> ComposeResult:
        with TabbedContent(id="tabs"):
            for number, name in enumerate(TABS, start=1):
                with TabPane(f"{number} {name}", id=name.lower()), VerticalScroll():
                    yield Static("", id=f"text-{name.lower()}", markup=False)

    def on_mount(self) -> None:
        self.query_one("#explanation VerticalScroll").focus()

    def action_step(self, steps: int) -> None:
        """Show the next arm in the ranking, or with -1 the previous one."""
        arms = [entry.arm for entry in self._answer.document.ranked]
        self._arm = arms[(arms.index(self._arm) + steps) % len(arms)]
        self.draw()

    def action_tab(self, name: str) -> None:
        self.query_one(TabbedContent).active = name
        self.query_one(f"#{name} VerticalScroll").focus()

    def draw(self) -> None:
        document, entry = self._answer.document, self._answer.ranked_arm(self._arm)
        title = text.styled(text.printable(entry.arm, 60), "bold")
        if not has_unfit_problem(document):
            rank = f"rank {entry.scored.rank} of {len(document.ranked)}"
            title += Text(f"   {rank}   score {entry.scored.score:.2f}")
        speed = speed_or_range(entry.speedup, unfit=is_unfit(document.results))
        self.set_title(title + Text(f"   {speed}"))
        explained = explanation.explain_arm(document, entry, CRITERIA)
        for name, lines in (
            ("explanation", explained),
            ("code", self._code()),
            ("log", self._log()),
        ):
            shown = "\n".join(text.printable(line, 400) for line in lines)
            self.query_one(f"#text-{name}", Static).update(Text(shown))

    def _code(self) -> list[str]:
        document = self._answer.document
        try:
            found = found_recipe.choose(document, self._run, self._arm)
            return recipe_text.render_short(document, *found).splitlines()
        except NoRecipeError as error:
            return [error.what, f"next: {error.next_step}"]

    def _log(self) -> list[str]:
        if self._run is None:
            return [NOT_STORED]
        processes = len(self._run.state().processes.get(self._arm, ()))
        file = self._run.worker_log_path(self._arm, max(processes - 1, 0))
        try:
            content = read_tail(file, MAX_LOG_BYTES)
        except OSError:
            return ["The log is not stored here."]
        return [text.clean_line(line) for line in content.decode("utf-8", "replace").splitlines()]
