"""Compare values, with all their sentences, with golden files."""

from __future__ import annotations

import pathlib
from collections.abc import Callable

import msgspec

#: Compares a value with the golden file of a name.
Expect = Callable[[str, object], None]


def compare(file: pathlib.Path, value: object, *, update: bool) -> None:
    """Compare a value with a golden file; `update` writes the file first."""
    text = msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n"
    if update:
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(text)
    assert text.decode() == file.read_text(), f"{file.name}: --update-goldens, then see git diff"
