"""What fleets have answered: one small file for each, which names the runs; these are stored like any other."""

from __future__ import annotations

import pathlib

import msgspec

from advisor.domain.fleet import FleetRecord
from advisor.errors import NotWritableError, RunFileError, UnknownRunError
from advisor.store.runs import UNREADABLE

LATEST = "latest"


class Fleets:
    """The answers of all fleets below one directory."""

    def __init__(self, directory: pathlib.Path) -> None:
        self._directory = directory

    def keep(self, record: FleetRecord) -> None:
        """Keep what a fleet has answered so far."""
        self._write(self._directory / f"{record.order.fleet_id}.json", msgspec.json.encode(record))

    def keep_table(self, fleet_id: str, content: bytes) -> pathlib.Path:
        """Keep the figures of a fleet's runs as a Parquet file and return where it is."""
        return self._write(self._directory / f"{fleet_id}.parquet", content)

    def names(self) -> list[str]:
        """Return the ids of all fleets, oldest first."""
        return sorted(file.stem for file in self._directory.glob("*.json"))

    def find(self, name: str) -> FleetRecord:
        """Return what the fleet with this id, or `latest`, has answered; raise `UnknownRunError` or `RunFileError`."""
        files = sorted(self._directory.glob("*.json"))
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
        except (OSError, *UNREADABLE) as problem:
            raise RunFileError(
                f"{matches[0]} cannot be read: {problem}", "ask the fleet again"
            ) from problem

    @staticmethod
    def _write(file: pathlib.Path, content: bytes) -> pathlib.Path:
        half = file.with_name(f"{file.name}.new")
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            half.write_bytes(content)
            half.replace(file)
        except OSError as problem:
            raise NotWritableError(
                f"{file} cannot be written: {problem.strerror}", "make it writable"
            ) from problem
        return file
