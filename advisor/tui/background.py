"""Run work in daemon threads and deliver the results to the screens."""

from __future__ import annotations

import collections
import threading
from collections.abc import Callable
from typing import TypeVar

from advisor.errors import UserError

Value = TypeVar("Value")
#: Calls a function with its arguments in the thread of the screens; callable from any thread.
CallInApp = Callable[..., object]


class BackgroundTasks:
    """Runs tasks in threads; a task supersedes earlier tasks of the same kind."""

    def __init__(self, call_in_app: CallInApp, show_error: Callable[[UserError], None]) -> None:
        self._call_in_app = call_in_app
        self._show_error = show_error
        self._latest: collections.Counter[str] = collections.Counter()
        threading.excepthook = self._raise_in_app

    def start(
        self, kind: str, work: Callable[[], Value], on_result: Callable[[Value], object]
    ) -> None:
        """Call `work` in a thread, then `on_result` with its value in the thread of the screens.

        A value is dropped if a later task of the same kind was started. A `UserError` is shown;
        any other exception ends the program.
        """
        self._latest[kind] += 1
        number = self._latest[kind]

        def deliver(value: Value) -> None:
            if self._latest[kind] == number:
                on_result(value)

        def run() -> None:
            try:
                value = work()
            except UserError as error:
                self._call_in_app(self._show_error, error)
            else:
                self._call_in_app(deliver, value)

        threading.Thread(target=run, name=kind, daemon=True).start()

    def _raise_in_app(self, failed: threading.ExceptHookArgs) -> None:
        """Raise the exception of a thread where Textual handles it."""
        if failed.exc_value is not None:
            self._call_in_app(_raise, failed.exc_value)


def _raise(error: BaseException) -> None:
    raise error
