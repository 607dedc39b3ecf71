"""The colour themes, and the file with the name of the chosen one.

Colour never carries information alone: a glyph or a word repeats it. The colours of the
three Ps are distinguishable with every type of colour vision.
"""

from __future__ import annotations

import pathlib

from textual.theme import Theme

#: Colours of the three Ps, from the palette of Okabe and Ito.
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


def read_theme(file: pathlib.Path | None) -> str:
    """Return the name of the theme that was chosen last; an empty text where none is known."""
    try:
        return file.read_text(encoding="utf-8") if file is not None else ""
    except (OSError, UnicodeDecodeError):
        return ""
