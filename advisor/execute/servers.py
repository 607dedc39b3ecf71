"""Measure servers under load: first all, then those that may lead again in new processes.

The first time the goodput is searched; the second time, in reverse order, blocks near it and at
shares of it are measured. An arm that cannot lead is searched coarsely and not measured again. Only
one server runs at a time. The load generator has processors of its own.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator, Sequence

import msgspec

from advisor.decide import serving
from advisor.decide.goodput import GoodputSearch
from advisor.decide.load_blocks import count_block
from advisor.decide.unmeasured import more_time
from advisor.domain.catalogue import Catalogue
from advisor.domain.errors import EnvironmentNotUsableError, NoStackError
from advisor.domain.machine import Machine
from advisor.domain.plan import EAGER, REFERENCE, SERVING_BASELINE, Arm
from advisor.domain.question import LoadQuestion
from advisor.domain.run_events import LoadMeasured, RepetitionStarted, RunEvent
from advisor.domain.run_state import ProcessState, RunState
from advisor.domain.serving import ServedRequest, ServingRules, divide_processors
from advisor.execute.active_run import Recorder, TimeSpan
from advisor.probing.load_generator import LoadGenerator
from advisor.probing.request_blocks import BlockLimits, GeneratorError, PlannedBlock, plan_block
from advisor.probing.session import WorkerSession
from advisor.probing.side_by_side import confine
from probes.commands import EndSampling, RunClosedLoop, SampleTexts
from probes.events import Serving
from probes.outcome import Failure
from probes.shape import Shape

#: The worker that makes weights, prompts and reference texts runs eager PyTorch.
REFERENCE_ARM = Arm(id=EAGER, workflow=EAGER, option="default", options={}, eager_fallback=False)


def measure_servers(
    session: WorkerSession, recorder: Recorder, load_question: LoadQuestion, time: TimeSpan
) -> Iterator[RunEvent]:
    """Measure every arm's server; raise `NothingViableError` if the reference fails.

    What an earlier execution of the run has measured is not repeated. After the seconds of the
    budget the baseline alone is searched, if a server has a result, and none is repeated.
    """
    header = session.config.header
    yield from _make_reference(session, recorder)
    python = find_interpreter(header.catalogue, header.machine)
    generator = ServerLoad(session, recorder, load_question, python)
    # The usual baseline is the slowest one as a rule. Once a faster one is known, it needs few
    # blocks.
    arms = sorted(recorder.state.plan.arms, key=lambda each: each.workflow == SERVING_BASELINE)
    for planned in arms:
        if is_complete(recorder.state, planned.id, SEARCH):
            continue
        is_late = time.is_over() and planned.workflow != SERVING_BASELINE
        if is_late and any(generator.goodput(each) is not None for each in arms):
            number = recorder.state.next_process_number(planned.id)
            reason = f"not started: the {time.seconds:g} s of the run were over"
            fix = more_time(recorder.state, header.question)
            late = Failure("skipped", "build", reason, fix, skip_cause="out-of-time")
            yield from session.pool.drop(planned.id, late, number)
            continue
        yield from generator.measure_arm(planned, SEARCH)
    found = [each for each in arms if generator.goodput(each) is not None]
    leading = [each for each in reversed(found) if generator.may_lead(each)]
    if time.is_over():
        return
    if leading and REPEAT not in recorder.state.repeats:
        yield RepetitionStarted(repeat=REPEAT, arms=tuple(each.id for each in leading))
    for planned in leading:
        if not is_complete(recorder.state, planned.id, REPEAT):
            yield from generator.measure_arm(planned, REPEAT)


def _make_reference(session: WorkerSession, recorder: Recorder) -> Iterator[RunEvent]:
    """Let the reference worker make checkpoint, prompts and texts, unless it has."""
    if not recorder.state.has_reference:
        number = recorder.state.next_process_number(REFERENCE)
        yield from session.start_reference(REFERENCE_ARM, number)
        yield from session.start([])
        yield from session.finish_reference()
    session.stop_compiling()
    if not recorder.state.has_reference:
        raise recorder.state.worker_error(REFERENCE)


def is_complete(state: RunState, arm: str, repeat: int) -> bool:
    """Return whether a process of this pass has ended by itself, or has failed."""
    last = state.last_process(arm, repeat)
    return last.failure is not None or (last.completed and bool(last.load_blocks))


def find_interpreter(catalogue: Catalogue, machine: Machine) -> str:
    """Return the load generator's interpreter; raise `EnvironmentNotUsableError` without one."""
    names = [each.load_generator.name for each in catalogue.workflows if each.load_generator]
    if not names:
        raise NoStackError(
            "the catalogue has no workflow with a load generator", "restore rubric/workflows.toml"
        )
    created = machine.environments.get(names[0])
    if created is None or created.fault:
        problem = created.fault if created else "it has not been created"
        raise EnvironmentNotUsableError(
            f"the environment {names[0]}, which sends the requests, cannot be used: {problem}",
            f"p3-advisor env create {names[0]}",
        )
    return created.python


def without_warmup(
    requests: Sequence[ServedRequest], warmup_seconds: float
) -> tuple[ServedRequest, ...]:
    """Return the requests after the warm-up of a block, or all where that leaves none."""
    kept = tuple(request for request in requests if request.at >= warmup_seconds)
    return kept or tuple(requests)


def fell_behind(requests: Sequence[ServedRequest], load: LoadQuestion, rules: ServingRules) -> bool:
    limit = rules.late_ttft_share * load.ttft_seconds
    late = sum(request.late > limit for request in requests)
    return late > rules.most_late_share * len(requests)


#: Passes over the arms, each in fresh processes.
SEARCH, REPEAT = 0, 1
#: Blocks of the repetition have other numbers, and so other traces, than those of the search.
FIRST_REPEATED = 1000


class ServerLoad:
    """Puts the servers of one run under load, with the load generator."""

    def __init__(
        self, session: WorkerSession, recorder: Recorder, load: LoadQuestion, generator_python: str
    ) -> None:
        config = session.config
        rules = config.catalogue.serving
        self._session, self._recorder = session, recorder
        self._load, self._rules, self._question = load, rules, config.question
        self._server_processors, generator = divide_processors(
            os.sched_getaffinity(0), rules.generator_share
        )
        self._generator = LoadGenerator(config, generator_python, generator)
        self._limits = BlockLimits(
            seconds=rules.seconds_of_block(config.question.budget.name, load.ttft_seconds),
            least=rules.least_requests(load.share),
            most_seconds=rules.most_block_seconds,
        )

    def goodput(self, planned: Arm) -> float | None:
        """Return the goodput that the arm's blocks show so far; None without one, or a failure."""
        state = self._recorder.state
        if serving.has_failed_process(state, planned.id):
            return None
        found = serving.goodput_of_arm(state, planned.id, self._load, self._question.seed)
        return found.value if found else None

    def may_lead(self, planned: Arm) -> bool:
        state, seed = self._recorder.state, self._question.seed
        return serving.may_lead(state, planned.id, self._load, self._rules, seed)

    def measure_arm(self, planned: Arm, repeat: int) -> Iterator[RunEvent]:
        session = self._session
        number = self._recorder.state.next_process_number(planned.id)
        built = {planned.id} if number else set()
        yield from session.start([(planned, number)], repeat=repeat, built=built)
        if session.pool.is_running(planned.id):
            confine(session.pool.workers[planned.id].directory, self._server_processors)
        yield from session.build(planned.id)
        if session.pool.is_running(planned.id):
            yield from self._search(planned) if repeat == SEARCH else self._repeat(planned)
        if session.pool.is_running(planned.id):
            yield from session.stop({planned.id})

    def _search(self, planned: Arm) -> Iterator[RunEvent]:
        yield from self._run_closed_loops(planned)
        if not self._session.pool.is_running(planned.id):
            return
        rules = self._rules
        search = GoodputSearch(
            self._first_rate(planned), self._load.share, rules.most_blocks, rules.ladder
        )
        sent = discarded = 0
        while self._session.pool.is_running(planned.id) and discarded < rules.most_blocks:
            coarse = not self.may_lead(planned)
            if search.is_finished(coarse=coarse):
                return
            rates = search.next_rates(coarse=coarse)
            measured = yield from self._measure(planned.id, sent, rates, rules.gap_seconds)
            problem = next((block.problem for block in measured if block.problem), None)
            if problem is not None:
                if not search.blocks:
                    failure = Failure("build-failed", "sustain", problem)
                    yield from self._session.pool.drop(planned.id, failure)
                return
            sent += len(rates)
            discarded += sum(block.discarded for block in measured)
            for block in measured:
                if not block.discarded:
                    search.blocks.append(count_block(block, self._load))

    def _run_closed_loops(self, planned: Arm) -> Iterator[RunEvent]:
        """Run closed loops with more and more requests at once, until that is no faster.

        End the worker of a server that answers no request of the load's lengths.
        """
        for concurrency in self._rules.closed_loop_concurrencies:
            if not self._session.pool.is_running(planned.id):
                return
            command = RunClosedLoop(concurrency, self._rules.closed_loop_seconds)
            yield from self._session.measure_energy(planned.id, Shape(concurrency), command)
            loops = self._process(planned.id).closed_loops
            if loops and not any(loop.requests for loop in loops):
                reason = f"it answered no request of the load: {loops[0].problem}"
                failure = Failure("build-failed", "sustain", reason)
                yield from self._session.pool.drop(planned.id, failure)
                return
            if serving.is_saturated(loops, self._rules.closed_loop_gain):
                return

    def _repeat(self, planned: Arm) -> Iterator[RunEvent]:
        """Measure blocks at shares of the goodput that the search found, and at the asked rate.

        The rate rises from block to block without a pause: the queue that remains stands for the
        one of a server that was under load before, and is never one of too high a rate.
        """
        goodput = self.goodput(planned)
        if goodput is None:
            return
        rates = [share * goodput for share in self._rules.repeat_rates]
        if self._load.rate is not None:
            rates.append(self._load.rate / serving.servers_for(self._load.rate, goodput))
        yield from self._measure(planned.id, FIRST_REPEATED, sorted(rates), gap_seconds=0.0)

    def _measure(
        self, arm: str, first: int, rates: Sequence[float], gap_seconds: float
    ) -> Generator[RunEvent, None, list[LoadMeasured]]:
        """Send one block for each rate, numbered from `first`; yield and return what was measured.

        The worker has ended where a text was wrong.
        """
        served = self._process(arm).serving
        assert served is not None  # noqa: S101 - for the type checker: it is built
        blocks = [
            plan_block(self._question.seed, number, rate, self._limits, self._load.lengths)
            for number, rate in enumerate(rates, start=first)
        ]
        share = self._rules.sampled_share
        if share > 0:
            mean_rate = sum(block.rate for block in blocks) / len(blocks)
            self._session.pool.send(arm, SampleTexts(1 / (share * mean_rate)))
        measured = self._send(arm, served, blocks, gap_seconds)
        yield from measured
        if share > 0:
            yield from self._session.pool.send_and_wait([arm], EndSampling())
        return measured

    def _send(
        self, arm: str, served: Serving, blocks: Sequence[PlannedBlock], gap_seconds: float
    ) -> list[LoadMeasured]:
        """Return one event for each block, or one with the problem of the load generator."""
        process, warmup = self._session.pool.workers[arm].process, self._rules.warmup_share
        empty = LoadMeasured(
            arm=arm,
            process=process,
            rate=blocks[0].rate,
            seconds=blocks[0].seconds,
            requests=(),
            discarded=True,
        )
        try:
            self._session.pool.workers[arm].resume_busy()
            sent = self._generator.send(served, blocks, gap_seconds)
        except GeneratorError as problem:
            reason = f"the load generator failed: {problem}"
            return [msgspec.structs.replace(empty, problem=reason)]
        return [
            msgspec.structs.replace(
                empty,
                rate=block.rate,
                seconds=block.seconds * (1 - warmup),
                requests=counted,
                discarded=fell_behind(counted, self._load, self._rules),
            )
            for block, requests in zip(blocks, sent, strict=True)
            for counted in [without_warmup(requests, block.seconds * warmup)]
        ]

    def _first_rate(self, planned: Arm) -> float:
        """Return the greatest rate of the closed loops.

        Without one it is the rate at which the server would be busy with one batch after the
        other, from the warm-up and the lengths of the load.
        """
        process = self._process(planned.id)
        rates = [loop.rate for loop in process.closed_loops]
        if any(rates):
            return max(rates)
        shape, warm = max(process.warmed_up.items())
        tokens = self._load.mean_output_tokens / self._question.output_tokens
        return shape.batch_size / (warm.typical_seconds * tokens)

    def _process(self, arm: str) -> ProcessState:
        return self._recorder.state.processes[arm][-1]
