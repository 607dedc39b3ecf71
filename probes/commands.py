"""Commands of the advisor to a worker: each is a line of JSON on the worker's standard input.

The advisor ends a worker that does something else than the class of its command states.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import ClassVar

from probes.events import Created, Event, Imported, Opened, Prepared, Ready, Visited
from probes.outcome import Phase
from probes.shape import Shape

Phases = tuple[Phase, ...]


@dataclass(frozen=True)
class Command:
    """The base class of all commands; those with fields are dataclasses too."""

    #: The phases that the worker may start, and its phase before: by default the first of these.
    phases: ClassVar[Phases]
    phase: ClassVar[Phase]
    #: The event that ends the command; None if the process exits, or an earlier command goes on.
    answer: ClassVar[type[Event] | None]

    def __init_subclass__(
        cls, phases: Phases = (), answer: type[Event] | None = None, phase: Phase | None = None
    ) -> None:
        cls.phases, cls.answer, cls.phase = phases, answer, phase or phases[0]


class Start(Command, phase="start", phases=("import",), answer=Imported):
    """Import the stack: what each worker does first. It is not sent."""


class CreateModel(Command, phases=("open",), answer=Created):
    """Create the model, before `Build` or `Prepare`."""


class OpenModel(Command, phases=("open",), answer=Opened):
    """Load the weights and use the device, before `Prepare`."""


@dataclass(frozen=True)
class Prepare(Command, phases=("open", "build", "correctness"), answer=Prepared):
    """Use the device, build and check the outputs; sent when it is this worker's turn.

    With `waits`, wait for `BuildNext` before each shape but the first.
    """

    waits: bool = False


class BuildNext(Command, phase="build"):
    """Build the next shape, after `Prepare` with `waits`."""


class WarmUp(Command, phases=("warmup", "measure"), answer=Ready):
    """Warm up, after `Prepare`."""


class Build(Command, phase="open", phases=(*Prepare.phases, *WarmUp.phases), answer=WarmUp.answer):
    """Prepare and warm up; in the reference worker, write the inputs that others need to build."""


@dataclass(frozen=True)
class Visit(Command, phase="measure", answer=Visited):
    """Time several calls in a row."""

    shape: Shape
    round: int


@dataclass(frozen=True)
class Sustain(Command, phases=("sustain",), answer=Ready):
    """Call without a pause for that long."""

    shape: Shape
    seconds: float


class Diagnose(Command, phases=("diagnose",), answer=Ready):
    """Profile a few calls of each shape."""


@dataclass(frozen=True)
class RunClosedLoop(Command, phases=("sustain",), answer=Ready):
    """Keep so many requests at the server (role `serve`) for that long."""

    concurrency: int
    seconds: float


@dataclass(frozen=True)
class SampleTexts(Command, phases=("sustain",), answer=Ready):
    """Check a text of the server at this interval, until `EndSampling`."""

    interval_seconds: float


class EndSampling(Command, phase="sustain"):
    """End `SampleTexts`."""


@dataclass(frozen=True)
class TryNewShapes(Command, phases=("done", "new-shapes"), answer=Ready):
    """Check the outputs, then try batch sizes and a length that were not built.

    If `short`, try one batch size. Only `Stop` follows, because this may break the programs.
    """

    short: bool = False


@dataclass(frozen=True)
class Allocate(Command, phases=("measure",), answer=Ready):
    """Hold so much device memory outside every allocator (the reference worker only)."""

    bytes: int


class MeasurePeaks(Command, phases=("measure",), answer=Ready):
    """Measure how fast the device can be (the reference worker only)."""


class ComputeOutputs(Command, phases=("correctness",)):
    """Compute the reference outputs (the reference worker only), and end."""


class Check(Command, phases=("done",), answer=Ready):
    """Check the outputs again; `Stop` does not repeat this."""


class Stop(Command, phases=("done",)):
    """Check the outputs again, respond, and end."""


def encode(command: Command) -> bytes:
    return json.dumps({"command": type(command).__name__, **asdict(command)}).encode() + b"\n"


def decode(line: bytes) -> Command:
    fields = json.loads(line)
    if "shape" in fields:
        fields["shape"] = Shape(**fields["shape"])
    return COMMANDS[fields.pop("command")](**fields)


COMMANDS = {kind.__name__: kind for kind in Command.__subclasses__()}
