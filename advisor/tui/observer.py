"""Whether drawing disturbs the timing: eager calls are timed while the display stands still and while it is drawn."""

from __future__ import annotations

import math
import pathlib
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import msgspec

from advisor.context import Context
from advisor.doctor import Finding
from advisor.errors import NothingViableError
from advisor.pipeline.draft import DraftRun, propose
from advisor.probing.conditions import GpuWatch, Guard
from advisor.probing.run_config import RunConfig
from advisor.probing.session import Session
from advisor.probing.supervisor import Supervisor
from advisor.question.answers import Answers
from advisor.statistics.intervals import paired_interval

#: Drawings a second: none, as while timing, as while compiling; none twice, which shows what two
#: equal conditions differ by.
RATES = (0.0, 2.0, 10.0, 0.0)
ROUNDS, VISITS = 12, 2
NAME = "display"
#: The display's rhythm has to be the new one before calls are timed.
SETTLING_SECONDS = 0.1
LEVEL = 0.025


class Effect(msgspec.Struct, frozen=True, kw_only=True):
    """By how much, as a share, calls take longer while the display is drawn so often; with the ends of the 95 % interval."""

    hertz: float
    low: float
    value: float
    high: float


def observe(
    answers: Answers, world: Context, draw_at: Callable[[float], object], rounds: int = ROUNDS
) -> Finding:
    """Time eager calls at each rate of drawing, in turn, and tell what came of it; raise the `UserError` that keeps it from being timed."""
    demo = Answers(
        python=answers.python, gpu=answers.gpu, batch_sizes="1", workflows="pytorch-eager"
    )
    proposal = propose(demo, world)
    medians: dict[int, list[float]] = {place: [] for place in range(len(RATES))}
    with tempfile.TemporaryDirectory() as directory:
        for place, seconds in _time_in_turn(
            proposal, world, pathlib.Path(directory), draw_at, rounds
        ):
            medians[place].append(seconds)
    return tell(medians)


def tell(medians: Mapping[int, Sequence[float]]) -> Finding:
    """Return the finding that follows from the seconds of a call at each of `RATES`, one for each round."""
    still = medians[0]
    effects = [_effect(hertz, still, medians[place]) for place, hertz in enumerate(RATES) if place]
    floor = max(abs(effects[-1].low), abs(effects[-1].high))
    words = ", ".join(
        f"{effect.hertz:g} Hz {effect.value:+.1%} ({effect.low:+.1%} to {effect.high:+.1%})"
        for effect in effects
        if effect.hertz
    )
    disturbed = [
        effect for effect in effects if effect.hertz and effect.low > 0 and effect.value > floor
    ]
    what = f"calls beside a display drawn at {words}; noise floor {floor:.1%}"
    if disturbed:
        fix = "use p3-advisor recommend, or quit and keep the run going while it is timed"
        return Finding(
            name=NAME, status="warn", what=f"{what}: drawing disturbs the timing", fix=fix
        )
    return Finding(name=NAME, status="ok", what=f"{what}: no effect beyond it")


def _effect(hertz: float, still: Sequence[float], drawn: Sequence[float]) -> Effect:
    low, value, high = paired_interval(
        [math.log(other / one) for one, other in zip(still, drawn, strict=True)], LEVEL
    )
    return Effect(hertz=hertz, low=math.expm1(low), value=math.expm1(value), high=math.expm1(high))


def _time_in_turn(
    proposal: DraftRun,
    world: Context,
    directory: pathlib.Path,
    draw_at: Callable[[float], object],
    rounds: int,
) -> Iterator[tuple[int, float]]:
    """Yield the place of a rate and the seconds of a call at it, in an order that turns with the round."""
    asked, baseline = proposal.question, proposal.plan.baseline
    (directory / "scratch").mkdir()
    site = RunConfig(
        question=asked,
        machine=proposal.machine,
        arms=directory / "arms",
        scratch=directory / "scratch",
        probes=world.probes,
        minimum_engaged_share=proposal.catalogue.rubric.minimum_engaged_share,
        environment=world.environment,
    )
    guard = Guard(GpuWatch(asked.gpu) if asked.gpu else None)
    with (
        guard.running(),
        Supervisor(proposal.catalogue.presets.deadlines, clock=world.clock) as supervisor,
    ):
        session = Session(supervisor, site, guard)
        _drain(session.make_reference(baseline, 0))
        _drain(session.start([(baseline, 0)]))
        _drain(session.build(baseline.id))
        for number in range(rounds):
            for place in range(len(RATES)):
                turned = (place + number) % len(RATES)
                draw_at(RATES[turned])
                time.sleep(SETTLING_SECONDS)
                yield (
                    turned,
                    statistics.median(
                        _visit(session, baseline.id, asked.batch_sizes[0], number)
                        for _ in range(VISITS)
                    ),
                )
    draw_at(0.0)


def _visit(session: Session, arm: str, batch_size: int, number: int) -> float:
    if session.is_running(arm):
        _drain(session.visit(arm, batch_size, number + 1))
    visit = session.last_visit(arm)
    if visit is None:
        raise NothingViableError(
            "eager PyTorch cannot run the demonstration model here",
            "see p3-advisor recommend --workflows pytorch-eager",
        )
    return statistics.median(visit.seconds)


def _drain(run_events: Iterable[object]) -> None:
    for _ in run_events:
        pass
