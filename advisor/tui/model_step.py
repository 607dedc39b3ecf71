"""Question 1: which model is measured, and for which task."""

from __future__ import annotations

import contextlib
import glob
import os
import pathlib
from typing import ClassVar, cast

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from advisor.ask.model import MODEL_FILES, parse_model
from advisor.ask.model_files import functions_of
from advisor.ask.resolve import select_demo_model
from advisor.ask.task import check_task, choose_task, suggest_task
from advisor.domain.errors import UserError
from advisor.domain.question import Task
from advisor.domain.text import truncate_middle
from advisor.tui import panels
from advisor.tui.form import AnswerInput, Choice, Field, Step
from advisor.tui.widgets import bind

DEMO = "demo"
#: Answers that belong to one model: the others begin with those of the command line.
OF_MODEL = ("batch_sizes", "input_tokens", "output_tokens", "length_mix", "workflows", "leave_out")
TASK_LABELS = {
    "forward": "one forward pass",
    "generate": "generate text",
    "serve": "serve requests",
}
TASK_NOTES = {
    "forward": "timed: one call, whole inputs",
    "generate": "timed: tokens/s, time to the first token, time between tokens",
    "serve": "found: the rate of requests that servers sustain within limits on the latency",
}
SYNTHETIC_BLOCKS = ("ffn-multilayer", "ffn", "matmul-relu", "matmul")
OWN_MODEL_HELP = """\
Your own model
  file.py:factory     a function that returns
                      (module, example inputs)
  package.mod:factory
  model.pt2           from torch.export.save
  model.onnx          for ONNX workflows
  a directory or hub name of transformers

Timing does not depend on the values of the
weights, so the listed models have random
weights and need no network.
"""


class ShippedModels(OptionList):
    HELP = """\
The models that need no file of yours: up and down move, enter selects a model. What is typed goes
to the input above."""

    def on_key(self, event: events.Key) -> None:
        """Go to the input with what is typed, and with up from the first row."""
        if event.is_printable or (event.key == "up" and not self.highlighted):
            event.prevent_default().stop()
            field = self.screen.query_one("#model", Input)
            self.screen.set_focus(field)
            if event.is_printable:
                field.post_message(events.Key(event.key, event.character))


#: Files that are looked into at a key.
MOST_FILES = 20


def own_models(typed: str) -> list[str]:
    """Return the models of the user's files that begin so: functions, exported models, folders."""
    file, _, function = typed.partition(":")
    found: list[str] = []
    if not file or "\0" in file:
        return found
    for path in sorted(glob.glob(f"{glob.escape(file)}*"))[:MOST_FILES]:  # noqa: PTH207 - as typed
        if path.endswith(".py"):
            with contextlib.suppress(UserError):
                names = functions_of(pathlib.Path(path))
                found += [f"{path}:{name}" for name in names if name.startswith(function)]
        elif path.endswith((".onnx", ".pt2")) or os.path.isfile(f"{path}/config.json"):  # noqa: PTH113 - as typed
            found.append(path)
    return sorted(found, key=lambda name: name != typed)


class ModelInput(AnswerInput):
    HELP = """\
Type a model; an empty input stands for the grey text. What is typed counts: tab completes it to the
first model of the list, and enter goes to the next step."""
    BINDINGS: ClassVar[list[BindingType]] = [bind("tab", "complete", "Complete")]

    def action_complete(self) -> None:
        self.query_ancestor(ModelStep).complete()


class ModelStep(Step):
    def compose(self) -> ComposeResult:
        yield Static(
            "Which model?  Choose one, or type a file, a directory, or file.py:factory,\n"
            "a function that returns (module, example inputs)",
            classes="lead",
            markup=False,
        )
        yield ModelInput(
            self.run_options.model if self.run_options.model != DEMO else "",
            placeholder="demo   (enter selects it, ctrl+r runs with all defaults)",
            id="model",
            compact=True,
        )
        with Horizontal():
            yield ShippedModels(id="models", markup=False, compact=True)
            yield Static(OWN_MODEL_HELP, id="own-model-help", markup=False)
        inputs = AnswerInput(
            self.run_options.inputs,
            placeholder="those of the model; or data.npz, or file.py:function",
            id="inputs",
            compact=True,
        )
        yield Field("Inputs", inputs)
        task = choose_task(self.run_options, self.app.catalogue.models)
        yield Field("Task", Choice(TASK_LABELS.items(), task, id="task"))
        yield Static("", id="task-note", markup=False, classes="hint")

    def on_mount(self) -> None:
        # The default task is replaced by the one that fits the model, a chosen task is not.
        self._is_task_chosen = self.run_options.task != "auto"
        self._current_model = self._selected_model()

    def begin(self) -> None:
        self._list_models(self._filter_text())
        self._current_model = self._selected_model()
        self._draw_inputs()
        self._draw_task_note()
        self.query_one("#model", Input).focus()

    def _shipped_models(self) -> dict[str, str]:
        """Return the descriptions of the shipped models by name."""
        catalogue = self.app.catalogue.models
        demo = catalogue.demo
        models = {demo.name: f"{demo.layers} encoder blocks, hidden {demo.hidden}"}
        for name, shipped in catalogue.configurations.items():
            models[name] = f"{shipped.config.get('model_type', '')}, {shipped.dtype}"
        for name, family in catalogue.families.items():
            for block in SYNTHETIC_BLOCKS:
                models[f"synthetic/{block}@{name}"] = f"synthetic block, hidden {family.hidden}"
        return models

    def _filter_text(self) -> str:
        """Return the typed text unless it is the name of a shipped model."""
        typed = self.query_one("#model", Input).value.strip()
        return "" if typed in self._shipped_models() else typed

    def _list_models(self, typed: str) -> None:
        options = []
        for name, description in self._shipped_models().items():
            prompt = panels.styled(f"{truncate_middle(name, 38):<38}  ", "bold")
            if typed.lower() in name.lower():
                options.append(Option(prompt + Text(description, "dim"), id=name))
        options += [
            Option(Text(panels.printable(each, 200), "bold"), id=each) for each in own_models(typed)
        ]
        own_model = Option(Text(f"use {panels.printable(typed, 200)}", "bold"))
        option_list = self.query_one("#models", OptionList)
        option_list.set_options(options or [own_model])
        option_list.highlighted = 0

    def on_input_changed(self, event: Input.Changed) -> None:
        if event.input.id == "inputs":
            self.post_message(self.Validated(None))
            return
        self._list_models(event.value.strip())
        self._suggest_task()

    def on_option_list_option_highlighted(self) -> None:
        self._suggest_task()

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        if event.option.id is not None:
            self.query_one("#model", Input).value = event.option.id
        self.post_message(self.Answered())

    def on_select_changed(self) -> None:
        self._is_task_chosen = True
        self.post_message(self.Validated(None))
        self._draw_task_note()

    def _selected_model(self) -> str:
        """Return the highlighted model if the list has the focus, else the typed one, or demo."""
        options = self.query_one("#models", OptionList)
        option = options.highlighted_option
        if option is not None and option.id and options.has_focus:
            return option.id
        return self.query_one("#model", Input).value.strip() or DEMO

    def complete(self) -> None:
        """Replace what was typed by the first model of the list, or go on if there is none."""
        field = self.query_one("#model", Input)
        self._list_models(self._filter_text())  # it may be that of an earlier text
        option = self.query_one("#models", OptionList).highlighted_option
        if option is None or not self._filter_text() or option.id in {None, field.value.strip()}:
            self.screen.focus_next()
        else:
            field.value = str(option.id)
            field.cursor_position = len(field.value)

    def _suggest_task(self) -> None:
        model = self._selected_model()
        if model != self._current_model:
            self.post_message(self.Validated(None))
            if not self._is_task_chosen:
                task = suggest_task(model, self.app.catalogue.models)
                self.query_one("#task", Choice).choose(task)
        self._current_model = model
        self._draw_inputs()
        self._draw_task_note()

    def _draw_inputs(self) -> None:
        """Ask for inputs of the user's code and files only: the other models have their own."""
        model = self._current_model
        takes_inputs = ":" in model or model.endswith(MODEL_FILES)
        self.query_one("#field-inputs").display = takes_inputs

    def _draw_task_note(self) -> None:
        task = self.query_one("#task", Choice).chosen
        note = TASK_NOTES[task]
        if task != "forward" and self._current_model == DEMO:
            note = f"with {self.app.catalogue.models.demo_language_model}: {note}"
        self.query_one("#task-note", Static).update(note, layout=False)

    def store_options(self) -> None:
        """Store model, inputs and task; raise `UserError` if they do not exist or do not fit."""
        task = cast("Task", self.query_one("#task", Choice).chosen)
        model = self._selected_model()
        if model != self.run_options.model:
            first = self.app.launch_options.run_options
            self.change_options(**{name: getattr(first, name) for name in OF_MODEL})
        inputs = self.query_one("#inputs", Input).value.strip()
        is_asked = self.query_one("#field-inputs").display
        self.change_options(model=model, task=task, inputs=inputs if is_asked else "")
        models = self.app.catalogue.models
        check_task(task, parse_model(select_demo_model(self.run_options, models), models), models)
