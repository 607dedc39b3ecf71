"""Files that are written completely or not at all, and texts that a terminal can show."""

from __future__ import annotations

import json
import pathlib

import pytest

from advisor import text_format
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


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("two\nlines\tand a tab", "two\nlines\tand a tab"),
        ("größer, 速い", "größer, 速い"),
        ("\x1b[2Jgone", "\\u001b[2Jgone"),
        ("\x9b31mred", "\\u009b31mred"),
        ("a\rb\x7f", "a\\u000db\\u007f"),
        ("\u202eright to left", "\\u202eright to left"),
        ("\U000e0041 tag", "\\udb40\\udc41 tag"),
    ],
)
def test_control_and_invisible_characters_are_escaped(text: str, escaped: str) -> None:
    assert text_format.escape_control_chars(text) == escaped


def test_json_stays_the_same_json() -> None:
    value = {"reason": "\x1b[31m \u202e \U000e0041 \u2028 ü"}
    encoded = json.dumps(value, ensure_ascii=False)
    assert text_format.escape_control_chars(encoded) != encoded
    assert json.loads(text_format.escape_control_chars(encoded)) == value
