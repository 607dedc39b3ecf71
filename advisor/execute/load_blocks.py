"""Send blocks of requests to a server, and let its worker check texts meanwhile."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Generator, Sequence

from advisor.domain.question import LoadQuestion
from advisor.domain.run_events import LoadMeasured, RunEvent
from advisor.domain.serving import ServedRequest, ServingRules, generator_processors
from advisor.execute.recorder import Recorder
from advisor.probing.load_generator import LoadGenerator
from advisor.probing.load_records import GeneratorError
from advisor.probing.load_trace import BlockLimits, PlannedBlock, plan_block
from advisor.probing.processors import divide_processors, usable_processors
from advisor.probing.run_config import RunConfig
from advisor.probing.session import Session
from probes.wire.events import Serving


@dataclasses.dataclass(frozen=True)
class LoadedRun:
    """A run whose servers are put under load."""

    session: Session
    recorder: Recorder
    load: LoadQuestion
    rules: ServingRules
    config: RunConfig


class BlockSender:
    """Sends blocks of requests with the load generator of one run."""

    def __init__(self, run: LoadedRun, generator_python: str) -> None:
        self._run = run
        load, rules, config = run.load, run.rules, run.config
        self._seed = config.question.seed
        usable = usable_processors()
        count = generator_processors(len(usable), rules.generator_share)
        servers, generator = divide_processors(usable, count)
        #: The processors that the load generator leaves to the server.
        self.server_processors: Collection[int] = servers
        self._generator = LoadGenerator(
            python=generator_python,
            watchdog=config.probes_directory / "runtime" / "watchdog_script.py",
            processors=generator,
            environment=config.environment,
            directory=config.scratch_directory / "load",
            rules=rules,
            seed=self._seed,
        )
        self._limits = BlockLimits(
            seconds=rules.seconds_of_block(config.question.budget.name, load.ttft_seconds),
            least=rules.least_requests(load.share),
            most_seconds=rules.most_block_seconds,
        )

    def measure(
        self, arm: str, rates: Sequence[tuple[int, float]], gap_seconds: float
    ) -> Generator[RunEvent, None, list[LoadMeasured]]:
        """Send one block for each number and rate; yield and return what was measured.

        The worker has ended where a text was wrong.
        """
        serving = self._run.recorder.state.processes[arm][-1].serving
        assert serving is not None  # noqa: S101 - for the type checker: it is built
        blocks = [
            plan_block(self._seed, number, rate, self._limits, self._run.load.lengths)
            for number, rate in rates
        ]
        share = self._run.rules.sampled_share
        if share > 0:
            mean_rate = sum(block.rate for block in blocks) / len(blocks)
            self._run.session.start_sampling(arm, 1 / (share * mean_rate))
        measured = self._send(arm, serving, blocks, gap_seconds)
        yield from measured
        if share > 0:
            yield from self._run.session.end_sampling(arm)
        return measured

    def _send(
        self, arm: str, serving: Serving, blocks: Sequence[PlannedBlock], gap_seconds: float
    ) -> list[LoadMeasured]:
        """Return one event for each block, or one with the problem of the load generator."""
        process = len(self._run.recorder.state.processes[arm]) - 1
        try:
            sent = self._run.session.under_load(
                arm, lambda: self._generator.send(serving, blocks, gap_seconds)
            )
        except GeneratorError as problem:
            return [
                LoadMeasured(
                    arm=arm,
                    process=process,
                    rate=blocks[0].rate,
                    seconds=blocks[0].seconds,
                    requests=(),
                    discarded=True,
                    problem=f"the load generator failed: {problem}",
                )
            ]
        lead = self._run.rules.lead_share
        return [
            LoadMeasured(
                arm=arm,
                process=process,
                rate=block.rate,
                seconds=block.seconds * (1 - lead),
                requests=counted,
                discarded=fell_behind(counted, self._run.load, self._run.rules),
            )
            for block, requests in zip(blocks, sent, strict=True)
            for counted in [without_lead(requests, block.seconds * lead)]
        ]


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
