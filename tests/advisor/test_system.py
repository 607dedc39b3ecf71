"""Files that are written completely or not at all."""

from __future__ import annotations

import pathlib

import pytest

from advisor.system import write_atomically


def test_a_file_and_its_directory_are_made(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "folder" / "file"
    write_atomically(file, b"first")
    write_atomically(file, b"second")
    assert file.read_bytes() == b"second"
    assert list(file.parent.iterdir()) == [file]


def test_a_failed_write_keeps_the_old_content_and_leaves_no_partial_file(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "file"
    write_atomically(file, b"old")

    def fail(self: pathlib.Path, content: bytes) -> None:
        with self.open("wb") as stream:
            stream.write(content[:1])
        raise OSError

    monkeypatch.setattr(pathlib.Path, "write_bytes", fail)
    with pytest.raises(OSError):  # noqa: PT011 - a full disk, a missing right and others
        write_atomically(file, b"new")
    assert file.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [file]
