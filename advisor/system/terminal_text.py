"""Escape control characters in text from models, stacks and other machines."""

from __future__ import annotations

import re
import unicodedata

#: Unicode categories that move the cursor, change the direction of text or are invisible.
HIDDEN_CATEGORIES = {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}
#: Everything except printable ASCII, tabs and line feeds.
SUSPICIOUS = re.compile(r"[^\n\t\x20-\x7e]")


def escape_char(char: str) -> str:
    r"""Return the character, or its JSON escape such as `\u001b` if it is a hidden one."""
    if unicodedata.category(char) not in HIDDEN_CATEGORIES:
        return char
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(
        f"\\u{units[index]:02x}{units[index + 1]:02x}" for index in range(0, len(units), 2)
    )


def escape_control_chars(text: str) -> str:
    """Return the text with every hidden character escaped; JSON text stays the same JSON."""
    return SUSPICIOUS.sub(lambda found: escape_char(found.group()), text)
