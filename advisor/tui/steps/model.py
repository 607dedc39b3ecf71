"""Question 1: which model."""

from __future__ import annotations

from typing import ClassVar, cast

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from advisor.domain.question import Task
from advisor.tui import text
from advisor.tui.steps.step import Step
from advisor.tui.widgets.choice import Choice
from advisor.tui.widgets.line import Line

#: From the first width on a model and what it is stand on one line; from the second on something
#: stands beside them, up to the third.
ROOMY, BESIDE, ROOMY_BESIDE = 80, 100, 128
DEMO = "demo"
TASKS = {"forward": "one forward pass", "generate": "generate text"}
NOTES = {
    "forward": "timed: one call, whole inputs",
    "generate": "timed: tokens/s, until the first token, between tokens",
}
PAPER_BLOCKS = ("ffn-multilayer", "ffn", "matmul-relu", "matmul")
OWN = """\
Your own model
  file.py:factory     a function that returns
                      (module, example inputs)
  package.mod:factory
  model.pt2           torch.export.save
  model.onnx          workflows that take ONNX
  a directory or hub name of transformers

Timing does not depend on the values of the
weights, so shipped configurations run with
seeded random weights, without a network.
"""


class Shipped(OptionList):
    """The models that ship."""

    HELP = "What can be probed without bringing a model: up and down move, enter takes the model and goes on."


class ModelStep(Step):
    """A list of what ships, a line for everything else, and what the model does."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "ctrl+t",
            "task",
            "Task",
            key_display="^t",
            id="task",
            tooltip="one forward pass, or generated text",
        )
    ]

    def compose(self) -> ComposeResult:
        """Make the line, the list, the explanation and the task."""
        yield Static(
            "Which model?  Choose, or type your own: a file, a directory, file.py:factory",
            classes="lead",
            markup=False,
        )
        yield Line(
            self.answers.model if self.answers.model != DEMO else "",
            placeholder="demo   (enter takes it, ctrl+r runs everything as it is)",
            id="model",
            compact=True,
        )
        with Horizontal():
            yield Shipped(id="models", markup=False, compact=True)
            yield Static(OWN, id="own", markup=False, classes="side")
        yield Choice("What it does", list(TASKS.items()), self.answers.task, id="task")
        yield Static("", id="task-note", markup=False, classes="hint")

    def on_mount(self) -> None:
        """Begin with the task that was asked for, if one was."""
        self._task_is_theirs = self.answers.task != "forward"  # else the options said so
        self._listed_in = self._room()
        self._considered = self._wanted()

    def begin(self) -> None:
        """List the models and take the focus."""
        typed = self.query_one("#model", Input).value.strip()
        self._list("" if typed in self._names() else typed)
        self._considered = self._wanted()
        self._note()
        self.query_one("#model", Input).focus()

    def shipped(self) -> list[tuple[str, str]]:
        """Return the models that can be named without bringing one, and what they are."""
        known = self.advisor.catalogue.models
        demo = known.demo
        models = [(demo.name, f"{demo.layers} encoder blocks, hidden {demo.hidden}")]
        models += [
            (name, f"{entry.config.get('model_type', '')}, {entry.dtype}")
            for name, entry in known.configurations.items()
        ]
        models += [
            (f"synthetic/{block}@{name}", f"the paper's block, hidden {family.hidden}")
            for name, family in known.families.items()
            for block in PAPER_BLOCKS
        ]
        return models

    def _names(self) -> list[str]:
        return [name for name, _ in self.shipped()]

    def _list(self, wanted: str) -> None:
        options = self.query_one("#models", OptionList)
        self._listed_in = self._room()
        found = [(name, words) for name, words in self.shipped() if wanted.lower() in name.lower()]
        made = [
            Option(_line(name, words if self._listed_in else ""), id=name) for name, words in found
        ]
        options.clear_options()
        options.add_options(
            made or [Option(Text(f"use {text.plain(wanted, 200)}", "bold"), id=None)]
        )
        options.highlighted = 0

    def _room(self) -> bool:
        width = self.app.size.width
        return ROOMY <= width < BESIDE or width >= ROOMY_BESIDE

    def on_resize(self) -> None:
        """Say what the models are only where there is room for it."""
        if self._room() != self._listed_in:
            self._list(self.query_one("#model", Input).value.strip())

    def on_input_changed(self, event: Input.Changed) -> None:
        """Filter the list."""
        event.stop()
        self._list(event.value.strip())
        self._suggest()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Go on."""
        event.stop()
        self.advisor.run_next_step()

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        """Propose what fits the model."""
        event.stop()
        self._suggest()

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Take the model and go on."""
        event.stop()
        if event.option.id is not None:
            self.query_one("#model", Input).value = event.option.id
        self.advisor.run_next_step()

    def on_choice_chosen(self, event: Choice.Chosen) -> None:
        """Keep the task, whatever the model."""
        event.stop()
        self._task_is_theirs = True
        self._note()

    def action_task(self) -> None:
        """Take the other task."""
        self.query_one("#task", Choice).action_move(1)

    def _wanted(self) -> str:
        """Return the model under the cursor, or what was typed, or the only model that it fits."""
        typed = self.query_one("#model", Input).value.strip()
        options = self.query_one("#models", OptionList)
        highlighted = (
            options.highlighted_option.id if options.highlighted_option is not None else None
        )
        takes_highlighted = options.has_focus or (typed and typed not in self._names())
        return highlighted if takes_highlighted and highlighted is not None else typed or DEMO

    def _suggest(self) -> None:
        """Propose the task that fits another model than before, unless the user has chosen one."""
        wanted = self._wanted()
        if wanted != self._considered and not self._task_is_theirs:
            from advisor.question.task import suggest_task  # noqa: PLC0415 - not needed for the first sight

            self.query_one("#task", Choice).choose(
                suggest_task(wanted, self.advisor.catalogue.models)
            )
        self._considered = wanted
        self._note()

    def _note(self) -> None:
        models = self.advisor.catalogue.models
        words = NOTES[self.query_one("#task", Choice).value]
        if self.query_one("#task", Choice).value == "generate" and self._considered == DEMO:
            words = f"by {models.demo_language_model}: {words}"
        self.query_one("#task-note", Static).update(words, layout=False)

    def check(self) -> None:
        """Take the model and the task; see that there is such a model and that it can do that."""
        from advisor.question import choose_demo  # noqa: PLC0415 - not needed for the first sight
        from advisor.question.model import parse_model  # noqa: PLC0415 - as above
        from advisor.question.task import check_task  # noqa: PLC0415 - as above

        task = cast("Task", self.query_one("#task", Choice).value)
        self.answer(model=self._wanted(), task=task)
        models = self.advisor.catalogue.models
        check_task(task, parse_model(choose_demo(self.answers, models), models), models)


def _line(name: str, words: str) -> Text:
    """Return a model and what it is."""
    return Text(f"{text.squeeze(name, 38):<38}  ", "bold") + Text(words, "dim")
