"""Store values as JSON files in one directory, each under an id; they name runs by their ids."""

from __future__ import annotations

import pathlib
from typing import Generic, TypeVar

import msgspec

from advisor.errors import RunFileError, UnknownRunError
from advisor.store.decoders import DECODE_ERRORS, DECODING
from advisor.system.atomic_write import report_unwritable, write_atomically

LATEST = "latest"

Record = TypeVar("Record", bound=msgspec.Struct)


class Records(Generic[Record]):
    """All records of one kind."""

    def __init__(self, directory: pathlib.Path, kind: type[Record], name: str) -> None:
        """Store records of the type `kind`; errors call them `name`, such as `fleet`."""
        self._directory, self._kind, self._name = directory, kind, name

    def ids(self) -> list[str]:
        """Return the ids of all records, oldest first."""
        return [file.stem for file in self._files()]

    def find(self, name: str) -> Record:
        """Return the record with this id, a unique prefix of it, or `latest`.

        Raise `UnknownRunError` without a single match, and `RunFileError` for a damaged record.
        """
        file = self._find_file(name)
        try:
            with DECODING:
                return msgspec.json.decode(file.read_bytes(), type=self._kind)
        except (OSError, *DECODE_ERRORS) as problem:
            raise RunFileError(
                f"{file} cannot be read: {problem}", f"measure the {self._name} again"
            ) from problem

    def save_record(self, record_id: str, record: Record) -> None:
        self._write(f"{record_id}.json", msgspec.json.encode(record))

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
            raise UnknownRunError(
                f"no {self._name} is stored yet", "see p3-advisor recommend --help"
            )
        raise UnknownRunError(
            f"there is no {self._name} {name!r}",
            f"the stored ones are: {', '.join(file.stem for file in files[-5:]) or 'none'}",
        )

    def _files(self) -> list[pathlib.Path]:
        return sorted(self._directory.glob("*.json"))

    def _write(self, name: str, content: bytes) -> pathlib.Path:
        file = self._directory / name
        with report_unwritable(file):
            write_atomically(file, content)
        return file
