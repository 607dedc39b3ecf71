"""Store the results of fleets as JSON files in one directory; they name runs by their ids."""

from __future__ import annotations

import pathlib

import msgspec

from advisor.domain.answer import FleetRecord
from advisor.errors import RunFileError, UnknownRunError
from advisor.store.decoders import DECODE_ERRORS, DECODING
from advisor.system import report_unwritable, write_atomically

LATEST = "latest"


class Fleets:
    """The results of all fleets in one directory."""

    def __init__(self, directory: pathlib.Path) -> None:
        self._directory = directory

    def ids(self) -> list[str]:
        """Return the ids of all records, oldest first."""
        return [file.stem for file in self._files()]

    def find(self, name: str) -> FleetRecord:
        """Return the record with this id, a unique prefix of it, or `latest`.

        Raise `UnknownRunError` without a single match, and `RunFileError` for a damaged record.
        """
        file = self._find_file(name)
        try:
            with DECODING:
                return msgspec.json.decode(file.read_bytes(), type=FleetRecord)
        except (OSError, *DECODE_ERRORS) as problem:
            raise RunFileError(
                f"{file} cannot be read: {problem}", "measure the fleet again"
            ) from problem

    def save(self, record: FleetRecord) -> None:
        """Store the result of a fleet so far."""
        self._write(f"{record.request.fleet_id}.json", msgspec.json.encode(record))

    def save_parquet(self, fleet_id: str, content: bytes) -> pathlib.Path:
        """Store the figures of a fleet's runs as a Parquet file; return its path."""
        return self._write(f"{fleet_id}.parquet", content)

    def delete(self, name: str) -> str:
        """Remove the record and keep its runs; return its id."""
        file = self._find_file(name)
        with report_unwritable(file):
            file.unlink()
        return file.stem

    def _find_file(self, name: str) -> pathlib.Path:
        files = self._files()
        matches = (
            files[-1:] if name == LATEST else [file for file in files if file.stem.startswith(name)]
        )
        if len(matches) == 1:
            return matches[0]
        if name == LATEST:
            raise UnknownRunError("no fleet is stored yet", "see p3-advisor recommend --help")
        raise UnknownRunError(
            f"there is no fleet {name!r}",
            f"the stored ones are: {', '.join(file.stem for file in files[-5:]) or 'none'}",
        )

    def _files(self) -> list[pathlib.Path]:
        return sorted(self._directory.glob("*.json"))

    def _write(self, name: str, content: bytes) -> pathlib.Path:
        file = self._directory / name
        with report_unwritable(file):
            write_atomically(file, content)
        return file
