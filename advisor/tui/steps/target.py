"""Question 2: on which device, in which precision, with which inputs, and for how long."""

from __future__ import annotations

from typing import cast, get_args

from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.widgets import Input, Label, Static

from advisor.domain.machine import Machine
from advisor.domain.question import Dtype
from advisor.errors import DividedGpuError, SizeError
from advisor.tui import text
from advisor.tui.steps.step import Step
from advisor.tui.widgets.choice import Choice
from advisor.tui.widgets.line import Line

DTYPES = ("auto", *(name for name in get_args(Dtype) if name != "native"))
GIBIBYTE = 2**30
#: Tokens of a text where none are typed, as with the options.
TOKENS = "32"


class TargetStep(Step):
    """Device, precision, inputs, budget, interpreter."""

    has_begun = False

    def compose(self) -> ComposeResult:
        """Make the fields."""
        answers, budgets = self.answers, self.advisor.catalogue.presets.budgets
        default_budget = self.advisor.catalogue.presets.default_budget
        yield Static("Where will it run, and with what?", classes="lead", markup=False)
        yield Choice(
            "Device", [(answers.gpu, answers.gpu or "looking ...")], answers.gpu, id="device"
        )
        yield Static("", id="device-note", markup=False, classes="hint")
        yield from self._field(
            "Or a GPU not here", "", "such as H100, from stored figures", "elsewhere"
        )
        yield Choice("Precision", [(name, name) for name in DTYPES], answers.dtype, id="dtype")
        named = [
            (name, f"{name} {budget.measuring_seconds:g} s") for name, budget in budgets.items()
        ]
        if answers.budget and answers.budget not in budgets:
            named.append((answers.budget, f"{answers.budget} s"))
        yield Choice("Time for measuring", named, answers.budget or default_budget, id="budget")
        yield Static(
            "builds come on top; more time tells closer rivals apart", markup=False, classes="hint"
        )
        yield from self._field("Batch sizes", answers.batch_sizes, "the model's own", "batch_sizes")
        yield from self._field("Input tokens", str(answers.input_tokens), TOKENS, "input_tokens")
        yield from self._field("Output tokens", str(answers.output_tokens), TOKENS, "output_tokens")
        yield from self._field(
            "Longest build, s", f"{answers.max_build_seconds:g}", "600", "max_build_seconds"
        )
        yield from self._field(
            "Python with torch", answers.python, "the one that runs p3-advisor", "python"
        )
        yield Static("", id="machine", markup=False, classes="hint")

    def _field(self, label: str, value: str, placeholder: str, name: str) -> ComposeResult:
        with Horizontal(classes="field", id=f"field-{name}"):
            yield Label(f"  {label:<21}", markup=False)
            yield Line(value, placeholder=placeholder, id=name, compact=True)

    def begin(self) -> None:
        """Show what is attached and take the focus."""
        self.has_begun = True
        self.query_one("#field-output_tokens").display = self.answers.task == "generate"
        if self.advisor.machine is not None:
            self.show_machine(self.advisor.machine)
        self.query_one("#device", Choice).focus()

    def show_machine(self, machine: Machine) -> None:
        """Offer the devices that are there."""
        usable = machine.software.torch_cuda is not None
        values = [
            (str(gpu.index), f"{gpu.index} {text.plain(gpu.name, 28)}")
            for gpu in machine.gpus
            if usable
        ]
        values.append(("cpu", "CPU"))
        asked = self.answers.gpu
        if asked and asked not in {name for name, _ in values}:
            values.append((asked, text.plain(asked, 28)))
        choice = self.query_one("#device", Choice)
        choice.offer(values, asked or self._first_device(machine) or values[0][0])
        self._note(machine)
        packages = machine.software.packages
        torch = (
            f"torch {packages['torch']}"
            if "torch" in packages
            else "no torch: nothing can be probed with it"
        )
        words = f"Python {machine.software.version}, {torch}, {machine.cpu.usable_processors} processors: {text.plain(machine.cpu.model, 60)}"
        self.query_one("#machine", Static).update(words)

    def _first_device(self, machine: Machine) -> str:
        """Return what is measured where nothing is asked for; nothing where that is refused, which the plan then tells."""
        from advisor import question  # noqa: PLC0415 - after the first sight

        visible = self.advisor.world.environment.get(question.VISIBLE_DEVICES)
        try:
            gpu = question.choose_gpu("", machine, self.advisor.catalogue, visible)
        except DividedGpuError:
            return ""
        return str(gpu.index) if gpu else question.CPU

    def _note(self, machine: Machine) -> None:
        chosen = self.query_one("#device", Choice).value
        gpu = next((gpu for gpu in machine.gpus if str(gpu.index) == chosen), None)
        if gpu is not None:
            free, total = gpu.free_memory_bytes / GIBIBYTE, gpu.memory_bytes / GIBIBYTE
            used = "" if total - free < 1 else f"; {total - free:.1f} GiB are in use by others"
            words = f"driver {gpu.driver}, {total:.0f} GiB{used}"
        elif machine.gpus and machine.software.torch_cuda is None:
            words = f"the {machine.gpus[0].name} cannot be used: this torch is a CPU build"
        elif not machine.gpus:
            words = f"no GPU found ({text.plain(machine.gpu_problem or 'none is listed', 50)}): CPU workflows only"
        else:
            words = "the GPU is left alone"
        self.query_one("#device-note", Static).update(words)

    def on_choice_chosen(self, event: Choice.Chosen) -> None:
        """Tell about the device."""
        event.stop()
        if event.choice.id == "device" and self.advisor.machine is not None:
            self._note(self.advisor.machine)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Go on."""
        event.stop()
        self.advisor.run_next_step()

    def check(self) -> None:
        """Take the fields; whether they fit is seen when the plan is made."""
        longest = self._typed("max_build_seconds") or "600"
        try:
            seconds = float(longest)
        except ValueError as problem:
            raise SizeError(
                f"the longest build {longest!r} is no number", "use seconds, such as 120"
            ) from problem
        self.answer(
            gpu=self._typed("elsewhere") or self.query_one("#device", Choice).value,
            dtype=cast("Dtype", self.query_one("#dtype", Choice).value),
            budget=self.query_one("#budget", Choice).value,
            batch_sizes=self._typed("batch_sizes"),
            input_tokens=self._tokens("input_tokens"),
            output_tokens=self._tokens("output_tokens"),
            max_build_seconds=seconds,
            python=self._typed("python"),
        )

    def _typed(self, name: str) -> str:
        return self.query_one(f"#{name}", Input).value.strip()

    def _tokens(self, name: str) -> int:
        typed = self._typed(name) or TOKENS
        try:
            return int(typed)
        except ValueError as problem:
            raise SizeError(
                f"{typed!r} is no number of tokens", "use a whole number, such as 128"
            ) from problem
