"""Requests that the worker itself sends to its server: closed loops, and texts that it checks."""

from __future__ import annotations

import concurrent.futures
import random
import time
from collections.abc import Callable
from typing import Any

from probes import protocol
from probes.checking import text_correctness
from probes.checking.dispatch import Cell
from probes.runtime.failures import exception_summary
from probes.runtime.served import REQUEST_ERRORS, ServedProgram
from probes.wire import events

#: Most vocabularies start with padding and the begin and end of a text.
FIRST_ORDINARY_TOKEN = 3


def run_closed_loop(
    program: ServedProgram,
    request: protocol.Request,
    vocabulary: int,
    concurrency: int,
    seconds: float,
) -> events.ClosedLoop:
    """Ask for texts of the load's lengths until `seconds` have passed, each loop once at least.

    A loop whose request fails ends.
    """
    start = time.monotonic()

    def ask(loop: int) -> tuple[int, str | None, float]:
        stream = random.Random(f"{request.seed}/{concurrency}/{loop}")  # noqa: S311 - no secret
        answered, end = 0, start
        while answered == 0 or time.monotonic() - start < seconds:
            input_tokens, output_tokens = stream.choice(request.load["lengths"])
            tokens = [
                stream.randrange(FIRST_ORDINARY_TOKEN, vocabulary) for _ in range(input_tokens)
            ]
            try:
                program.complete(program.prompt_of(tokens), output_tokens)
            except REQUEST_ERRORS as problem:
                return answered, exception_summary(problem), end
            answered, end = answered + 1, time.monotonic()
        return answered, None, end

    with concurrent.futures.ThreadPoolExecutor(concurrency) as pool:
        loops = list(pool.map(ask, range(concurrency)))
    last = max(end for _, _, end in loops)
    problems = [problem for _, problem, _ in loops if problem is not None]
    return events.ClosedLoop(
        concurrency,
        sum(answered for answered, _, _ in loops),
        len(problems),
        max(last - start, time.get_clock_info("monotonic").resolution),
        next(iter(problems), None),
    )


def sample_texts(cell: Cell, is_over: Callable[[], bool]) -> tuple[events.TextsSampled, str | None]:
    """Ask for the text of one checked prompt after the other until `is_over`, which waits.

    Return the counts and what is wrong with a text, after which no further one is asked for.
    Requests that fail are counted: the load generator sees how the server treats its own.
    """
    program: ServedProgram = cell.program
    prompts: list[str] = cell.device_inputs[0]
    reference: Any = cell.reference
    checked = unanswered = 0
    reason: str | None = None
    while reason is None and not is_over():
        row = (checked + unanswered) % len(prompts)
        try:
            text = program.complete(prompts[row])
        except REQUEST_ERRORS:
            unanswered += 1
            continue
        checked += 1
        (tokens,) = program.collect([text])
        reason = text_correctness.find_fault(tokens, reference, 1, cell.rules, row)
    return events.TextsSampled(checked, unanswered), reason
