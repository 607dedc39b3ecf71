"""Put the server of one arm under load: find its goodput, or measure near a known one."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence

from advisor.decide.arm_states import next_process_number
from advisor.decide.asked_rate import servers_for
from advisor.decide.goodput import GoodputSearch
from advisor.decide.load_blocks import load_block
from advisor.decide.serving import goodput_of_arm, has_failed_process, is_saturated, may_lead
from advisor.domain.plan import Arm
from advisor.domain.question import Question
from advisor.domain.run_events import LoadMeasured, LoggedEvent, RunEvent
from advisor.domain.run_state import ProcessState
from advisor.execute.load_blocks import BlockSender, LoadedRun
from probes.wire.outcome import Failure

#: Passes over the arms, each in fresh processes.
SEARCH, REPEAT = 0, 1
#: Blocks of the repetition have other numbers, and so other traces, than those of the search.
FIRST_REPEATED = 1000


class ServerLoad:
    """The load on the servers of one run."""

    def __init__(self, run: LoadedRun, generator_python: str) -> None:
        self._run = run
        self._question: Question = run.config.question
        self._sender = BlockSender(run, generator_python)

    def goodput(self, arm: Arm) -> float | None:
        """Return the goodput that the arm's blocks show so far; None without one, or a failure."""
        if has_failed_process(self._run.recorder.state, arm.id):
            return None
        state, seed = self._run.recorder.state, self._question.seed
        found = goodput_of_arm(state, arm.id, self._run.load, seed)
        return found.value if found else None

    def may_lead(self, arm: Arm) -> bool:
        """Return whether the goodput of the arm can be the greatest one."""
        return may_lead(
            self._run.recorder.state, arm.id, self._run.load, self._run.rules, self._question.seed
        )

    def measure_arm(self, arm: Arm, repeat: int) -> Iterator[LoggedEvent]:
        """Start the arm's server, put it under load and stop it."""
        session, record_each = self._run.session, self._run.recorder.record_each
        number = next_process_number(self._run.recorder.state, arm.id)
        built = {arm.id} if number else set()
        yield from record_each(session.start([(arm, number)], repeat=repeat, built=built))
        if session.is_running(arm.id):
            session.confine(arm.id, self._sender.server_processors)
        yield from record_each(session.build(arm.id))
        if session.is_running(arm.id):
            yield from record_each(self._search(arm) if repeat == SEARCH else self._repeat(arm))
        if session.is_running(arm.id):
            yield from record_each(session.stop({arm.id}))

    def _search(self, arm: Arm) -> Iterator[RunEvent]:
        """Search the goodput, coarsely for an arm that cannot lead."""
        yield from self._probe(arm)
        if not self._run.session.is_running(arm.id):
            return
        rules = self._run.rules
        search = GoodputSearch(
            self._first_rate(arm), self._run.load.share, rules.most_blocks, rules.ladder
        )
        sent = discarded = 0
        while self._run.session.is_running(arm.id) and discarded < rules.most_blocks:
            coarse = not self.may_lead(arm)
            if search.is_finished(coarse=coarse):
                return
            rates = search.next_rates(coarse=coarse)
            measured = yield from self._measure(arm, sent, rates, rules.gap_seconds)
            problem = next((block.problem for block in measured if block.problem), None)
            if problem is not None:
                if not search.blocks:
                    failure = Failure("build-failed", "sustain", problem)
                    yield from self._run.session.drop(arm.id, failure)
                return
            sent += len(rates)
            discarded += sum(block.discarded for block in measured)
            for block in measured:
                if not block.discarded:
                    search.record(load_block(block, self._run.load))

    def _probe(self, arm: Arm) -> Iterator[RunEvent]:
        """Run closed loops with more and more requests at once, until that is no faster.

        End the worker of a server that answers no request of the load's lengths.
        """
        for concurrency in self._run.rules.probe_concurrencies:
            if not self._run.session.is_running(arm.id):
                return
            seconds = self._run.rules.probe_seconds
            yield from self._run.session.probe(arm.id, concurrency, seconds)
            loops = self._process(arm).closed_loops
            if loops and not any(loop.requests for loop in loops):
                reason = f"it answered no request of the load: {loops[0].problem}"
                failure = Failure("build-failed", "sustain", reason)
                yield from self._run.session.drop(arm.id, failure)
                return
            if is_saturated(loops, self._run.rules.probe_gain):
                return

    def _repeat(self, arm: Arm) -> Iterator[RunEvent]:
        """Measure blocks at shares of the goodput that the search found, and at the asked rate.

        The rate rises from block to block without a pause: the queue that remains stands for the
        one of a server that was under load before, and is never one of too high a rate.
        """
        goodput = self.goodput(arm)
        if goodput is None:
            return
        rates = [share * goodput for share in self._run.rules.repeat_rates]
        if self._run.load.rate is not None:
            rates.append(self._run.load.rate / servers_for(self._run.load.rate, goodput))
        yield from self._measure(arm, FIRST_REPEATED, sorted(rates), gap_seconds=0.0)

    def _measure(
        self, arm: Arm, first: int, rates: Sequence[float], gap_seconds: float
    ) -> Generator[RunEvent, None, list[LoadMeasured]]:
        numbered = list(enumerate(rates, start=first))
        return (yield from self._sender.measure(arm.id, numbered, gap_seconds))

    def _first_rate(self, arm: Arm) -> float:
        """Return the greatest rate of the closed loops.

        Without one it is the rate at which the server would be busy with one batch after the
        other, from the warm-up and the lengths of the load.
        """
        process = self._process(arm)
        rates = [loop.rate for loop in process.closed_loops]
        if any(rates):
            return max(rates)
        shape, warm = max(process.warmed_up.items())
        tokens = self._run.load.mean_output_tokens / self._question.output_tokens
        return shape.batch_size / (warm.typical_seconds * tokens)

    def _process(self, arm: Arm) -> ProcessState:
        return self._run.recorder.state.processes[arm.id][-1]
