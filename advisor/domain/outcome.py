"""Outcomes of a worker, decoded from those of `probes.protocol`."""

from __future__ import annotations

from typing import Literal

import msgspec

from advisor.domain.bounds import ModuleName
from advisor.domain.worker_events import Phase


class Completed(msgspec.Struct, frozen=True, kw_only=True, tag_field="status", tag="completed"):
    """The worker made all visits, and its last output was correct."""


class Unsupported(msgspec.Struct, frozen=True, kw_only=True, tag_field="status", tag="unsupported"):
    """The stack does not support the request; this is a limit and no defect."""

    phase: Phase
    reason: str
    fix: str | None = None


class ModelRefused(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="status", tag="model-refused"
):
    """The worker cannot open the model."""

    phase: Phase
    reason: str
    fix: str | None = None
    #: The module that the model imports and the worker's interpreter does not have.
    missing_module: ModuleName | None = None


class ModelFailed(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="status", tag="model-failed"
):
    """The model raises an error when eager PyTorch calls it with its inputs."""

    phase: Phase
    reason: str
    fix: str | None = None


class BuildFailed(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="status", tag="build-failed"
):
    """The stack raised an error, while building or in a later `phase`."""

    phase: Phase
    reason: str
    fix: str | None = None


class Incorrect(msgspec.Struct, frozen=True, kw_only=True, tag_field="status", tag="incorrect"):
    """The outputs are wrong, or the clock is, so the times do not count."""

    phase: Phase
    reason: str
    fix: str | None = None


class Nondeterministic(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="status", tag="nondeterministic"
):
    """The same input gave outputs that differ by more than rounding accounts for."""

    phase: Phase
    reason: str
    fix: str | None = None


class NotEngaged(msgspec.Struct, frozen=True, kw_only=True, tag_field="status", tag="not-engaged"):
    """The arm ran, but not on the compiled path."""

    phase: Phase
    reason: str
    fix: str | None = None


class OutOfMemory(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="status", tag="out-of-memory"
):
    """The worker ran out of host or device memory."""

    phase: Phase
    reason: str
    fix: str | None = None


class DiskFull(msgspec.Struct, frozen=True, kw_only=True, tag_field="status", tag="disk-full"):
    """The worker could not write a file, because its disk was full or its quota was used up."""

    phase: Phase
    reason: str
    fix: str | None = None


class TimedOut(msgspec.Struct, frozen=True, kw_only=True, tag_field="status", tag="timed-out"):
    """The supervisor killed the worker because a phase exceeded its deadline."""

    phase: Phase
    reason: str
    fix: str | None = None


class Crashed(msgspec.Struct, frozen=True, kw_only=True, tag_field="status", tag="crashed"):
    """The process ended without an outcome; `signal` is null if it exited by itself."""

    phase: Phase
    signal: str | None
    reason: str
    fix: str | None = None


#: Why an arm was skipped: the user did it by hand, or its build did not fit the limits of the
#: question, such as `--build-minutes`.
SkipCause = Literal["user", "build-limit"]


class Skipped(msgspec.Struct, frozen=True, kw_only=True, tag_field="status", tag="skipped"):
    """The arm was skipped: its worker was ended, or not started."""

    phase: Phase
    reason: str
    fix: str | None = None
    #: Null in runs of older versions; `skip_cause` reads it from their `fix`.
    cause: SkipCause | None = None


def skip_cause(skipped: Skipped) -> SkipCause:
    """Return why an arm was skipped, also for runs of older versions, which stored no cause."""
    if skipped.cause is not None:
        return skipped.cause
    return "user" if skipped.fix is None else "build-limit"


Failure = (
    Unsupported
    | ModelRefused
    | ModelFailed
    | BuildFailed
    | Incorrect
    | Nondeterministic
    | NotEngaged
    | OutOfMemory
    | DiskFull
    | TimedOut
    | Crashed
    | Skipped
)
Outcome = Completed | Failure
