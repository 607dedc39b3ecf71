"""What a worker does once everything is built: one answer for each token."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from typing import Any

from probes import protocol
from probes.adapter import Subject, UnsupportedError
from probes.checking import dispatch
from probes.measuring import flexibility, profile, timing
from probes.runtime.channel import Channel


@dataclasses.dataclass(frozen=True)
class Cell:
    """One built and correct batch size, with its inputs as the program takes them."""

    #: A `probes.adapter.Program`, or a `TextProgram`.
    program: Any
    fed: list[Any]
    reference: dispatch.AnyReference


class OutcomeError(Exception):
    """Ends the worker with this outcome."""

    def __init__(self, outcome: protocol.Failed) -> None:
        super().__init__(outcome.reason)
        self.outcome = outcome


@dataclasses.dataclass
class Service:
    """A worker that has built everything, and what it does for each token."""

    workflow: Any
    subject: Subject
    cells: dict[int, Cell]
    blocks: dict[int, timing.Block]
    request: protocol.Request
    channel: Channel
    #: Calls a function; returns its result or, when the stack raises, a line that says so.
    attempt: Callable[[Callable[[], Any]], Any]

    def answer(self) -> None:
        """Do what each token says until the word is `stop`, or until shapes were tried, after which nothing can be trusted."""
        while True:
            word, *arguments = self.channel.token()
            match word:
                case "visit":
                    self.visit(int(arguments[0]), int(arguments[1]))
                case "sustain":
                    self.sustain(int(arguments[0]), float(arguments[1]))
                case "diagnose":
                    self.diagnose()
                case "flex":
                    self.channel.enter("done")
                    self.check_again()
                    self.flex()
                    return
                case _:
                    self.channel.enter("done")
                    self.check_again()
                    return

    def visit(self, batch_size: int, number: int) -> None:
        """Time one block."""
        cell, block = self.cells[batch_size], self.blocks[batch_size]
        streams = self.request.device == "cuda"
        timed = timing.time_block(
            cell.program, cell.fed, self.workflow.synchronise, block, offset=number, streams=streams
        )
        self.channel.tell(
            protocol.Visit(
                batch_size, number, lead_calls=block.lead_calls, **dataclasses.asdict(timed)
            )
        )

    def sustain(self, batch_size: int, seconds: float) -> None:
        """Call without a pause."""
        self.channel.enter("sustain", batch_size)
        cell = self.cells[batch_size]
        calls, taken = timing.sustain(cell.program, cell.fed, self.workflow.synchronise, seconds)
        self.channel.tell(protocol.Sustained(batch_size, calls, taken))
        self.channel.tell(protocol.Ready())

    def diagnose(self) -> None:
        """Profile a few calls of each batch size; of a generation one, after its first token was timed apart.

        A generation is so many operators that reading the profile takes many seconds: of its batch
        sizes only the first and the last.
        """
        generates = self.request.task == protocol.GENERATE
        profiled = {min(self.cells), max(self.cells)} if generates else {*self.cells}
        for size, cell in self.cells.items():
            self.channel.enter("diagnose", size)
            if generates:
                self.time_first_token(size, cell)
            if size not in profiled:
                continue
            found = profile.diagnose(
                cell.program,
                cell.fed[:1] if generates else cell.fed,
                self.workflow.synchronise,
                size,
            )
            if found is not None:
                self.channel.tell(found)
        self.channel.tell(protocol.Ready())

    def time_first_token(self, batch_size: int, cell: Cell) -> None:
        """Time calls that end with the first token beside whole ones; tell nothing of a program that has no such calls."""
        try:
            first, whole = timing.time_pairs(
                cell.program.first_token, cell.program, cell.fed, self.workflow.synchronise
            )
        except UnsupportedError:
            return
        self.channel.tell(protocol.Latency(batch_size, self.request.output_tokens, first, whole))

    def flex(self) -> None:
        """Try batch sizes that were not built, with the program of the largest one."""
        largest = max(self.cells)
        cell = self.cells[largest]
        if not flexibility.is_batched(cell.reference.inputs[0], largest):
            return
        start = time.monotonic()
        for size in flexibility.new_batch_sizes(list(self.cells)):
            self.channel.enter("flex", size)
            self.channel.tell(self.try_batch_size(cell, size))
            if time.monotonic() - start > flexibility.ENOUGH_SECONDS:
                return

    def try_batch_size(self, cell: Cell, size: int) -> protocol.NewShapeResult:
        """Return what came of one new batch size; what the stack raises is its way to refuse."""
        flexed: protocol.NewShapeResult | str = self.attempt(
            lambda: flexibility.try_batch_size(
                self.workflow, cell.program, cell.reference, self.subject.dtype, size
            ),
        )
        if isinstance(flexed, str):
            return protocol.NewShapeResult(size, "refused", None, None, flexed)
        if flexed.outcome == "wrong":
            return flexed
        fed = cell.program.feed(flexibility.take_rows(cell.reference.inputs[0], size))
        engagement = self.workflow.engagement(cell.program, fed)
        if engagement.share < self.request.minimum_engaged_share:
            return dataclasses.replace(flexed, outcome="eager", reason=engagement.proof)
        return flexed

    def check_again(self) -> None:
        """Raise `OutcomeError` when an output has become wrong since the check before the timing."""
        for size, cell in self.cells.items():
            _, reason = dispatch.judge(
                self.workflow,
                cell.program,
                cell.fed,
                cell.reference,
                self.subject.dtype,
                size,
                again=True,
            )
            if reason is not None:
                raise OutcomeError(
                    protocol.Failed(
                        "incorrect", "done", f"batch size {size}, after the measurement: {reason}"
                    )
                )
