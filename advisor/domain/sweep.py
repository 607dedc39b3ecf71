"""A sweep: one question at several lengths of inputs and outputs, one stored run for each."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

RECORD_SCHEMA = "p3-advisor/sweep-record/1"
#: How the id of a sweep begins; those of runs begin with a digit.
ID_PREFIX = "sweep-"


class Lengths(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """Tokens of each input, and tokens that are generated for it."""

    input_tokens: Annotated[int, msgspec.Meta(ge=1, le=1 << 20)]
    output_tokens: Annotated[int, msgspec.Meta(ge=1, le=1 << 20)]


class MixedLengths(msgspec.Struct, frozen=True, kw_only=True):
    """Lengths of a sweep and their share of the mix; the shares of a sweep sum to 1."""

    lengths: Lengths
    #: 0 for lengths that are measured and do not count in the mix.
    share: Annotated[float, msgspec.Meta(ge=0, le=1)]


class SweepRun(msgspec.Struct, frozen=True, kw_only=True):
    """The run at one of the lengths."""

    lengths: Lengths
    run_id: str
    #: Workflows that its plan is limited to; empty for all of the question.
    limited_to: tuple[str, ...] = ()
    #: The shorter and the longer lengths whose equal answers limit the plan.
    between: tuple[Lengths, ...] = ()


class SweepRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A stored sweep; its runs are stored like other runs."""

    schema: str
    sweep_id: str
    #: RFC 3339 with time zone.
    created: str
    #: Options of the question; its lengths are those of the sweep.
    answers: dict[str, Any]
    #: The shortest first.
    mix: Annotated[tuple[MixedLengths, ...], msgspec.Meta(min_length=2)]
    #: In the order in which they were started.
    runs: tuple[SweepRun, ...] = ()

    def run_at(self, lengths: Lengths) -> SweepRun | None:
        """Return the run at these lengths; None before it is started."""
        return next((run for run in self.runs if run.lengths == lengths), None)

    def with_run(self, run: SweepRun) -> SweepRecord:
        """Return the record with this run instead of an earlier one at its lengths."""
        others = (each for each in self.runs if each.lengths != run.lengths)
        return msgspec.structs.replace(self, runs=(*others, run))


def is_sweep_id(name: str) -> bool:
    """Return whether a name is the id of a sweep, or its beginning, and not that of a run."""
    return name.startswith(ID_PREFIX)
