"""A worker that has built, checked and warmed up every shape, and answers commands."""

from __future__ import annotations

import dataclasses
import statistics
import time
from typing import Any

from probes import commands, device_work, events, protocol, timing
from probes.checking.program_cell import ProgramCell
from probes.host import Host
from probes.outcome import Failure
from probes.runtime import flexibility
from probes.runtime.cells import Job, nondeterministic, timer_of
from probes.runtime.failures import FailureError, attempt, exception_summary
from probes.shape import Shape

#: How many times as long a visit lasts at most where other work slows most of them. It
#: should have undisturbed calls.
MAX_VISIT_GROWTH = 4


@dataclasses.dataclass
class BuiltWorker:
    job: Job
    cells: dict[Shape, ProgramCell]
    sizes: dict[Shape, timing.VisitSize]
    host: Host | None
    #: Whether the outputs were checked after the last visit.
    is_checked: bool = False

    def answer_commands(self) -> None:
        """Answer each command until `Stop`, which follows `TryNewShapes`: it may break programs."""
        while True:
            command = self.job.channel.read_command()
            match command:
                case commands.Visit(shape, number):
                    self.time_visit(shape, number)
                case commands.Sustain(shape, seconds):
                    self.sustain(shape, seconds)
                case commands.Diagnose():
                    self.diagnose()
                case commands.RunClosedLoop(concurrency, seconds):
                    self.run_closed_loop(concurrency, seconds)
                case commands.SampleTexts(seconds):
                    self.sample_texts(seconds)
                case _:
                    self.job.channel.start_phase("done")
                    self.check_again()
                    if isinstance(command, commands.TryNewShapes):
                        self.try_new_shapes(short=command.short)
                    elif not isinstance(command, commands.Check):
                        return
            # What was timed is the answer of a visit.
            if command.answer is events.Ready:
                self.job.channel.send(events.Ready())

    def time_visit(self, shape: Shape, round_number: int) -> None:
        self.is_checked = False
        cell, sized = self.cells[shape], self.sizes[shape]
        timer, streams = timer_of(cell), self.job.request.device == "cuda"
        visited = timing.time_visit(
            timer, sized, shape=shape, round_number=round_number, streams=streams, host=self.host
        )
        # Other work may have slowed the calls of the warm-up, or of this visit.
        typical = max(min(visited.seconds), statistics.median(visited.seconds) / MAX_VISIT_GROWTH)
        resized = timing.size_visit(typical, self.job.request.visit_seconds)
        self.sizes[shape] = dataclasses.replace(resized, first_token_calls=sized.first_token_calls)
        timer = dataclasses.replace(timer, call=getattr(cell.program, "first_token", cell.program))
        first_tokens = timing.time_calls(timer, sized.first_token_calls)
        self.job.channel.send(dataclasses.replace(visited, first_token_seconds=first_tokens))

    def sustain(self, shape: Shape, seconds: float) -> None:
        self.job.channel.start_phase("sustain", shape)
        calls, taken = timing.sustain(timer_of(self.cells[shape]), seconds)
        self.job.channel.send(events.Sustained(shape, calls, taken))

    def run_closed_loop(self, concurrency: int, seconds: float) -> None:
        served: Any = self.job.workflow
        self.job.channel.start_phase("sustain")
        self.job.channel.send(served.run_closed_loop(concurrency, seconds))

    def sample_texts(self, seconds: float) -> None:
        """Check a text at this interval until the next command arrives, which is `EndSampling`.

        Raise `FailureError` for a wrong one after that command: the server has to serve the load.
        """
        cell, channel = self.cells[max(self.cells)], self.job.channel
        channel.start_phase("sustain")
        sampled, reason = cell.program.sample_texts(cell, lambda: channel.has_command(seconds))
        self.job.channel.read_command()
        self.job.channel.send(sampled)
        if reason is not None:
            reason = f"a text while other requests arrived: {reason}"
            raise FailureError(Failure("incorrect", "sustain", reason))

    def diagnose(self) -> None:
        """Profile each shape; of text only two, because reading such a profile takes seconds."""
        generates = self.job.request.task == protocol.GENERATE
        profiled = {min(self.cells), max(self.cells)} if generates else {*self.cells}
        for shape, cell in self.cells.items():
            if shape not in profiled:
                continue
            self.job.channel.start_phase("diagnose", shape)
            timer = timer_of(cell)
            if generates:
                timer = dataclasses.replace(timer, device_inputs=cell.device_inputs[:1])
            diagnosed = device_work.profile_calls(timer, shape)
            if diagnosed is not None:
                self.job.channel.send(diagnosed)

    def try_new_shapes(self, *, short: bool) -> None:
        """Raise `FailureError` if a new shape returned wrong values: nobody would notice."""
        start = time.monotonic()
        for new in flexibility.new_shapes(self.cells, self.job.request, short=short):
            self.job.channel.start_phase("new-shapes", new.shape)
            is_late = time.monotonic() - start > flexibility.MAX_SECONDS
            result = (
                events.NewShapeResult(new.shape, "skipped", reason="too little time")
                if is_late
                else self.try_new_shape(new)
            )
            self.job.channel.send(result)
            reason = result.reason or ""
            if result.handling == "wrong" and not reason.startswith(flexibility.OTHER_SHAPES):
                reason = f"it takes {result.shape.description} but was not built for it: {reason}"
                raise FailureError(Failure("incorrect", "new-shapes", reason))

    def try_new_shape(self, new: flexibility.NewShape) -> events.NewShapeResult:
        """Return a refusal for an exception, and `eager` if the compiled path was not used."""
        result = attempt(new.call, exception_summary)
        if isinstance(result, str):
            return events.NewShapeResult(new.shape, "refused", reason=result)
        if result.handling == "wrong":
            return result
        program = new.cell.program
        engagement = self.job.workflow.engagement(program, program.feed(new.inputs))
        if engagement.share < self.job.request.minimum_engaged_share:
            return dataclasses.replace(result, handling="eager", reason=engagement.proof)
        return result

    def check_again(self) -> None:
        """Raise `FailureError` if outputs have become wrong. Without calls nothing is checked."""
        if self.is_checked:
            return
        self.is_checked = True
        for shape, cell in self.cells.items():
            _, reason = cell.check(with_logprobs=False)
            if reason is None:
                continue
            _, difference = cell.check_repeats(self.job.request.accuracy["repeats"])
            if difference is not None:
                raise FailureError(nondeterministic(cell, "done", difference))
            reason = f"{shape.description}, after the measurement: {reason}"
            raise FailureError(Failure("incorrect", "done", reason))
