"""Store fleets and sweeps: one JSON file for each names its runs."""

from __future__ import annotations

import contextlib
import pathlib

from advisor.domain.fleet import FleetRecord
from advisor.domain.sweep import SweepRecord
from advisor.errors import RunFileError
from advisor.store.records import Records


class Fleets(Records[FleetRecord]):
    """The results of all fleets in one directory."""

    def __init__(self, directory: pathlib.Path) -> None:
        super().__init__(directory, FleetRecord, "fleet")

    def save(self, record: FleetRecord) -> None:
        self.save_record(record.request.fleet_id, record)

    def save_parquet(self, fleet_id: str, content: bytes) -> pathlib.Path:
        return self._write(f"{fleet_id}.parquet", content)


class Sweeps(Records[SweepRecord]):
    """All sweeps in one directory."""

    def __init__(self, directory: pathlib.Path) -> None:
        super().__init__(directory, SweepRecord, "sweep")

    def save(self, record: SweepRecord) -> None:
        """Store a sweep as far as it has come."""
        self.save_record(record.sweep_id, record)

    def find_of_run(self, run_id: str) -> SweepRecord | None:
        """Return the newest sweep that a run belongs to; None for a run without a sweep.

        Damaged records are skipped.
        """
        for sweep_id in reversed(self.ids()):
            with contextlib.suppress(RunFileError):
                record = self.find(sweep_id)
                if any(run.run_id == run_id for run in record.runs):
                    return record
        return None
