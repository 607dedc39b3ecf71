"""Which arms a run measures, and which it does not and why."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

ExclusionStatus = Literal["unsupported", "not-installed", "excluded"]


#: The process that makes weights, inputs and reference outputs for all arms; it is not timed, so it
#: is no arm.
REFERENCE = "reference"


#: The process that builds for a device that is not here; nothing of it can be run, let alone timed.
CROSS_BUILD = "elsewhere"


class Arm(msgspec.Struct, frozen=True, kw_only=True):
    """A workflow with one set of options: the unit that is built, measured and ranked."""

    id: str
    workflow: str
    option: str
    options: dict[str, Any]
    #: The arm this one repeats, to show what a difference between two equal arms looks like here.
    duplicate_of: str | None = None
    #: Interpreter of the environment that was made for it; empty for the question's.
    python: str = ""
    #: Image of the container it runs in; empty for none.
    image: str = ""
    #: Extras that its environment asks for, by distribution; its recipe asks for them too.
    extras: dict[str, tuple[str, ...]] = {}


class Excluded(msgspec.Struct, frozen=True, kw_only=True):
    """A workflow that is not measured."""

    workflow: str
    status: ExclusionStatus
    reason: str
    fix: str | None


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Arms in the order they are built; the first is the baseline."""

    arms: tuple[Arm, ...]
    excluded: tuple[Excluded, ...]

    @property
    def baseline(self) -> Arm:
        """The arm that all others are compared with."""
        return self.arms[0]


def folder_of(arm: str) -> str:
    """Return the arm's id as the name of a directory."""
    return arm.replace("/", "+")
