"""Whether races on one host may run side by side: decided by a measurement, driven here by workers whose times are made."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import os
import pathlib
import random
from collections.abc import Callable, Iterator

import pytest

from advisor.context import Context
from advisor.domain.fleet import Contention
from advisor.domain.run_events import Conditions, RunEvent
from advisor.domain.worker_events import BlockTimed
from advisor.errors import NothingViableError
from advisor.fleet import contention
from advisor.fleet.contention import compare, judge
from advisor.fleet.node import Task
from advisor.question.answers import Answers
from advisor.store import Store

ARMS = ("pytorch-eager", "pytorch-eager#duplicate")
BLANK = Contention(node="n1", kind="H200", model="demo", free=False, words="")


@dataclasses.dataclass
class Scripted:
    """Workers that are slower by a share while a neighbour is busy, in calls of this noise."""

    slowdown: float = 0.0
    noise: float = 0.002
    #: By size; what only some sizes notice.
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
        self.last = BlockTimed(
            batch_size=batch_size,
            round=number,
            seconds=(seconds,) * 3,
            lead_calls=1,
            cpu_seconds=0.0,
        )
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


def verdict(workers: Scripted) -> Contention:
    return judge(
        BLANK,
        compare(workers, ARMS, (1, 8, 64), workers.busy, lambda: 1e9 if workers.is_busy else 0.0),
    )


def test_a_neighbour_that_nobody_notices_may_stay() -> None:
    found = verdict(Scripted())
    assert found.free
    assert found.change is not None
    assert abs(found.change.value) < contention.NEGLIGIBLE
    assert found.words.endswith("races may run side by side")


@pytest.mark.parametrize("slowdown", [0.03, -0.03, 0.2])
def test_a_change_beyond_the_noise_floor_makes_races_take_turns(slowdown: float) -> None:
    found = verdict(Scripted(slowdown=slowdown))
    assert not found.free
    assert found.change is not None
    assert found.change.value == pytest.approx(slowdown, abs=0.005)
    assert found.words.endswith("races take turns")


def test_one_batch_size_that_notices_the_neighbour_is_enough() -> None:
    assert not verdict(Scripted(slowdown=0.05, slow_sizes=(1,))).free


def test_a_host_too_noisy_to_tell_is_not_called_quiet() -> None:
    found = verdict(Scripted(noise=0.3))
    assert not found.free
    assert "too noisy" in found.words


def test_a_change_within_a_large_noise_floor_is_still_no_free_host() -> None:
    assert not verdict(Scripted(slowdown=0.04, noise=0.05)).free


def test_what_host_and_devices_went_through_is_recorded() -> None:
    found = verdict(Scripted())
    assert found.alone is not None
    assert found.beside is not None
    assert (found.alone.power_w, found.beside.power_w) == (400.0, 350.0)
    assert (found.alone.queued_share, found.beside.queued_share) == (0.0, 0.2)
    assert (found.alone.pcie_bytes_per_second, found.beside.pcie_bytes_per_second) == (0.0, 1e9)
    assert found.rounds == contention.ROUNDS


def test_both_conditions_come_in_every_round_and_neither_always_first() -> None:
    workers = Scripted()
    verdict(workers)
    per_condition = 2 * 2 * (1 + contention.VISITS)
    firsts = [busy for _, _, busy in workers.visits[:: 2 * per_condition]]
    assert len(workers.visits) == contention.ROUNDS * 2 * per_condition
    assert {True, False} == set(firsts)


def test_a_worker_that_ends_gives_no_verdict() -> None:
    with pytest.raises(NothingViableError):
        verdict(Scripted(dies_at=20))


def test_real_workers_are_timed_beside_others_and_leave_a_record(
    fake_probes: pathlib.Path, fake_rubric: pathlib.Path
) -> None:
    def world_at(home: pathlib.Path) -> Context:
        return Context(
            environment=dict(os.environ), store=Store(home), probes=fake_probes, rubric=fake_rubric
        )

    task = Task(number=1, kind="H200", answers=Answers(batch_sizes="2", model="demo"))
    found = contention.check(task, "n1", ("cpu", "cpu"), world_at, rounds=2)
    assert (found.rounds, found.node, found.kind) == (2, "n1", "H200")
    assert found.change is not None
    assert found.alone is not None


def test_what_cannot_be_measured_allows_nothing(fake_world: Callable[[], Context]) -> None:
    task = Task(number=1, kind="H200", answers=Answers(model="nobody/has-it", offline=True))
    found = contention.check(task, "n1", ("cpu", "cpu"), lambda _: fake_world())
    assert not found.free
    assert "was not measured" in found.words
