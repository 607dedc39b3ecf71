"""Question 2: device, precision, inputs, time limits and interpreter."""

from __future__ import annotations

import functools
import pathlib
import shutil
from collections.abc import Callable, Mapping
from typing import NamedTuple, cast, get_args

import msgspec
from textual.app import ComposeResult
from textual.widgets import Input, Select, Static

from advisor.ask import devices, task
from advisor.ask.model import parse_model
from advisor.ask.option_values import ANY, WEIGHT_FORMATS, parse_duration
from advisor.ask.resolve import parse_batch_sizes, select_demo_model
from advisor.ask.run_options import RunOptions
from advisor.domain import errors
from advisor.domain.catalogue import Catalogue
from advisor.domain.machine import Machine
from advisor.domain.question import Dtype, Task
from advisor.domain.text import GIBIBYTE
from advisor.tui import panels
from advisor.tui.form import AnswerInput, Choice, Field, Step
from advisor.tui.model_step import OF_MODEL

CALLS: tuple[Task, ...] = ("forward", "generate")
SERVES: tuple[Task, ...] = ("serve",)
TASKS = (*CALLS, *SERVES)
DTYPES = ("auto", *(name for name in get_args(Dtype) if name != "own"))
#: What the CPU as the device means for the GPUs of the machine, by why they cannot be used.
CPU_NOTES: dict[devices.NoGpuReason | None, str] = {
    "no-gpu": "no NVIDIA GPU found: CPU workflows only",
    "cpu-build": "{names} cannot be used: this torch is a CPU build",
    None: "the GPU is not used",
}
OF_ABSENT = "answered from a stored run on one"
SIDES = ("input", "output")
#: Characters of the names of GPUs in a note.
MAX_NOTE = 60


class TextField(NamedTuple):
    """A text that answers an option, in questions about some tasks."""

    label: str
    #: Shown in an empty input; what an empty input stands for.
    placeholder: str
    tasks: tuple[Task, ...] = TASKS


FIELDS = {
    "absent_gpu": TextField("Or another GPU", f"such as H100: {OF_ABSENT}"),
    "batch_sizes": TextField("Batch sizes", "default of the model", CALLS),
    "input_tokens": TextField("Input tokens", RunOptions().input_tokens, CALLS),
    "output_tokens": TextField("Output tokens", RunOptions().output_tokens, ("generate",)),
    "length_mix": TextField("Length mix", "equal shares, or such as 32:70,512:30", CALLS),
    "ttft": TextField("First token within", task.FIRST_TTFT, SERVES),
    "itl": TextField("Between tokens", task.FIRST_ITL, SERVES),
    "lengths": TextField("Request lengths", "a mix, or a file", SERVES),
    "rate": TextField("Requests/s needed", "not known", SERVES),
    "gpus_per_model": TextField("GPUs per model", "1", SERVES),
    "max_build_seconds": TextField("Build limit, s", f"{RunOptions().max_build_seconds:g}"),
    "python": TextField("Python with torch", "the interpreter of p3-advisor"),
}


def first_text(run_options: RunOptions, name: str) -> str:
    """Return the answer to an option; empty for its default."""
    value, default = (getattr(each, name, "") for each in (run_options, RunOptions()))
    return "" if value == default else f"{value:g}" if isinstance(value, float) else str(value)


def entered_value(name: str, typed: str) -> object:
    """Return a text as the value of its option, the default for an empty one.

    Raise `OptionValueError` for a number that is not within the bounds of the option.
    """
    try:
        given = msgspec.convert({name: typed} if typed else {}, RunOptions, strict=False)
    except msgspec.ValidationError as problem:
        raise errors.OptionValueError(
            f"--{name.replace('_', '-')} {typed!r} is no number in its range",
            "use a number, such as 2",
        ) from problem
    return getattr(given, name)


def find_error(texts: Mapping[str, str], catalogue: Catalogue) -> errors.UserError | None:
    """Return what is wrong with the first wrong text; empty texts stand for the defaults.

    The error names fields by their labels instead of the options of the command line.
    """
    checks: dict[str, Callable[[str], object]] = {
        "absent_gpu": lambda typed: _check_gpu(typed, catalogue),
        "batch_sizes": parse_batch_sizes,
        "input_tokens": lambda typed: task.parse_counts("--input-tokens", typed),
        "output_tokens": lambda typed: task.parse_counts("--output-tokens", typed),
        "ttft": lambda typed: parse_duration("--ttft", typed),
        "itl": lambda typed: parse_duration("--itl", typed),
        "lengths": lambda typed: task.parse_request_lengths(typed, catalogue.serving),
        "python": _check_interpreter,
    }
    try:
        for name, typed in texts.items():
            if typed:
                checks.get(name, functools.partial(entered_value, name))(typed)
    except errors.UserError as error:
        what, next_step = error.what, error.next_step
        for name in texts:
            option, label = f"--{name.replace('_', '-')}", FIELDS[name].label
            what, next_step = what.replace(option, label), next_step.replace(option, label)
        return type(error)(what, next_step)
    return None


def _check_gpu(typed: str, catalogue: Catalogue) -> None:
    if devices.find_known_gpu(typed, catalogue) is None:
        raise errors.UnknownGpuError(
            f"unknown GPU {typed!r}", f"use one of {', '.join(catalogue.gpus)}"
        )


def _check_interpreter(typed: str) -> None:
    if shutil.which(pathlib.Path(typed).expanduser()) is None:
        raise errors.InterpreterError(
            f"there is no Python interpreter {typed}", "name an executable file, or leave it empty"
        )


class TargetStep(Step):
    has_begun = False

    def compose(self) -> ComposeResult:
        run_options, presets = self.run_options, self.app.catalogue.presets
        inputs = {
            name: AnswerInput(
                first_text(run_options, name), placeholder=field.placeholder, id=name, compact=True
            )
            for name, field in FIELDS.items()
        }
        fields = {name: Field(FIELDS[name].label, each) for name, each in inputs.items()}
        yield Static("Where and how will it run?", classes="lead", markup=False)
        shown = [(run_options.gpu, run_options.gpu or "detecting ...")]
        yield Field("Device", Choice(shown, run_options.gpu, id="device"))
        yield Static("", id="device-note", markup=False, classes="hint")
        yield fields.pop("absent_gpu")
        dtypes = [(name, name) for name in DTYPES]
        yield Field("Precision", Choice(dtypes, run_options.dtype, id="dtype"))
        formats = {"": "none", **{name: name for name in (*WEIGHT_FORMATS, ANY)}}
        formats.setdefault(run_options.quantised, run_options.quantised)
        quantised = Choice(formats.items(), run_options.quantised, id="quantised")
        yield Field("Quantised weights", quantised)
        budgets = {}
        for name, preset in presets.budgets.items():
            limits = [f"{kind} {seconds:g} s" for kind, seconds in preset.seconds.items()]
            budgets[name] = f"{name}: {', '.join(limits)}" if limits else name
        budget = run_options.budget or presets.default_budget
        budgets.setdefault(budget, f"{budget} s")
        yield Field("Time limit", Choice(budgets.items(), budget, id="budget"))
        yield Static(
            "builds included; more time separates closer arms", markup=False, classes="hint"
        )
        yield from fields.values()
        yield Static("", id="machine", markup=False, classes="hint")

    def begin(self) -> None:
        self.has_begun = True
        models = self.app.catalogue.models
        model = parse_model(select_demo_model(self.run_options, models), models)
        if self.is_about_another_model():
            for name in FIELDS.keys() & {*OF_MODEL}:
                self.query_one(f"#{name}", Input).value = first_text(self.run_options, name)
        for name, field in FIELDS.items():
            is_asked = self.run_options.task in field.tasks
            is_asked &= name != "input_tokens" or task.takes_tokens(model)
            self.query_one(f"#field-{name}").display = is_asked
        self._draw_lengths()
        if self.app.machine is not None:
            self.show_machine(self.app.machine)
        self.query_one("#device", Choice).focus()

    def show_machine(self, machine: Machine) -> None:
        usable = machine.gpus if devices.find_no_gpu_reason(machine) is None else ()
        values = {str(gpu.index): f"{gpu.index} {panels.printable(gpu.name, 28)}" for gpu in usable}
        values[devices.CPU] = "CPU"
        asked = self.run_options.gpu
        if self.query_one("#absent_gpu", Input).value.strip() == asked:
            asked = ""
        if asked:
            values.setdefault(asked, panels.printable(asked, 28))
        first = asked or self._default_device(machine) or next(iter(values))
        self.query_one("#device", Choice).set_values(values.items(), first)
        self._draw_device_note(machine)
        torch = machine.software.packages.get("torch")
        found = f"torch {torch}" if torch else "no torch, so nothing can be measured"
        self.query_one("#machine", Static).update(
            f"Python {machine.software.version}, {found}, {machine.cpu.usable_processors}"
            f" processors: {panels.printable(machine.cpu.model, 60)}"
        )

    def _default_device(self, machine: Machine) -> str:
        """Return the device to begin with; empty for a GPU that is refused: the plan says why."""
        visible = self.app.context.environment.get(devices.VISIBLE_DEVICES)
        try:
            gpu = devices.choose_gpu("", machine, self.app.catalogue, visible)
        except errors.MigEnabledError:
            return ""
        return str(gpu.index) if gpu else devices.CPU

    def _draw_device_note(self, machine: Machine) -> None:
        chosen = self.query_one("#device", Choice).chosen
        gpu = next((gpu for gpu in machine.gpus if str(gpu.index) == chosen), None)
        if gpu is not None:
            free, total = gpu.free_memory_bytes / GIBIBYTE, gpu.memory_bytes / GIBIBYTE
            used = "" if total - free < 1 else f"; {total - free:.1f} GiB in use by other processes"
            note = f"driver {gpu.driver}, {total:.0f} GiB{used}"
        elif chosen != devices.CPU:
            note = f"not attached: {OF_ABSENT}"
        else:
            reason = devices.find_no_gpu_reason(machine)
            names = ", ".join(each.name for each in machine.gpus)
            note = CPU_NOTES[reason].format(names=panels.printable(names, MAX_NOTE))
        self.query_one("#device-note", Static).update(note)

    def on_input_changed(self, event: Input.Changed) -> None:
        if event.input.id in {"input_tokens", "output_tokens"}:
            self._draw_lengths()

    def _draw_lengths(self) -> None:
        has_several = any("," in self._texts().get(f"{side}_tokens", "") for side in SIDES)
        is_asked = self.run_options.task in FIELDS["length_mix"].tasks
        is_asked &= self.query_one("#field-input_tokens").display
        self.query_one("#field-length_mix").display = is_asked and has_several

    def _texts(self) -> dict[str, str]:
        fields = {name: self.query_one(f"#{name}", Input) for name in FIELDS}
        return {
            name: field.value.strip()
            for name, field in fields.items()
            if self.query_one(f"#field-{name}").display
        }

    def on_select_changed(self, event: Select.Changed) -> None:
        if event.select.id == "device":
            # A device that is chosen last replaces the name of an absent GPU.
            self.query_one("#absent_gpu", Input).value = ""
            self.change_options(gpu=self.query_one("#device", Choice).chosen)
            if self.app.machine is not None:
                self._draw_device_note(self.app.machine)

    def on_input_blurred(self) -> None:
        self.post_message(self.Validated(find_error(self._texts(), self.app.catalogue)))

    def store_options(self) -> None:
        """Store the fields; raise the error of the first invalid one."""
        texts = self._texts()
        error = find_error(texts, self.app.catalogue)
        if error is not None:
            raise error
        self.change_options(
            gpu=texts["absent_gpu"] or self.query_one("#device", Choice).chosen,
            dtype=cast("Dtype", self.query_one("#dtype", Choice).chosen),
            quantised=self.query_one("#quantised", Choice).chosen,
            budget=self.query_one("#budget", Choice).chosen,
            **{
                name: entered_value(name, texts.get(name, ""))
                for name in FIELDS.keys() - {"absent_gpu"}
            },
        )
        if self.run_options.task == "serve":
            self.change_options(
                ttft=texts["ttft"] or task.FIRST_TTFT, itl=texts["itl"] or task.FIRST_ITL
            )
