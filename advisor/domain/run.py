"""What identifies a run and does not change while it goes on."""

from __future__ import annotations

import re

import msgspec

from advisor.domain.catalogue import Catalogue
from advisor.domain.machine import Machine
from advisor.domain.question import Question

SCHEMA = "p3-advisor/run-header/1"
#: The runs of a fleet have its id, the number of the race and that of the attempt.
RUN_ID = re.compile(r"(?P<own>[0-9]{8}-[0-9]{6}-[0-9a-f]{4})(?P<race>-[0-9]{4,}-[0-9]+)?")


def fleet_of(run_id: str) -> str | None:
    """Return the fleet for which a run was made, maybe on another machine; None for a run of its own."""
    found = RUN_ID.fullmatch(run_id)
    return found["own"] if found and found["race"] else None


def resumption_of(run_id: str) -> str:
    """Return the command that goes on with a run that was stopped."""
    fleet = fleet_of(run_id)
    return f"p3-advisor fleet {fleet} --resume" if fleet else f"p3-advisor resume {run_id}"


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """`run.json`: everything that the decision depends on besides the events, so that it can be made again anywhere."""

    schema: str
    run_id: str
    #: RFC 3339, with the zone.
    created: str
    advisor_version: str
    question: Question
    machine: Machine
    catalogue: Catalogue
    #: True for a run that was made on another machine: its figures are evidence, its code and its
    #: paths are not to be trusted.
    imported: bool = False

    @property
    def device(self) -> str:
        """Name of the GPU or the processor that the run measures on."""
        gpu = self.machine.find_gpu(self.question.gpu)
        return gpu.name if gpu else self.machine.cpu.model
