"""Text of models, stacks and other machines where a terminal would obey it: signs that steer or hide are spelt out, as JSON spells them."""

from __future__ import annotations

import re
import unicodedata

#: Categories that move the cursor, change direction or show nothing.
HIDDEN = {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}
#: All but plain letters and signs and what lays out lines.
DOUBTFUL = re.compile(r"[^\n\t\x20-\x7e]")


def spell(sign: str) -> str:
    """Return the character, or its number where it would not be seen."""
    if unicodedata.category(sign) not in HIDDEN:
        return sign
    units = sign.encode("utf-16-be", "surrogatepass")
    return "".join(
        f"\\u{units[place]:02x}{units[place + 1]:02x}" for place in range(0, len(units), 2)
    )


def escape_control_chars(text: str) -> str:
    """Return the lines with every hidden character spelt out; JSON stays the same JSON."""
    return DOUBTFUL.sub(lambda found: spell(found.group()), text)
