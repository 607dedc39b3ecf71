"""How a worker ended."""

from __future__ import annotations

import dataclasses
import re
from typing import Literal

Phase = Literal[
    "start",
    "import",
    "open",
    "build",
    "correctness",
    "warmup",
    "measure",
    "sustain",
    "diagnose",
    "new-shapes",
    "done",
]

FailureStatus = Literal[
    # A limit of the stack, not a defect.
    "unsupported",
    # The worker cannot open the model.
    "model-refused",
    # The model raises an error when eager PyTorch calls it with its inputs.
    "model-failed",
    # The stack raised an error, while building or in a later phase.
    "build-failed",
    # The outputs are wrong, so the times do not count.
    "incorrect",
    # The same input gave outputs that differ by more than rounding accounts for.
    "nondeterministic",
    # The arm ran, but not on the compiled path.
    "not-engaged",
    # There was too little host or device memory.
    "out-of-memory",
    # A file could not be written, because the disk was full or its quota was used up.
    "disk-full",
    # These three are found by the supervisor: it killed a worker that exceeded a deadline, the
    # process ended without an outcome, or the worker was ended or not started on purpose.
    "timed-out",
    "crashed",
    "skipped",
]

#: Why an arm was skipped: the user did it by hand, `--requests` could not repay its build, the time
#: of the run was over, or it could not lead.
SkipCause = Literal["user", "build-limit", "out-of-time", "cannot-lead"]

#: A top-level module of Python. It becomes part of a command.
MODULE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")


@dataclasses.dataclass(frozen=True)
class Failure:
    """Why there is no valid measurement."""

    status: FailureStatus
    phase: Phase
    reason: str
    #: What the user can do.
    fix: str | None = None
    #: `crashed`: the signal that ended the process; None if it exited by itself.
    signal: str | None = None
    #: `model-refused`: the module that the model imports and the interpreter does not have.
    missing_module: str | None = None
    #: `skipped`.
    skip_cause: SkipCause | None = None

    def __post_init__(self) -> None:
        if self.missing_module is not None and not MODULE_NAME.fullmatch(self.missing_module):
            raise ValueError(f"{self.missing_module!r} is no name of a module")


@dataclasses.dataclass(frozen=True)
class Outcome:
    """How a worker ended. Without a failure it has answered all commands with correct outputs."""

    failure: Failure | None = None
