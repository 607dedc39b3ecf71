"""Store the results of fleets, one JSON file for each; it names the runs of the fleet."""

from __future__ import annotations

import pathlib

from advisor.domain.fleet import FleetRecord
from advisor.store.records import Records


class Fleets(Records[FleetRecord]):
    """The results of all fleets in one directory."""

    def __init__(self, directory: pathlib.Path) -> None:
        super().__init__(directory, FleetRecord, "fleet")

    def save(self, record: FleetRecord) -> None:
        """Store the result of a fleet so far."""
        self.save_record(record.request.fleet_id, record)

    def save_parquet(self, fleet_id: str, content: bytes) -> pathlib.Path:
        """Store the figures of a fleet's runs as a Parquet file; return its path."""
        return self._write(f"{fleet_id}.parquet", content)
