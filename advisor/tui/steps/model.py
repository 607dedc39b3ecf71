"""Question 1: which model."""

from __future__ import annotations

from rich.text import Text
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from advisor.tui import text
from advisor.tui.steps.step import Step
from advisor.tui.widgets.line import Line

#: From this width on a model and what it is stand on one line.
ROOMY = 80
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


class ModelStep(Step):
    """A list of what ships, and a line for everything else."""

    def compose(self) -> ComposeResult:
        """Make the line, the list and the explanation."""
        yield Static("Which model?  Choose, or type your own: a file, a directory, file.py:factory", classes="lead", markup=False)
        yield Line(
            self.answers.model if self.answers.model != "demo" else "",
            placeholder="demo   (enter takes it, ctrl+r runs everything as it is)",
            id="model",
            compact=True,
        )
        with Horizontal():
            yield OptionList(id="models", markup=False, compact=True)
            yield Static(OWN, id="own", markup=False, classes="side")

    def begin(self) -> None:
        """List the models and take the focus."""
        self._list("")
        self.query_one("#model", Input).focus()

    def shipped(self) -> list[tuple[str, str]]:
        """Return the models that can be named without bringing one, and what they are."""
        known = self.advisor.catalogue.models
        demo = known.demo
        models = [(demo.name, f"{demo.layers} encoder blocks, hidden {demo.hidden}")]
        models += [(name, f"{entry.config.get('model_type', '')}, {entry.dtype}") for name, entry in known.configurations.items()]
        models += [
            (f"synthetic/{block}@{name}", f"the paper's block, hidden {family.hidden}")
            for name, family in known.families.items()
            for block in PAPER_BLOCKS
        ]
        return models

    def _list(self, wanted: str) -> None:
        options = self.query_one("#models", OptionList)
        options.clear_options()
        for name, words in self.shipped():
            if wanted.lower() in name.lower() or not wanted:
                options.add_option(Option(_line(name, words if self.app.size.width >= ROOMY else ""), id=name))
        if wanted and not options.option_count:
            options.add_option(Option(Text(f"use {text.plain(wanted, 200)}", "bold"), id=None))
        if options.option_count:
            options.highlighted = 0

    def on_resize(self) -> None:
        """Say what the models are only where there is room for it."""
        self._list(self.query_one("#model", Input).value.strip())

    def on_input_changed(self, event: Input.Changed) -> None:
        """Filter the list."""
        event.stop()
        self._list(event.value.strip())

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Go on."""
        event.stop()
        self.advisor.run_next_step()

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Take the model and go on."""
        event.stop()
        if event.option.id is not None:
            self.query_one("#model", Input).value = event.option.id
        self.advisor.run_next_step()

    def check(self) -> None:
        """Take what was typed, or the only model that it fits; see that there is such a model."""
        from advisor.question.model import parse_model  # noqa: PLC0415 - not needed for the first sight

        typed = self.query_one("#model", Input).value.strip()
        options = self.query_one("#models", OptionList)
        names = [name for name, _ in self.shipped()]
        highlighted = options.highlighted_option
        if typed and typed not in names and highlighted is not None and highlighted.id is not None:
            typed = highlighted.id
        self.answer(model=typed or "demo")
        parse_model(self.answers, self.advisor.catalogue.models)


def _line(name: str, words: str) -> Text:
    """Return a model and what it is."""
    return Text(f"{text.squeeze(name, 38):<38}  ", "bold") + Text(words, "dim")
