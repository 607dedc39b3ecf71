"""Store sweeps over lengths, one JSON file for each; it names the runs of the sweep."""

from __future__ import annotations

import pathlib

from advisor.domain.sweep import SweepRecord
from advisor.store.records import Records


class Sweeps(Records[SweepRecord]):
    """All sweeps in one directory."""

    def __init__(self, directory: pathlib.Path) -> None:
        super().__init__(directory, SweepRecord, "sweep")

    def save(self, record: SweepRecord) -> None:
        """Store a sweep as far as it has come."""
        self.save_record(record.sweep_id, record)
