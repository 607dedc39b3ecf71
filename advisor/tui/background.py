"""Work in threads, its results handed back to the screens.

Nobody waits for a thread when the program ends.
"""

from __future__ import annotations

import collections
import threading
from collections.abc import Callable
from typing import TypeVar

from advisor.errors import UserError

Value = TypeVar("Value")
#: Has a function called with its arguments where screens may be touched; callable from any thread.
Hand = Callable[..., object]


class Background:
    """Starts the work; of one kind only what was asked for last counts."""

    def __init__(self, hand: Hand, tell_problem: Callable[[UserError], None]) -> None:
        self._hand = hand
        self._tell_problem = tell_problem
        self._asked: collections.Counter[str] = collections.Counter()
        threading.excepthook = self._take_defect

    def do(self, kind: str, work: Callable[[], Value], then: Callable[[Value], object]) -> None:
        """Call `then` with what `work` returns; a `UserError` is told to the user, anything else ends the program."""
        self._asked[kind] += 1
        number = self._asked[kind]

        def deliver(value: Value) -> None:
            if self._asked[kind] == number:
                then(value)

        def run() -> None:
            try:
                value = work()
            except UserError as problem:
                self._hand(self._tell_problem, problem)
            else:
                self._hand(deliver, value)

        threading.Thread(target=run, name=kind, daemon=True).start()

    def _take_defect(self, ended: threading.ExceptHookArgs) -> None:
        """Raise where it is seen what has ended a thread."""
        if ended.exc_value is not None:
            self._hand(_raise, ended.exc_value)


def _raise(defect: BaseException) -> None:
    raise defect
