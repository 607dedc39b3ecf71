"""What the command line says about the terminal program, before anything is asked."""

from __future__ import annotations

import msgspec

from advisor.question.answers import Answers


class LaunchOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How to begin, and how to look."""

    answers: Answers = Answers()
    #: A recorded run to show; empty for none.
    replay: str = ""
    speed: float = 8.0
    ascii_only: bool = False
    theme: str = ""
    no_color: bool = False
    no_mouse: bool = False
