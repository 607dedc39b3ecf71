"""Measure servers under load: one after the other, then again in fresh processes, in reverse order.

The first time the goodput is searched by bisection; the second time blocks near it, and at shares
of it, are measured. Only one server runs at a time. The load generator has processors of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from advisor import measure
from advisor.domain.outcome import Completed, Unsupported
from advisor.domain.plan import BASELINE, REFERENCE, Arm, arm_directory_name
from advisor.domain.question import LoadQuestion, Question
from advisor.domain.run import Header
from advisor.domain.run_events import LoadMeasured, LoggedEvent, RepetitionStarted, RunEvent
from advisor.domain.run_state import ProcessState, RunState
from advisor.domain.serving import ServedRequest, ServingRules, generator_processors
from advisor.errors import NoRecipeError
from advisor.pipeline import building
from advisor.pipeline.arms import plan_of
from advisor.pipeline.generator_environment import find_interpreter
from advisor.pipeline.recorder import Recorder
from advisor.probing.load_generator import (
    GeneratorError,
    LoadGenerator,
    divide_processors,
    usable_processors,
)
from advisor.probing.load_trace import plan_block
from advisor.probing.run_config import RunConfig
from advisor.probing.session import SERVER_SCRIPT, Session
from advisor.recipes.server import compose_server
from advisor.statistics.goodput import GoodputSearch

#: The worker that makes weights, prompts and reference texts runs eager PyTorch.
REFERENCE_ARM = Arm(id=BASELINE, workflow=BASELINE, option="default", options={})
#: Passes over all arms, each in fresh processes.
SEARCH, REPEAT = 0, 1
#: Calls with equal prompts in one batch, timed before the load.
BATCH_VISITS = 3
#: Blocks of the repetition have other numbers, and so other traces, than those of the search.
FIRST_REPEATED = 1000


def measure_servers(
    session: Session, recorder: Recorder, header: Header, config: RunConfig
) -> Iterator[LoggedEvent]:
    """Measure every arm's server twice; raise `NothingViableError` if the reference fails."""
    question, rules = header.question, header.catalogue.serving
    if question.load is None or rules is None:
        message = "a run without a load has no servers"
        raise ValueError(message)
    if not building.has_reference(recorder.state):
        number = len(recorder.state.processes.get(REFERENCE, ()))
        yield from recorder.record_each(session.start_reference(REFERENCE_ARM, number))
        yield from recorder.record_each(session.start([]))
    if not building.has_reference(recorder.state):
        raise building.baseline_error(recorder.state, REFERENCE)
    yield from recorder.record_each(session.stop({REFERENCE}))
    python = find_interpreter(header.catalogue, header.machine)
    load = ServerLoad(session, recorder, question.load, rules, config, python)
    arms = plan_of(recorder.state).arms
    for arm in arms:
        yield from load.measure_arm(arm, SEARCH)
    found = [arm for arm in reversed(arms) if load.goodput(arm) is not None]
    if found and REPEAT not in recorder.state.repeats:
        names = tuple(arm.id for arm in found)
        yield recorder.record(RepetitionStarted(repeat=REPEAT, arms=names))
    for arm in found:
        yield from load.measure_arm(arm, REPEAT)


class ServerLoad:
    """The load on the servers of one run."""

    def __init__(
        self,
        session: Session,
        recorder: Recorder,
        load: LoadQuestion,
        rules: ServingRules,
        config: RunConfig,
        generator_python: str,
    ) -> None:
        self._session = session
        self._recorder = recorder
        self._load = load
        self._rules = rules
        self._config = config
        self._question: Question = config.question
        usable = usable_processors()
        count = generator_processors(len(usable), rules.generator_share)
        self._server_processors, generator = divide_processors(usable, count)
        self._generator = LoadGenerator(
            python=generator_python,
            watchdog=config.probes_directory / "runtime" / "watchdog_script.py",
            processors=generator,
            environment=config.environment,
            directory=config.scratch_directory / "load",
            rules=rules,
            seed=config.question.seed,
        )
        self._seconds = rules.seconds_of_block(config.question.budget.name, load.ttft_seconds)

    def goodput(self, arm: Arm) -> float | None:
        """Return the goodput that the arm's blocks show so far; None without one, or a failure."""
        if measure.has_failed(self._recorder.state, arm.id):
            return None
        found = measure.estimate(self._recorder.state, arm.id, self._load, self._question.seed)
        return found.value if found else None

    def measure_arm(self, arm: Arm, repeat: int) -> Iterator[LoggedEvent]:
        """Start the arm's server, put it under load and stop it.

        A process that has made its blocks in an earlier execution of the run is not repeated.
        """
        if is_complete(self._recorder.state, arm.id, repeat):
            return
        session, record_each = self._session, self._recorder.record_each
        number = len(self._recorder.state.processes.get(arm.id, ()))
        built = {arm.id} if number else set()
        yield from record_each(session.start([(arm, number)], repeat=repeat, built=built))
        if session.is_running(arm.id):
            session.confine(arm.id, self._server_processors)
            yield from record_each(self._compose_server(arm))
        yield from record_each(session.build(arm.id))
        if session.is_running(arm.id) and repeat == SEARCH:
            for visit in range(1, BATCH_VISITS + 1):
                size = self._question.batch_sizes[-1]
                if session.is_running(arm.id):
                    yield from record_each(session.visit(arm.id, size, visit))
        if session.is_running(arm.id):
            yield from record_each(self._search(arm) if repeat == SEARCH else self._repeat(arm))
        if session.is_running(arm.id):
            yield from record_each(session.stop({arm.id}))

    def _compose_server(self, arm: Arm) -> Iterator[RunEvent]:
        """Write the server of a workflow that has none of its own, from the lines it reported.

        End the worker where that is not possible.
        """
        facts = self._process(arm).recipe_facts
        if facts is None:
            return
        question = self._question.with_longest_requests()
        sizes, probes = self._rules.composed_batch_sizes, self._config.probes_directory
        try:
            script = compose_server(question, sizes, facts.integration, probes)
        except NoRecipeError as problem:
            outcome = Unsupported(phase="import", reason=problem.what, fix=problem.next_step)
            yield from self._session.drop(arm.id, outcome)
            return
        folder = self._config.scratch_directory / arm_directory_name(arm.id)
        (folder / SERVER_SCRIPT).write_text(script, encoding="utf-8")

    def _search(self, arm: Arm) -> Iterator[RunEvent]:
        """Bisect the goodput, one block at a time."""
        search = GoodputSearch(self._first_rate(arm), self._load.share, self._rules.most_blocks)
        discarded = 0
        while not search.finished and discarded <= self._rules.most_blocks:
            number = len(search.blocks) + discarded
            (measured,) = self._measure(arm, [(number, search.next_rate())])
            yield measured
            if measured.problem:
                return
            if measured.discarded:
                discarded += 1
            else:
                search.record(measure.load_block(measured, self._load))

    def _repeat(self, arm: Arm) -> Iterator[RunEvent]:
        """Measure blocks at shares of the goodput that the search found."""
        goodput = self.goodput(arm)
        if goodput is None:
            return
        shares = enumerate(self._rules.repeat_rates)
        yield from self._measure(
            arm, [(FIRST_REPEATED + number, share * goodput) for number, share in shares]
        )

    def _measure(self, arm: Arm, rates: Sequence[tuple[int, float]]) -> list[LoadMeasured]:
        """Return one event for each block, given as its number and its rate."""
        blocks = [
            plan_block(self._question.seed, number, rate, self._seconds, self._load.lengths)
            for number, rate in rates
        ]
        process = self._process(arm)
        assert process.serving is not None  # noqa: S101 - for the type checker: it is built
        number = len(self._recorder.state.processes[arm.id]) - 1
        try:
            sent = self._generator.send(process.serving, blocks)
        except GeneratorError as problem:
            return [
                LoadMeasured(
                    arm=arm.id,
                    process=number,
                    rate=rates[0][1],
                    seconds=self._seconds,
                    requests=(),
                    discarded=True,
                    problem=f"the load generator failed: {problem}",
                )
            ]
        return [
            LoadMeasured(
                arm=arm.id,
                process=number,
                rate=block.rate,
                seconds=block.seconds * (1 - self._rules.lead_share),
                requests=counted,
                discarded=fell_behind(counted, self._load, self._rules),
            )
            for block, requests in zip(blocks, sent, strict=True)
            for counted in [without_lead(requests, block.seconds * self._rules.lead_share)]
        ]

    def _first_rate(self, arm: Arm) -> float:
        """Return the rate at which the server would be busy with one batch after the other.

        It is estimated from the warm-up, with the lengths of the load.
        """
        warmed = self._process(arm).warmed_up
        size, warm = max(warmed.items())
        tokens = self._load.mean_output_tokens / self._question.output_tokens
        return size / (warm.typical_seconds * tokens)

    def _process(self, arm: Arm) -> ProcessState:
        return self._recorder.state.processes[arm.id][-1]


def without_lead(
    requests: Sequence[ServedRequest], lead_seconds: float
) -> tuple[ServedRequest, ...]:
    """Return the requests after the beginning of a block, or all where that leaves none."""
    kept = tuple(request for request in requests if request.at >= lead_seconds)
    return kept or tuple(requests)


def fell_behind(requests: Sequence[ServedRequest], load: LoadQuestion, rules: ServingRules) -> bool:
    """Return whether too many requests were sent too late."""
    limit = rules.late_share * load.ttft_seconds
    late = sum(request.late > limit for request in requests)
    return late > rules.most_late * len(requests)


def is_complete(state: RunState, arm: str, repeat: int) -> bool:
    """Return whether a process of this pass has ended by itself, or has failed."""
    processes = [each for each in state.processes.get(arm, ()) if each.repeat == repeat]
    if not processes or processes[-1].outcome is None:
        return False
    return not isinstance(processes[-1].outcome, Completed) or bool(processes[-1].load_blocks)
