"""The interface of a workflow, written in one place: a module in `probes/workflows/` that has these functions is a workflow.

No base class, no registration: the harness loads the module by the file named in the request and
calls it in this order: `versions`, `settings`, `open_subject`, then for each batch size `build`,
`Program.feed` and the program itself, then `engagement`. The script that is handed to the user is
joined from the source of these functions; see `probes.recipes.compose`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from probes.protocol import Engagement, Request


class UnsupportedError(Exception):
    """The workflow cannot do this, and says so itself: a limit, not a defect."""


class ModelError(Exception):
    """The model cannot be opened, whatever the workflow: the user must act.

    The second argument says how.
    """

    def __init__(self, reason: str, fix: str) -> None:
        super().__init__(reason)
        self.fix = fix


class Subject(Protocol):
    """The model under test, as one stack sees it."""

    #: Precision it computes in: `float32`, `float16`, `bfloat16` or `float64`.
    dtype: str
    #: Number of parameters and their bytes; None where the format does not tell.
    parameters: int | None
    parameter_bytes: int | None
    #: Where the weights come from, in words.
    weights: str
    #: What a call processes, for throughput: `samples` or `tokens`, and how many of them one sample
    #: holds.
    unit: str
    units_per_sample: int

    def inputs(self, batch_size: int, number: int) -> list[Any]:
        """Return input set `number` for `batch_size` as numpy arrays, in the order of the model's arguments."""

    def reference(self, input_sets: list[list[Any]]) -> tuple[str, Iterable[list[Any]]]:
        """Name a more precise way to run the model (`float64`, ...) and yield its outputs for each input set, as numpy arrays."""

    def flops(self, inputs: list[Any]) -> int | None:
        """Return the floating-point operations of one call; None where nobody can count them."""


class Program(Protocol):
    """One built batch size, ready to be called."""

    def feed(self, inputs: list[Any]) -> Any:
        """Turn numpy arrays into what the program is called with; not timed."""

    def __call__(self, fed: Any) -> Any:
        """Run once; this, and waiting for its end, is what is timed."""

    def collect(self, output: Any) -> list[Any]:
        """Turn an output into numpy arrays on the host; not timed."""


class TextProgram(Program, Protocol):
    """One batch size of a language model: `feed` takes the prompts, a call gives all new tokens, `collect` them as one array.

    A program may have `score` too: forced to give the `tokens`, it returns the probabilities that
    it gave them, for the first `rows`.
    """

    def first_token(self, fed: Any) -> Any:
        """Run until the first new token and no further; raise `UnsupportedError` where prompts take turns, so that no call does."""


class Workflow(Protocol):
    """The functions a workflow's module has.

    One that generates text says so with `TASKS = ("forward", "generate")`; without that it is asked
    for `forward` only. For `generate` its subject and programs are `probes.subjects.causal_lm`'s or
    an engine's, see `probes.subjects.checkpoint`.
    """

    def versions(self) -> dict[str, str]:
        """Import the stack and return the versions that decide its behaviour."""

    def settings(self, request: Request) -> dict[str, str]:
        """Apply threads and precision and return what is in force, by name."""

    def open_subject(self, request: Request) -> Subject:
        """Open the model in the form this stack takes; raise `ModelError` or `UnsupportedError`."""

    def build(self, subject: Subject, inputs: list[Any], request: Request) -> Program:
        """Compile for the shapes of `inputs`, one batch size; what is left for the first call is timed apart."""

    def synchronise(self) -> None:
        """Return when all work on the device is done, on whatever stream."""

    def engagement(self, program: Program, fed: Any) -> Engagement:
        """Prove that the compiled path ran for `program(fed)` and say which share of the work it took."""

    def integration(self, request: Request) -> str:
        """Return the lines that a user writes to take the workflow up, around `model` and `inputs`, or `CHECKPOINT` and `prompts`.

        They are read and counted, for Productivity and code convergence, and not what is measured:
        see `probes.recipes.compose`. For text they leave `tokens`, and stand in the script as well:
        the prompts there are drawn, and a user has others.
        """

    # An engine may also have `serving_command(request) -> str`: the command line that serves the
    # model.
