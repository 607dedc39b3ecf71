"""Question 2: device, precision, inputs, time limits and interpreter."""

from __future__ import annotations

from typing import cast, get_args

import msgspec
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.widgets import Input, Label, Static

from advisor.domain.machine import Machine
from advisor.domain.question import Dtype
from advisor.domain.sweep import MixedLengths
from advisor.errors import MigEnabledError, UserError
from advisor.question.devices import (
    CPU,
    VISIBLE_DEVICES,
    NoGpuReason,
    choose_gpu,
    find_no_gpu_reason,
)
from advisor.question.sweep import DEFAULT_LENGTHS, LengthAnswers
from advisor.question.weight_formats import ANY, FORMATS
from advisor.tui.rendering import text
from advisor.tui.steps import checks
from advisor.tui.steps.load_fields import NO_LOAD, LoadFields
from advisor.tui.steps.step import Step
from advisor.tui.widgets.answer_input import AnswerInput
from advisor.tui.widgets.choice import Choice

DTYPES = ("auto", *(name for name in get_args(Dtype) if name != "native"))
QUANTISED = [("", "none"), *((name, name) for name in (*FORMATS, ANY))]
GIBIBYTE = 2**30
#: Default of an empty input, the same as on the command line.
DEFAULT_MAX_BUILD_SECONDS = "600"
#: What the CPU as the device means for the GPUs of the machine, by why they cannot be used.
CPU_NOTES: dict[NoGpuReason | None, str] = {
    "no-gpu": "no NVIDIA GPU found: CPU workflows only",
    "cpu-build": "{names} cannot be used: this torch is a CPU build",
    None: "the GPU is not used",
}
#: Characters of the names of GPUs in a note.
MAX_NOTE = 60
#: Labels of the fields of lengths.
LENGTH_LABELS = {
    "input_tokens": "Input tokens",
    "output_tokens": "Output tokens",
    "length_mix": "Length mix",
}


class TargetStep(Step):
    """The fields for the device, the inputs and the limits."""

    has_begun = False

    def compose(self) -> ComposeResult:
        answers = self.answers
        yield Static("Where and how will it run?", classes="lead", markup=False)
        devices = [(answers.gpu, answers.gpu or "detecting ...")]
        yield Choice("Device", devices, answers.gpu, id="device")
        yield Static("", id="device-note", markup=False, classes="hint")
        yield from self._field(
            "absent_gpu",
            "Or another GPU",
            "",
            "such as H100: answered from stored or published figures",
        )
        yield Choice("Precision", [(name, name) for name in DTYPES], answers.dtype, id="dtype")
        yield self._quantised_choice()
        yield self._budget_choice()
        yield Static(
            "builds take additional time; more time separates closer arms",
            markup=False,
            classes="hint",
        )
        yield from self._field(
            "batch_sizes", "Batch sizes", answers.batch_sizes, "default of the model"
        )
        yield from self._length_fields()
        yield LoadFields(answers, self.app_interface.catalogue)
        yield from self._field(
            "max_build_seconds",
            "Build limit, s",
            f"{answers.max_build_seconds:g}",
            DEFAULT_MAX_BUILD_SECONDS,
        )
        yield from self._field(
            "python", "Python with torch", answers.python, "the interpreter of p3-advisor"
        )
        yield Static("", id="machine", markup=False, classes="hint")

    def _length_fields(self) -> ComposeResult:
        lengths, defaults = self.app_interface.lengths, DEFAULT_LENGTHS
        for name in ("input_tokens", "output_tokens"):
            value = getattr(lengths, name)
            yield from self._field(name, LENGTH_LABELS[name], value, getattr(defaults, name))
        yield from self._field(
            "length_mix",
            LENGTH_LABELS["length_mix"],
            lengths.length_mix,
            "equal shares, or such as 32:70,512:30",
        )
        yield Static("", id="lengths-note", markup=False, classes="hint")

    def _budget_choice(self) -> Choice:
        budget, presets = self.answers.budget, self.app_interface.catalogue.presets
        values = [
            (name, f"{name} {preset.measuring_seconds:g} s")
            for name, preset in presets.budgets.items()
        ]
        if budget and budget not in presets.budgets:
            values.append((budget, f"{budget} s"))
        return Choice("Measuring time", values, budget or presets.default_budget, id="budget")

    def _quantised_choice(self) -> Choice:
        quantised = self.answers.quantised
        values = [*QUANTISED]
        if quantised not in {name for name, _ in values}:
            values.append((quantised, quantised))
        return Choice("Quantised weights", values, quantised, id="quantised")

    def _field(self, name: str, label: str, value: str, placeholder: str) -> ComposeResult:
        with Horizontal(classes="field", id=f"field-{name}"):
            yield Label(f"  {label:<21}", markup=False)
            check = checks.of_field(name, label, self.app_interface.catalogue)
            yield AnswerInput(value, placeholder=placeholder, id=name, check=check)

    def begin(self) -> None:
        self.has_begun = True
        serves = self.answers.task == "serve"
        self.query_one("#field-output_tokens").display = self.answers.task == "generate"
        for name in ("field-input_tokens", "field-batch_sizes", "lengths-note"):
            self.query_one(f"#{name}").display = not serves
        self.query_one(LoadFields).display = serves
        self._draw_lengths()
        if self.app_interface.machine is not None:
            self.show_machine(self.app_interface.machine)
        self.query_one("#device", Choice).focus()

    def show_machine(self, machine: Machine) -> None:
        """Offer the devices of the machine."""
        usable = machine.gpus if find_no_gpu_reason(machine) is None else ()
        values = [(str(gpu.index), f"{gpu.index} {text.printable(gpu.name, 28)}") for gpu in usable]
        values.append(("cpu", "CPU"))
        asked = self.answers.gpu
        if self.query_one("#absent_gpu", Input).value.strip() == asked:
            asked = ""
        if asked and asked not in {name for name, _ in values}:
            values.append((asked, text.printable(asked, 28)))
        choice = self.query_one("#device", Choice)
        choice.set_values(values, asked or self._default_device(machine) or values[0][0])
        self._draw_device_note(machine)
        packages = machine.software.packages
        torch = (
            f"torch {packages['torch']}"
            if "torch" in packages
            else "no torch, so nothing can be measured"
        )
        self.query_one("#machine", Static).update(
            f"Python {machine.software.version}, {torch}, {machine.cpu.usable_processors}"
            f" processors: {text.printable(machine.cpu.model, 60)}"
        )

    def _default_device(self, machine: Machine) -> str:
        """Return the device that is measured by default.

        Return an empty text for a GPU that cannot be chosen; the plan then shows the error.
        """
        visible = self.app_interface.context.environment.get(VISIBLE_DEVICES)
        try:
            gpu = choose_gpu("", machine, self.app_interface.catalogue, visible)
        except MigEnabledError:
            return ""
        return str(gpu.index) if gpu else CPU

    def _draw_device_note(self, machine: Machine) -> None:
        chosen = self.query_one("#device", Choice).value
        gpu = next((gpu for gpu in machine.gpus if str(gpu.index) == chosen), None)
        if gpu is not None:
            free, total = gpu.free_memory_bytes / GIBIBYTE, gpu.memory_bytes / GIBIBYTE
            used = "" if total - free < 1 else f"; {total - free:.1f} GiB in use by other processes"
            note = f"driver {gpu.driver}, {total:.0f} GiB{used}"
        else:
            reason = find_no_gpu_reason(machine)
            names = ", ".join(each.name for each in machine.gpus)
            note = CPU_NOTES[reason].format(names=text.printable(names, MAX_NOTE))
        self.query_one("#device-note", Static).update(note)

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        if event.input.id in {"input_tokens", "output_tokens"}:
            self._draw_lengths()

    def _draw_lengths(self) -> None:
        """Ask for the mix of several lengths, and state what they are measured as."""
        lengths = msgspec.structs.replace(self._typed_lengths(), length_mix="")
        try:
            count = len(lengths.parse())
        except UserError:
            count = 1
        self.query_one("#field-length_mix").display = count > 1
        self.query_one("#lengths-note", Static).update(
            f"a sweep: {count} runs, which share the measuring time"
            if count > 1
            else "several, such as 32,512,2048, are a sweep"
        )

    def _typed_lengths(self) -> LengthAnswers:
        """Return the lengths of the fields that are shown."""
        shown = [name for name in LENGTH_LABELS if self.query_one(f"#field-{name}").display]
        typed = {name: self._typed(name) for name in shown}
        return LengthAnswers(**{name: value for name, value in typed.items() if value})

    def _parse_lengths(self) -> tuple[MixedLengths, ...]:
        """Return the lengths with their shares; raise an error that names the fields."""
        try:
            return self._typed_lengths().parse()
        except UserError as error:
            raise checks.with_labels(error, LENGTH_LABELS) from error

    def on_choice_chosen(self, event: Choice.Chosen) -> None:
        event.stop()
        if event.choice.id == "device":
            # A device that is chosen last replaces the name of an absent GPU.
            self.query_one("#absent_gpu", Input).value = ""
            self.change_answers(gpu=event.value)
            if self.app_interface.machine is not None:
                self._draw_device_note(self.app_interface.machine)

    def on_answer_input_checked(self, event: AnswerInput.Checked) -> None:
        """Show what is wrong with the field that was left."""
        event.stop()
        self.post_message(self.Checked(event.error or self._first_error()))

    def _first_error(self) -> UserError | None:
        shown = (field for field in self.query(AnswerInput) if field.is_shown)
        errors = (field.find_error() for field in shown)
        first = next((error for error in errors if error is not None), None)
        if first is None:
            try:
                self._parse_lengths()
            except UserError as error:
                return error
        return first

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.post_message(self.Answered())

    def store_answers(self) -> None:
        """Store the fields; raise the error of the first invalid one."""
        error = self._first_error()
        if error is not None:
            raise error
        shortest = self._parse_lengths()[0].lengths
        serves = self.answers.task == "serve"
        load = self.query_one(LoadFields).typed() if serves else NO_LOAD
        self.app_interface.lengths = self._typed_lengths()
        self.change_answers(
            gpu=self._typed("absent_gpu") or self.query_one("#device", Choice).value,
            dtype=cast("Dtype", self.query_one("#dtype", Choice).value),
            quantised=self.query_one("#quantised", Choice).value,
            budget=self.query_one("#budget", Choice).value,
            batch_sizes="" if serves else self._typed("batch_sizes"),
            input_tokens=shortest.input_tokens,
            output_tokens=shortest.output_tokens,
            max_build_seconds=float(self._typed("max_build_seconds") or DEFAULT_MAX_BUILD_SECONDS),
            python=self._typed("python"),
            **load,
        )

    def _typed(self, name: str) -> str:
        return self.query_one(f"#{name}", Input).value.strip()
