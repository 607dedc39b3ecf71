"""The check for contention between GPUs of one host, with simulated call times."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import os
import pathlib
import random
from collections.abc import Callable, Iterator

import builders
import pytest

from advisor.context import Context
from advisor.domain.fleet import ContentionCheck
from advisor.domain.run_events import Conditions, RunEvent
from advisor.errors import NothingViableError
from advisor.fleet import contention
from advisor.fleet.contention import decide_contention, measure_contention
from advisor.fleet.node import Task
from advisor.pipeline import baseline_pair
from advisor.question.answers import Answers
from advisor.store.store import Store
from probes.wire.events import BlockTimed

ARMS = ("pytorch-eager", "pytorch-eager#duplicate")
BLANK = ContentionCheck(
    node="n1", kind="H200", model="demo", allows_parallel_runs=False, explanation=""
)


@dataclasses.dataclass
class SimulatedSession:
    """Workers whose calls take longer by `slowdown` while a neighbour is busy."""

    slowdown: float = 0.0
    noise: float = 0.002
    #: Batch sizes that the neighbour slows down.
    slow_sizes: tuple[int, ...] = (1, 64)
    dies_at: int = 1 << 30
    is_busy: bool = False
    visits: list[tuple[str, int, bool]] = dataclasses.field(default_factory=list)

    def __post_init__(self) -> None:
        self.chance = random.Random(7)

    @contextlib.contextmanager
    def busy(self) -> Iterator[None]:
        self.is_busy = True
        yield
        self.is_busy = False

    def visit(self, arm: str, batch_size: int, number: int) -> Iterator[RunEvent]:
        self.visits.append((arm, batch_size, self.is_busy))
        slower = self.slowdown if self.is_busy and batch_size in self.slow_sizes else 0.0
        seconds = 0.01 * (1 + slower) * math.exp(self.chance.gauss(0, self.noise))
        (self.last,) = builders.visits([seconds], batch_size, number)
        yield from ()

    def last_visit(self, arm: str) -> BlockTimed | None:
        del arm
        return self.last if len(self.visits) < self.dies_at else None

    def last_conditions(self, arm: str) -> Conditions:
        del arm
        power = 350.0 if self.is_busy else 400.0
        queued = 0.2 if self.is_busy else 0.0
        return Conditions(
            seconds=0.05,
            stolen_share=0.0,
            queued_share=queued,
            throttled_seconds=None,
            power_w=power,
            sm_clock_mhz=1980,
        )


def check(workers: SimulatedSession) -> ContentionCheck:
    return decide_contention(
        BLANK,
        measure_contention(
            workers, ARMS, (1, 8, 64), workers.busy, lambda: 1e9 if workers.is_busy else 0.0
        ),
    )


def test_a_neighbour_without_effect_allows_parallel_runs() -> None:
    found = check(SimulatedSession())
    assert found.allows_parallel_runs
    assert found.change is not None
    assert abs(found.change.value) < contention.NEGLIGIBLE_SHARE


@pytest.mark.parametrize("slowdown", [0.03, -0.03, 0.2])
def test_a_change_beyond_the_noise_floor_makes_races_take_turns(slowdown: float) -> None:
    found = check(SimulatedSession(slowdown=slowdown))
    assert not found.allows_parallel_runs
    assert found.change is not None
    assert found.change.value == pytest.approx(slowdown, abs=0.005)
    assert found.change.low is not None
    assert found.change.high is not None
    # The interval excludes that there is no effect.
    assert found.change.low > 0 or found.change.high < 0


def test_an_effect_at_one_batch_size_is_enough() -> None:
    assert not check(SimulatedSession(slowdown=0.05, slow_sizes=(1,))).allows_parallel_runs


def test_a_noisy_host_does_not_allow_parallel_races() -> None:
    found = check(SimulatedSession(noise=0.3))
    assert not found.allows_parallel_runs
    assert found.change is not None
    assert found.change.low is not None
    assert found.change.high is not None
    assert found.change.low < 0 < found.change.high


def test_a_change_within_a_large_noise_floor_does_not_allow_parallel_races() -> None:
    assert not check(SimulatedSession(slowdown=0.04, noise=0.05)).allows_parallel_runs


def test_the_load_of_host_and_devices_is_recorded() -> None:
    found = check(SimulatedSession())
    assert found.alone is not None
    assert found.with_neighbour is not None
    assert (found.alone.power_w, found.with_neighbour.power_w) == (400.0, 350.0)
    assert (found.alone.queued_share, found.with_neighbour.queued_share) == (0.0, 0.2)
    assert (found.alone.pcie_bytes_per_second, found.with_neighbour.pcie_bytes_per_second) == (
        0.0,
        1e9,
    )
    assert found.rounds == contention.ROUNDS


def test_every_round_has_both_conditions_in_random_order() -> None:
    workers = SimulatedSession()
    check(workers)
    per_condition = 2 * 2 * (1 + baseline_pair.VISITS)
    firsts = [busy for _, _, busy in workers.visits[:: 2 * per_condition]]
    assert len(workers.visits) == contention.ROUNDS * 2 * per_condition
    assert {True, False} == set(firsts)


def test_a_worker_that_ends_gives_no_verdict() -> None:
    with pytest.raises(NothingViableError):
        check(SimulatedSession(dies_at=20))


def test_real_workers_are_timed_with_a_busy_neighbour(
    fake_probes: pathlib.Path, fake_rubric: pathlib.Path
) -> None:
    def make_context(home: pathlib.Path) -> Context:
        return Context(
            environment=dict(os.environ), store=Store(home), probes=fake_probes, rubric=fake_rubric
        )

    task = Task(number=1, kind="H200", answers=Answers(batch_sizes="2", model="demo"))
    found = contention.check_contention(task, "n1", ("cpu", "cpu"), make_context, rounds=2)
    assert (found.rounds, found.node, found.kind) == (2, "n1", "H200")
    assert found.change is not None
    assert found.alone is not None


def test_a_check_that_fails_does_not_allow_parallel_races(
    fake_context: Callable[[], Context],
) -> None:
    task = Task(number=1, kind="H200", answers=Answers(model="nobody/has-it", offline=True))
    found = contention.check_contention(task, "n1", ("cpu", "cpu"), lambda _: fake_context())
    assert (found.allows_parallel_runs, found.change, found.alone) == (False, None, None)
