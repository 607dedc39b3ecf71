"""Signals that ask the program to end, as an exception that is raised until it arrives.

An exception that a signal's handler raises comes up wherever the main thread is, and may be dropped
there: by a finalizer, or by an extension that takes whatever goes wrong while it looks something up
for "not there". Then it is raised once more, a moment later.
"""

from __future__ import annotations

import contextlib
import signal
import weakref
from collections.abc import Iterator
from types import FrameType, TracebackType

from typing_extensions import Self

ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
#: Long enough to be out of what dropped the exception.
AGAIN_SECONDS = 0.05


class InterruptedRunError(BaseException):
    """A signal asked the program to end; raised in the main thread so that workers are ended on the way out."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number
        #: The command that goes on with what was measured; empty where nothing was.
        self.command = ""


@contextlib.contextmanager
def goes_on_with(command: str) -> Iterator[None]:
    """Within its block an interruption is told with the command that goes on."""
    try:
        yield
    except InterruptedRunError as interruption:
        interruption.command = command
        raise


class Interruptions:
    """Within its block the first signal that asks for an end raises `InterruptedRunError`; later and ignored ones change nothing."""

    def __init__(self) -> None:
        self._is_over = False

    def __enter__(self) -> Self:
        for number in ENDINGS:
            # Whoever started the program with a signal ignored, as `nohup` does, wants it to go on.
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._interrupt)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._is_over = True

    def _interrupt(self, number: int, _frame: FrameType | None) -> None:
        for later in ENDINGS:
            signal.signal(later, signal.SIG_IGN)
        signal.signal(signal.SIGALRM, lambda *_: self._raise(number))
        self._raise(number)

    def _raise(self, number: int) -> None:
        if not self._is_over:
            # No variable of a frame on the way may hold it: nobody else does when it has been
            # dropped.
            raise self._watched(InterruptedRunError(number))

    def _watched(self, problem: InterruptedRunError) -> InterruptedRunError:
        """Have the exception raised again if it ends before the block does."""
        weakref.finalize(problem, self._remind).atexit = False
        return problem

    def _remind(self) -> None:
        if not self._is_over:
            signal.setitimer(signal.ITIMER_REAL, AGAIN_SECONDS)
