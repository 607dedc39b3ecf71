"""Options of the command line for the terminal program."""

from __future__ import annotations

import msgspec

from advisor.ask.answers import Answers


class LaunchOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The initial answers and the appearance of the terminal program."""

    answers: Answers = Answers()
    #: Directory of a recorded run to play back; empty for none.
    replay: str = ""
    #: A stored run or run document to open; empty for none.
    open: str = ""
    #: How many times as fast as recorded the run is played back.
    speed: float = 8.0
    ascii_only: bool = False
    theme: str = ""
    no_color: bool = False
    no_mouse: bool = False
