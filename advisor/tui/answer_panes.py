"""An answer as the screens show it: its title, its lines, its ranking and its panes."""

from __future__ import annotations

import dataclasses

import msgspec
from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.widgets import Markdown, Static, TabbedContent, TabPane
from textual.widgets._tabbed_content import ContentTab, ContentTabs

from advisor.domain.answer import Answer
from advisor.domain.catalogue import Catalogue
from advisor.domain.constraints import CRITERION_HEADS, Priorities
from advisor.domain.errors import NothingViableError
from advisor.domain.question import Question
from advisor.report import markdown, ranking
from advisor.report.advice_lines import trust_reasons
from advisor.report.answer_lines import code_lines, next_steps, short_answer_lines, stop_notice
from advisor.report.formatting import Section
from advisor.report.headline import NO_FLIP, first_line
from advisor.report.other_arms import flip_lines, is_unnamed
from advisor.report.tables import list_sections, list_tables
from advisor.store.runs import Run
from advisor.tui import panels
from advisor.tui.table import Column, Row
from advisor.tui.widgets import Weights


@dataclasses.dataclass(frozen=True)
class ShownAnswer:
    """An answer with the catalogue that explains it."""

    answer: Answer
    catalogue: Catalogue
    #: The run with its events and the logs of its arms; None for an answer from a file.
    run: Run | None = None
    #: The file of an answer that may be of another user or machine.
    file: str = ""

    @property
    def source(self) -> str:
        """The run or the file as commands take it; empty for neither."""
        return str(self.run.directory) if self.run is not None else self.file

    @property
    def priorities(self) -> Priorities:
        return self.answer.question.priorities


DECISION_COLOURS: dict[str, str] = {"CLEAR": "green", "LIKELY": "cyan", "OPEN": "yellow"}
#: Most lines of code that an answer shows, and by how much a wrapped one is indented.
MOST_PANE_CODE_LINES, CODE_HANG = 5, 8
#: Cells of the terminal that lie beside the lines of an answer.
ANSWER_MARGIN = 3
TASK_NAMES = {"generate": "generate text", "serve": "serve requests"}
#: Cells of the terminal from which a title has room for the task and for the date.
TASK_WIDTH, DATE_WIDTH, MAX_DEVICE_CELLS = 100, 120, 24


def render_answer_lines(shown: ShownAnswer, width: int, lead: str = "") -> Text:
    """Return what `p3-advisor show` prints first, after `lead`, in lines of this width."""
    answer = with_keys(shown.answer)
    first, *others = short_answer_lines(answer)
    code_at = len(stop_notice(answer)) + 3
    if answer.recommendation is not None:
        # Decision and trust stay in sight; the code follows, or what a server achieves.
        others.insert(code_at - 2, others.pop())
    parts_of = [panels.styled("\n".join(panels.wrap(lead + first, width, 0)), "bold")]
    parts_of += [_render_sentence(answer, line, width) for line in others]
    code = [
        panels.styled("\n".join(panels.wrap(f"    {line}", width, CODE_HANG)), "cyan")
        for line in code_lines(answer, MOST_PANE_CODE_LINES, MOST_PANE_CODE_LINES)
    ]
    if answer.question.serves:
        code_at = len(parts_of)
    return Text("\n").join([*parts_of[:code_at], *code, *parts_of[code_at:]])


def _render_sentence(answer: Answer, line: str, width: int) -> Text:
    """Colour the word of the decision."""
    text = Text("\n".join(panels.wrap(line, width, 0)))
    word = answer.recommendation.decision.word if answer.recommendation else None
    if word is not None and line.startswith(word):
        text.stylize(f"bold {DECISION_COLOURS[word]}", 0, len(word))
    return text


def with_keys(answer: Answer) -> Answer:
    """Return the answer with the key that shows why nothing was measured, not the command."""
    problem = answer.problem
    if problem is None or problem.name != NothingViableError.name or answer.scores:
        return answer
    shown = msgspec.structs.replace(problem, next_step="5 shows the reason of each workflow")
    return msgspec.structs.replace(answer, problem=shown)


def describe_question(question: Question, device: str, width: int) -> str:
    """Return device, task if there is room, precision, batch sizes, several lengths, requirements.

    The clients of a server set its batch sizes.
    """
    task = TASK_NAMES.get(question.task, "") if width >= TASK_WIDTH else ""
    lengths = dict.fromkeys(shape.tokens for shape in question.shapes if shape.tokens)
    batch = "" if question.serves else f"batch {','.join(map(str, question.batch_sizes))}"
    tokens = f"{'/'.join(lengths)} tokens" if lengths else ""
    required = question.required.replace(",", "")
    for name, head in CRITERION_HEADS.items():
        required = required.replace(name, head)
    precision = "own precision" if question.dtype == "own" else question.dtype
    facts = (panels.printable(device, MAX_DEVICE_CELLS), task, precision, batch, tokens)
    return " \N{MIDDLE DOT} ".join(filter(None, (*facts, required)))


#: Panes by id; their numbers are the keys that show them.
PANES = {
    "why": "Why",
    "weights": "Weights",
    "trust": "Trust",
    "next": "Next",
    "unmeasured": "Not measured",
}
PANE_SECTIONS = {
    "why": ("why", "cost", "new-shapes", "partly", "advice"),
    "trust": ("trust",),
    "next": ("next",),
    "unmeasured": ("unmeasured", "unasked"),
}
#: The steps name options of the command line.
NEXT_KEYS = (
    "Keys: m measures again with a longer --budget, f what has no result, r the leaders or the rest"
    " of the run; n asks for other --workflows."
)
#: Heads of the list of workflows that a question did not name, by their status.
UNASKED_HEADS = {
    "excluded": "left out",
    "not-installed": "not installed",
    "unsupported": "not possible here",
    "not-covered": "not covered",
}
EMPTY_PANES = {
    "trust": "No reason lowers the trust in this answer.",
    "next": "There is nothing more to do.",
    "unmeasured": "Every workflow that applies was measured.",
}


def render_pane(answer: Answer, pane: str) -> str:
    """Return sections of the report as Markdown, with its tables below the reasons."""
    answer = with_keys(answer)
    found = {section.name: section for section in list_sections(answer)}
    if steps := next_steps(answer):
        found["next"] = Section("next", PANES["next"], [*steps, NEXT_KEYS])
    if answer.recommendation is None:
        found["why"] = Section("why", PANES["why"], [first_line(answer), *steps[:1]])
        found["trust"] = Section("trust", PANES["trust"], trust_reasons(answer))
    if answer.question.workflows:
        found["unasked"] = Section("unasked", "Not asked for", _unasked_lines(answer))
    shown = [found[name] for name in PANE_SECTIONS[pane] if name in found]
    # The section of the pane has its title.
    blocks = [
        markdown.bullets(section.lines) if section.name == pane else markdown.section(section)
        for section in shown
    ]
    if pane == "why":
        tables = [markdown.table(each) for each in list_tables(answer)]
        # The pane has the title of the first one, too: the grades of the advised arm.
        grades = [tables.pop(0)[2:]] if answer.advised else []
        blocks = [*grades, *blocks, *tables]
    return "\n\n".join("\n".join(block) for block in blocks) or EMPTY_PANES[pane]


def _unasked_lines(answer: Answer) -> list[str]:
    unnamed = [each for each in answer.unmeasured if is_unnamed(each, answer)]
    names = {
        head: [each.workflow for each in unnamed if each.status == status]
        for status, head in UNASKED_HEADS.items()
    }
    return [
        "Only what was asked for was measured.",
        *(f"{head} ({len(found)}): {', '.join(found)}" for head, found in names.items() if found),
    ]


def describe_priorities(shown: ShownAnswer) -> Text:
    lines = [f"Your weights: {shown.priorities.describe()}."]
    if required := shown.answer.question.required:
        lines.append(f"Required: {required}.")
    lines += flip_lines(shown.answer) or ([NO_FLIP] if shown.answer.recommendation else [])
    return Text("\n".join(panels.printable(line, 600) for line in lines))


class AnswerPanel(VerticalScroll):
    """The lines of an answer; they scroll where the terminal is too low for all."""

    HELP = "The answer, as p3-advisor show prints it; up and down scroll."


class TextPane(VerticalScroll):
    HELP = "Up and down scroll. tab goes to the next pane, a number to the pane of that number."


class Pane(TabPane):
    """A tab that does not follow the focus, which may have gone on when the tabs hear of it."""

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        event.prevent_default()


class ResultsPanes(Vertical):
    def __init__(self, shown: ShownAnswer) -> None:
        super().__init__()
        self._shown = shown

    @property
    def shown(self) -> str:
        return self.query_one(TabbedContent).active

    def compose(self) -> ComposeResult:
        with TabbedContent(id="panes", initial="why"):
            for number, (pane, title) in enumerate(PANES.items(), 1):
                with Pane(f"{number} {title}", id=pane):
                    if pane in PANE_SECTIONS:
                        with TextPane():
                            yield Markdown(id=f"text-{pane}", open_links=False)
                    else:
                        yield Weights(self._shown.priorities)
                        with VerticalScroll():
                            yield Static("", id="weights-note", markup=False)

    def on_mount(self) -> None:
        self.query_one(ContentTabs).can_focus = False  # tab and numbers go to the panes

    def on_click(self, event: events.Click) -> None:
        if isinstance(event.widget, ContentTab) and event.widget.id is not None:
            self.show(ContentTab.sans_prefix(event.widget.id))

    def on_tabbed_content_tab_activated(self) -> None:
        self._draw_text(self.shown)

    def show(self, pane: str) -> None:
        self.query_one(TabbedContent).active = pane
        kind = "WeightBar" if pane == "weights" else "TextPane"
        self.query(f"#{pane} {kind}").first().focus()

    def draw(self, shown: ShownAnswer) -> None:
        self._shown = shown
        self._draw_text(self.shown)
        self.query_one("#weights-note", Static).update(describe_priorities(shown))
        tab = self.query_one(TabbedContent).get_tab("unmeasured")
        tab.label = f"5 {PANES['unmeasured']} ({len(shown.answer.unmeasured)})"
        advice = shown.answer.recommendation
        self.query_one(Weights).set_flips(advice.flips if advice else ())

    def _draw_text(self, pane: str) -> None:
        if pane in PANE_SECTIONS:
            source = render_pane(self._shown.answer, pane)
            shown = self.query_one(f"#text-{pane}", Markdown)
            if shown.source != source:
                shown.update(source)


#: Cells of the columns that are not as wide as their content.
ARM_WIDTH, MOST_ARM_WIDTH, INTERVAL_WIDTH, MOST_INTERVAL_WIDTH = 16, 40, 14, 60


def ranking_table(answer: Answer) -> tuple[list[Column], dict[str, Row]]:
    """Return the columns, the interval after the arm, and the cells of each arm by its id."""
    shown = ranking.ranking_columns(answer, has_latency=True)
    rows: dict[str, Row] = {
        ranked.arm: {
            "interval": ranked.speedup,
            **{column.name: column.write(ranked) for column in shown},
        }
        for ranked in answer.ranking
    }
    columns = [_column(column, rows) for column in shown]
    columns.insert(2, Column("interval", "", INTERVAL_WIDTH, most=MOST_INTERVAL_WIDTH))
    return columns, rows


def _column(column: ranking.RankingColumn, rows: dict[str, Row]) -> Column:
    if column.name == "arm":
        return Column("arm", column.head, ARM_WIDTH, most=MOST_ARM_WIDTH, is_name=True)
    return Column(
        column.name,
        column.head,
        max(len(column.head), *(len(str(row[column.name])) for row in rows.values()), 0),
        shown_from=column.shown_from,
        # A rank may have a mark behind it.
        is_numeric=column.name not in {"rank", *CRITERION_HEADS},
    )
