"""The colour themes, and a filter for terminals and fonts without Unicode.

Colour never carries information alone: a glyph or a word repeats it. The colours of the
three Ps are distinguishable with every type of colour vision.
"""

from __future__ import annotations

from rich.cells import cell_len
from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter
from textual.theme import Theme

#: From the palette of Okabe and Ito.
PILLAR_COLOURS = {"performance": "#e69f00", "productivity": "#56b4e9", "portability": "#009e73"}

DARK = Theme(
    name="p3-dark",
    primary="#56b4e9",
    secondary="#8fa3b8",
    accent="#e69f00",
    success="#2bb58a",
    warning="#f0c244",
    error="#ef6f53",
    foreground="#d9e0e8",
    background="#10151b",
    surface="#151c24",
    panel="#1d2732",
    dark=True,
    variables={
        "footer-key-foreground": "#e69f00",
        "block-cursor-background": "#2d5a7b",
        "block-cursor-foreground": "#ffffff",
    },
)
HIGH_CONTRAST = Theme(
    name="p3-high-contrast",
    primary="#ffffff",
    secondary="#ffffff",
    accent="#ffff00",
    success="#00ff80",
    warning="#ffff00",
    error="#ff8080",
    foreground="#ffffff",
    background="#000000",
    surface="#000000",
    panel="#202020",
    dark=True,
    variables={
        "footer-key-foreground": "#ffff00",
        "block-cursor-background": "#ffff00",
        "block-cursor-foreground": "#000000",
    },
)
THEMES = (DARK, HIGH_CONTRAST)

#: Characters that this program and Textual draw, by their ASCII replacement.
REPLACEMENTS = {
    "+": "\u2713\u250c\u2510\u2514\u2518\u251c\u2524\u252c\u2534\u253c\u256d\u256e\u256f\u2570",
    ">": "\u25b6\u203a\u2192\u276f\u25b8",
    "<": "\u25c0\u2039\u2190",
    "x": "\u2717\u2716\u00d7",
    ".": "\u00b7\u2022\u2026\u28ff",
    "=": "\u2016\u2550\u2594",
    "#": "\u2588\u2593\u2589\u258a\u258b\u25a0\u25cf\u2587\u2586",
    "|": "\u2502\u2503\u258c\u2590\u258d\u258e\u258f\u2551\u2595\u254f",
    "-": "\u2500\u2501\u2013\u2014\u2591\u254c\u2578\u257a\u25a1\u25cb\u2581\u2582",
    "^": "\u25b2\u2191",
    "v": "\u25bc\u2193",
    "~": "\u2248\u2194",
    "*": "\u25c6\u2605",
}
TABLE = {
    ord(character): replacement
    for replacement, characters in REPLACEMENTS.items()
    for character in characters
}


def to_ascii(text: str) -> str:
    """Return the text in ASCII, with the same width in terminal cells."""
    return "".join(
        character if character.isascii() else "?" * cell_len(character)
        for character in text.translate(TABLE)
    )


class AsciiFilter(LineFilter):
    """Converts each line to ASCII; must be the last filter of the app."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:  # noqa: ARG002 - Textual's interface
        return [
            Segment(text if text.isascii() else to_ascii(text), style, control)
            for text, style, control in segments
        ]
