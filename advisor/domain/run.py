"""The header of a run, which does not change."""

from __future__ import annotations

import re
from typing import Final, Literal

import msgspec

from advisor.domain.catalogue import Catalogue
from advisor.domain.machine import Machine, describe_gpus
from advisor.domain.question import Question

#: Of `run.json` and of its events.
SCHEMA: Final = "p3-advisor/stored-run/2"
#: Ids of a fleet's runs have the fleet's id, the number of the assignment and of the attempt.
RUN_ID = re.compile(r"(?P<own>[0-9]{8}-[0-9]{6}-[0-9a-f]{4})(?P<race>-[0-9]{4,}-[0-9]+)?")


def fleet_id_of(run_id: str) -> str | None:
    """Return the id of the run's fleet; None for a run without a fleet."""
    found = RUN_ID.fullmatch(run_id)
    return found["own"] if found and found["race"] else None


def resume_command(run_id: str) -> str:
    """Return the command that resumes a stopped run."""
    fleet = fleet_id_of(run_id)
    return f"p3-advisor fleet {fleet} --resume" if fleet else f"p3-advisor resume {run_id}"


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """`run.json`: everything that the decision depends on besides the events."""

    schema: Literal["p3-advisor/stored-run/2"] = SCHEMA
    run_id: str
    #: RFC 3339 with time zone.
    created: str
    advisor_version: str
    question: Question
    machine: Machine
    catalogue: Catalogue
    #: Whether the run was imported from a file; its code is not run and its paths are not opened.
    imported: bool = False

    @property
    def device(self) -> str:
        """Name of the measured GPU or processor."""
        gpu = self.machine.find_gpu(self.question.gpu)
        if gpu is None:
            return self.machine.cpu.model
        return describe_gpus(gpu.name, self.question.devices_per_model)
