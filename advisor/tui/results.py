"""The answer of one run: the ranking, the panes that explain it, and the details of one arm."""

from __future__ import annotations

import dataclasses
import itertools
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.widgets import Static, TabbedContent, TabPane

from advisor.decide.answers import answer_from_results
from advisor.decide.unmeasured import arms_to_retry
from advisor.domain.constraints import CRITERIA
from advisor.domain.errors import NoRecipeError
from advisor.domain.text import write_speedup
from advisor.execute.execution import keeps_builds
from advisor.report import explanation, recipe_text
from advisor.tui import actions, answer_panes, panels
from advisor.tui.advisor_screen import AdvisorScreen
from advisor.tui.table import SelectableTable, Table
from advisor.tui.widgets import Weights, bind

ANSWER, RANKING = "answer", "ranking"
#: Actions on an arm that was measured.
OF_AN_ARM = {"detail", "code", "verify"}
#: Actions that go on with the run.
OF_THE_RUN = {"measure_again", "verify", "measure_missing", "resume", "leaders"}
OF_ANOTHER_MACHINE = "possible for runs of this machine only; n asks a new question"
FINISHED = "the run has finished, and its answer is clear or its builds are gone"
#: The parts of the screen in the order of tab.
PARTS = (ANSWER, RANKING, *answer_panes.PANES)


class ResultsScreen(AdvisorScreen):
    HELP_TEXT = """\
The first lines are the answer: what to use, how sure that is, and what it costs. Each row of the
ranking has the 95 % interval of its speed-up on one axis, with eager PyTorch at 1x. Letters grade
the criteria: A is best, C lowest. tab, or a number, goes through the panes below the ranking.
Changing a weight ranks again at once; marks on the bars show where the answer changes, and u
restores the weights of the run. For generated text, TTFT is the time to the first token and ITL the
time between tokens, in milliseconds, at the first batch size. The figures for a GPU that is not
attached come from a stored run, which the first lines name and o opens."""
    TERMS = (
        *("workflow", "arm", "CLEAR, LIKELY, OPEN", "certainty", "speed-up", "interval"),
        *("baseline", "criterion", "grade", "score", "weights", "flip", "cold build", "memory"),
        *("break-even", "trust", "noise floor", "declared", "new shapes", "outcome", "constraint"),
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("enter", "detail", "Evidence"),
        bind("tab", "part(1)", priority=True),
        bind("shift+tab", "part(-1)", priority=True),
        *[
            bind(str(number), f"show_part('{pane}')", tooltip=title)
            for number, (pane, title) in enumerate(answer_panes.PANES.items(), 1)
        ],
        bind("c", "code", "Code", "print the recommended code in the terminal"),
        bind("r", "resume", "Resume", "go on with a run that was stopped"),
        bind("r", "leaders", "Leaders", "measure the leaders of the run again"),
        bind(
            "m",
            "measure_again",
            "Repeat",
            "measure what is undecided, or all, for longer, in a new run",
        ),
        bind("v", "verify", "Verify", "run the code, and check its outputs and its speed"),
        bind("e", "export", "Export", "write a report to a file"),
        bind("b", "compare", "Compare", "compare with another run"),
        bind("u", "undo", "Undo", "restore the weights of the run"),
        bind("f", "measure_missing", "Missing", "measure what has no result, in a new run"),
        bind("n", "app.new_question", tooltip="a new question"),
        bind("o", "open", "Open the run", "the stored run that this answer comes from"),
    ]

    def __init__(self, shown: answer_panes.ShownAnswer) -> None:
        super().__init__()
        #: The answer with the weights of the run, and with the weights of the bars.
        self.original = self.shown = shown

    def compose_body(self) -> ComposeResult:
        with answer_panes.AnswerPanel(id=ANSWER):
            yield Static("", id="text-answer", markup=False)
        yield SelectableTable(id=RANKING)
        yield answer_panes.ResultsPanes(self.original)

    def on_mount(self) -> None:
        self.query_one(Table).focus()
        self.draw()

    @property
    def is_of_absent_gpu(self) -> bool:
        """Whether nothing was measured here, and the figures come from a stored run."""
        return not self.original.source

    @property
    def is_explored(self) -> bool:
        """Whether the weights differ from those of the run."""
        return self.shown.priorities != self.original.priorities

    def refusal_of(self, action: str) -> str:
        answer, run = self.original.answer, self.original.run
        if action in OF_AN_ARM and not answer.ranking:
            return "nothing was measured"
        if action in OF_THE_RUN and (run is None or answer.foreign):
            return OF_ANOTHER_MACHINE
        match action:
            case "undo":
                is_possible, otherwise = self.is_explored, "they are not changed"
            case "open":
                is_possible, otherwise = self.is_of_absent_gpu, "this is the run itself"
            case "code" | "compare":
                is_possible, otherwise = not self.is_of_absent_gpu, OF_ANOTHER_MACHINE
            case "measure_missing":
                is_possible = answer.finished and bool(arms_to_retry(answer))
                otherwise = "every arm has a result"
            case "resume":
                is_possible, otherwise = not answer.finished, FINISHED
            case "leaders":
                has_builds = keeps_builds(answer) and run is not None and run.scratch.is_dir()
                is_possible, otherwise = answer.finished and has_builds, FINISHED
            case _:
                is_possible, otherwise = True, ""
        return "" if is_possible else otherwise

    def draw(self) -> None:
        answer, advice = self.shown.answer, self.shown.answer.recommendation
        question, device = answer.question, answer.device_name
        width = self.size.width
        title = Text.assemble(
            ("Results  ", "bold"), panels.model_name(question.model.name, width * 3 // 10)
        )
        date = (
            f" \N{MIDDLE DOT} {answer.created:%Y-%m-%d}" if width >= answer_panes.DATE_WIDTH else ""
        )
        self.set_title(title, answer_panes.describe_question(question, device, width) + date)
        lead = "Not measured here. From a stored run: " if self.is_of_absent_gpu else ""
        lead = "With these weights: " if self.is_explored else lead
        lines = answer_panes.render_answer_lines(
            self.shown, width - answer_panes.ANSWER_MARGIN, lead
        )
        self.query_one("#text-answer", Static).update(lines)
        columns, rows = answer_panes.ranking_table(answer)
        unfit = answer.has_unfit_problem
        styles = {ranked.arm: "dim" for ranked in answer.ranking if ranked.scored.failures or unfit}
        if advice is not None:
            styles[advice.arm] = "bold"
        self.query_one(Table).fill(columns, rows, styles)
        self.query_one(answer_panes.ResultsPanes).draw(self.shown)
        self.refresh_bindings()

    def on_weights_changed(self, event: Weights.Changed) -> None:
        with self.app.showing_errors():
            known, asked = self.original.catalogue, event.priorities
            again = answer_from_results(self.original.answer, known, priorities=asked)
            self.shown = dataclasses.replace(self.original, answer=again)
        self.draw()

    def action_undo(self) -> None:
        self.shown = self.original
        self.query_one(Weights).set_priorities(self.original.priorities)
        self.draw()

    # Panes

    @property
    def focused_part(self) -> str:
        if self.focused is self.query_one(answer_panes.AnswerPanel):
            return ANSWER
        panes = self.query_one(answer_panes.ResultsPanes)
        return panes.shown if panes.has_focus_within else RANKING

    def on_descendant_focus(self) -> None:
        self.set_class(self.focused_part in answer_panes.PANES, "-reads-pane")

    def action_part(self, steps: int) -> None:
        self.action_show_part(PARTS[(PARTS.index(self.focused_part) + steps) % len(PARTS)])

    def action_show_part(self, part: str) -> None:
        if part in answer_panes.PANES:
            self.query_one(answer_panes.ResultsPanes).show(part)
        else:
            self.query_one(f"#{part}").focus()

    # Ranking

    def action_detail(self) -> None:
        arm = self.query_one(Table).key_at_cursor()
        if arm is not None:
            self.app.push_screen(DetailScreen(self.shown, arm))

    on_data_table_row_selected = action_detail

    def action_back(self) -> None:
        """Go to the question where nothing was measured, else to the first screen."""
        (self.app.pop_screen if self.is_of_absent_gpu else self.app.action_home)()

    # Actions on the run

    def action_open(self) -> None:
        self.app.run_controller.open(self.original.answer.run_id)

    def action_resume(self) -> None:
        self.app.run_controller.resume(self.original.answer.run_id)

    #: An action of its own: its key is possible for other runs.
    action_leaders = action_resume

    def action_measure_missing(self) -> None:
        actions.measure_missing(self.app, self.shown)

    def action_measure_again(self) -> None:
        actions.measure_again(self.app, self.shown)

    def _chosen_arm(self) -> str:
        """Return the arm that the screen advises, else the one under the cursor."""
        advice = self.shown.answer.recommendation
        return advice.arm if advice else self.query_one(Table).key_at_cursor() or ""

    def action_code(self) -> None:
        self.app.run_in_terminal(["recipe", self.shown.source, self._chosen_arm()])

    def action_verify(self) -> None:
        actions.verify(self.app, self.shown, self._chosen_arm())

    def action_export(self) -> None:
        actions.export(self.app, self.shown, explored=self.is_explored)

    def action_compare(self) -> None:
        self.app.choose_to_compare(self.shown.answer.run_id)


TABS = ("Explanation", "Code", "Log")
#: Cells of the terminal that lie beside the lines of a tab.
DETAIL_MARGIN = 4


class DetailScreen(AdvisorScreen):
    HELP_TEXT = """\
Explanation: the figures, and each criterion with its value, the rule of its grade, and what the
next letter requires, as p3-advisor explain prints them. Code: the measured code, as p3-advisor
recipe prints it. Log: the output of the stack."""
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("left_square_bracket,left", "step(-1)", "Previous"),
        bind("right_square_bracket,right", "step(1)", "Next"),
        *[
            bind(str(number), f"tab('{name.lower()}')", tooltip=name)
            for number, name in enumerate(TABS, start=1)
        ],
    ]

    def __init__(self, shown: answer_panes.ShownAnswer, arm: str) -> None:
        super().__init__()
        self._shown, self._arm = shown, arm

    def compose_body(self) -> ComposeResult:
        with TabbedContent(id="tabs"):
            for number, name in enumerate(TABS, start=1):
                with TabPane(f"{number} {name}", id=name.lower()), VerticalScroll():
                    yield Static("", id=f"text-{name.lower()}", markup=False)

    def on_mount(self) -> None:
        self.query_one("#explanation VerticalScroll").focus()

    def action_step(self, steps: int) -> None:
        arms = [ranked.arm for ranked in self._shown.answer.ranking]
        self._arm = arms[(arms.index(self._arm) + steps) % len(arms)]
        self.draw()

    def action_tab(self, name: str) -> None:
        self.query_one(TabbedContent).active = name
        self.query_one(f"#{name} VerticalScroll").focus()

    def draw(self) -> None:
        answer, known = self._shown.answer, self._shown.catalogue.by_id
        ranked = next(each for each in answer.ranking if each.arm == self._arm)
        title = panels.styled(panels.printable(ranked.arm, 60), "bold")
        if not answer.has_unfit_problem:
            rank = f"rank {ranked.scored.rank} of {len(answer.ranking)}"
            title += Text(f"   {rank}   score {ranked.scored.score:.2f}")
        speed = write_speedup(ranked.speedup, unfit=answer.results.is_unfit)
        self.set_title(title + Text(f"   {speed}"))
        explained = explanation.explain_arm(answer, ranked, CRITERIA, known)
        for name, lines in zip(TABS, (explained, self._code(), self._log()), strict=True):
            wrapped = [panels.wrap(line, self.size.width - DETAIL_MARGIN) or [""] for line in lines]
            shown = Text("\n".join(itertools.chain(*wrapped)))
            self.query_one(f"#text-{name.lower()}", Static).update(shown)

    def _code(self) -> list[str]:
        answer = self._shown.answer
        try:
            found = recipe_text.choose_recipe(answer, self._shown.run, self._arm)
            return recipe_text.render_short(answer, *found).splitlines()
        except NoRecipeError as error:
            return [error.what, f"next: {error.next_step}"]

    def _log(self) -> list[str]:
        run = self._shown.run
        lines = panels.read_log(run, run.state(), self._arm) if run is not None else []
        return lines or ["No output of the stack is stored here."]
