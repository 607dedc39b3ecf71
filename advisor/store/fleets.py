"""Store the results of fleets, one JSON file for each; it names the runs of the fleet."""

from __future__ import annotations

import pathlib

import msgspec

from advisor.domain.fleet import FleetRecord
from advisor.errors import RunFileError, UnknownRunError
from advisor.store.runs import DECODE_ERRORS
from advisor.store.write_errors import report_unwritable
from advisor.system.atomic_write import write_atomically

LATEST = "latest"


class Fleets:
    """The results of all fleets in one directory."""

    def __init__(self, directory: pathlib.Path) -> None:
        self._directory = directory

    def save(self, record: FleetRecord) -> None:
        """Store the result of a fleet so far."""
        self._write(f"{record.request.fleet_id}.json", msgspec.json.encode(record))

    def save_parquet(self, fleet_id: str, content: bytes) -> pathlib.Path:
        """Store the figures of a fleet's runs as a Parquet file; return its path."""
        return self._write(f"{fleet_id}.parquet", content)

    def ids(self) -> list[str]:
        """Return the ids of all fleets, oldest first."""
        return [file.stem for file in self._records()]

    def find(self, name: str) -> FleetRecord:
        """Return the record of the fleet with this id, a unique prefix of it, or `latest`.

        Raise `UnknownRunError` without a single match, and `RunFileError` for a damaged record.
        """
        files = self._records()
        matches = (
            files[-1:] if name == LATEST else [file for file in files if file.stem.startswith(name)]
        )
        if len(matches) != 1:
            raise UnknownRunError(
                f"there is no fleet {name!r}",
                f"there are: {', '.join(file.stem for file in files[-5:]) or 'none'}",
            )
        try:
            return msgspec.json.decode(matches[0].read_bytes(), type=FleetRecord)
        except (OSError, *DECODE_ERRORS) as problem:
            raise RunFileError(
                f"{matches[0]} cannot be read: {problem}", "ask the fleet again"
            ) from problem

    def _records(self) -> list[pathlib.Path]:
        return sorted(self._directory.glob("*.json"))

    def _write(self, name: str, content: bytes) -> pathlib.Path:
        file = self._directory / name
        with report_unwritable(file):
            write_atomically(file, content)
        return file
