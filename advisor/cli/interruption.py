"""Turn the signals that end the program into an exception, so that workers are ended."""

from __future__ import annotations

import contextlib
import signal
import weakref
from collections.abc import Iterator
from types import FrameType, TracebackType

from typing_extensions import Self

ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
#: Long enough to leave the code that dropped the exception.
RETRY_SECONDS = 0.05


class InterruptedRunError(BaseException):
    """A signal asked the program to end; raised in the main thread so that workers are ended."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number
        #: The command that resumes the work; empty when there is nothing to resume.
        self.resume_command = ""


@contextlib.contextmanager
def resumable_with(command: str) -> Iterator[None]:
    """Add the command that resumes the work to an interruption of the block."""
    try:
        yield
    except InterruptedRunError as interruption:
        interruption.resume_command = command
        raise


class Interruptions:
    """Turns the first ending signal within a block into `InterruptedRunError`.

    Later signals, and signals that were ignored when the program started, have no effect.
    """

    def __init__(self) -> None:
        self._is_over = False

    def __enter__(self) -> Self:
        for number in ENDING_SIGNALS:
            # A program started with a signal ignored, as `nohup` does, keeps ignoring it.
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
        for later in ENDING_SIGNALS:
            signal.signal(later, signal.SIG_IGN)
        signal.signal(signal.SIGALRM, lambda *_: self._raise(number))
        self._raise(number)

    def _raise(self, number: int) -> None:
        if not self._is_over:
            # No local variable may hold the exception: it must be collected when it is dropped.
            raise self._retried_when_dropped(InterruptedRunError(number))

    def _retried_when_dropped(self, problem: InterruptedRunError) -> InterruptedRunError:
        """Raise the exception again if it is collected before the block ends."""
        weakref.finalize(problem, self._set_timer).atexit = False
        return problem

    def _set_timer(self) -> None:
        if not self._is_over:
            signal.setitimer(signal.ITIMER_REAL, RETRY_SECONDS)
