"""How a worker ends.

The counterparts of the answers in `probes.protocol`, checked as they are read.
"""

from __future__ import annotations

import msgspec

from advisor.domain.worker_events import Phase


class Completed(msgspec.Struct, frozen=True, kw_only=True, tag_field="status", tag="completed"):
    """All visits were made and the last output was still right."""


class Unsupported(msgspec.Struct, frozen=True, kw_only=True, tag_field="status", tag="unsupported"):
    """The stack cannot do it, and says so: a limit, not a defect."""

    phase: Phase
    reason: str
    fix: str | None = None


class ModelRefused(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="status", tag="model-refused"
):
    """The model cannot be opened."""

    phase: Phase
    reason: str
    fix: str | None = None


class BuildFailed(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="status", tag="build-failed"
):
    """The stack raised; the phase says whether it was while building or later."""

    phase: Phase
    reason: str
    fix: str | None = None


class Incorrect(msgspec.Struct, frozen=True, kw_only=True, tag_field="status", tag="incorrect"):
    """Its outputs are wrong: whatever was timed does not count."""

    phase: Phase
    reason: str
    fix: str | None = None


class NotEngaged(msgspec.Struct, frozen=True, kw_only=True, tag_field="status", tag="not-engaged"):
    """It ran, but not on the compiled path."""

    phase: Phase
    reason: str
    fix: str | None = None


class OutOfMemory(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="status", tag="out-of-memory"
):
    """Host or device memory was short."""

    phase: Phase
    reason: str
    fix: str | None = None


class TimedOut(msgspec.Struct, frozen=True, kw_only=True, tag_field="status", tag="timed-out"):
    """It was ended because a phase took longer than its deadline."""

    phase: Phase
    reason: str
    fix: str | None = None


class Crashed(msgspec.Struct, frozen=True, kw_only=True, tag_field="status", tag="crashed"):
    """Its process ended without an answer; `signal` is the name of what killed it, None if it simply left."""

    phase: Phase
    signal: str | None
    reason: str
    fix: str | None = None


class Skipped(msgspec.Struct, frozen=True, kw_only=True, tag_field="status", tag="skipped"):
    """The user did not want to wait for it."""

    phase: Phase
    reason: str
    fix: str | None = None


Failure = (
    Unsupported
    | ModelRefused
    | BuildFailed
    | Incorrect
    | NotEngaged
    | OutOfMemory
    | TimedOut
    | Crashed
    | Skipped
)
Outcome = Completed | Failure
