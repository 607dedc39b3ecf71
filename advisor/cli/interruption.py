"""Turn the signals that end the program into an exception, so that workers are ended."""

from __future__ import annotations

import contextlib
import signal
import weakref
from collections.abc import Iterator
from types import FrameType

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


@contextlib.contextmanager
def interruptions() -> Iterator[None]:
    """Turn the first ending signal within the block into `InterruptedRunError`.

    Later signals, and signals that were ignored when the program started, have no effect.
    """
    is_over = False

    def interrupt(number: int, _frame: FrameType | None) -> None:
        for later in ENDING_SIGNALS:
            signal.signal(later, signal.SIG_IGN)
        signal.signal(signal.SIGALRM, lambda *_: end_block(number))
        end_block(number)

    def end_block(number: int) -> None:
        if not is_over:
            # No local variable may hold the exception: it must be collected when it is dropped.
            raise retried_when_dropped(InterruptedRunError(number))

    def retried_when_dropped(problem: InterruptedRunError) -> InterruptedRunError:
        """Raise the exception again if it is collected before the block ends."""
        weakref.finalize(problem, set_timer).atexit = False
        return problem

    def set_timer() -> None:
        if not is_over:
            signal.setitimer(signal.ITIMER_REAL, RETRY_SECONDS)

    for number in ENDING_SIGNALS:
        # A program started with a signal ignored, as `nohup` does, keeps ignoring it.
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, interrupt)
    try:
        yield
    finally:
        is_over = True
