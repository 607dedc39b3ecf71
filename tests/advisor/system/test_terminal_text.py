"""Control characters are escaped."""

from __future__ import annotations

import json

import pytest

from advisor.system import terminal_text


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
    assert terminal_text.escape_control_chars(text) == escaped


def test_json_stays_the_same_json() -> None:
    value = {"reason": "\x1b[31m \u202e \U000e0041 \u2028 ü"}
    encoded = json.dumps(value, ensure_ascii=False)
    assert terminal_text.escape_control_chars(encoded) != encoded
    assert json.loads(terminal_text.escape_control_chars(encoded)) == value
