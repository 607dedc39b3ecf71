"""What the events say about speed: rounds, order, and the errors and times that end a run early."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence

from advisor.decide.intervals import trimmed_mean
from advisor.domain.errors import NotWritableError, UserError, error_of
from advisor.domain.plan import REFERENCE
from advisor.domain.question import Question
from advisor.domain.results import RaceResult
from advisor.domain.run_state import RunState
from advisor.domain.text import write_duration
from probes.events import Visited
from probes.outcome import Failure
from probes.shape import Shape

#: Log speed-ups of an arm over the baseline by shape, process and round; the process of the race
#: is the first.
LogSpeedups = Mapping[Shape, Sequence[Sequence[float]]]


def log_median_seconds(visit: Visited) -> float:
    return math.log(statistics.median(visit.seconds))


def visits_by_round(
    state: RunState, shape: Shape, repeat: int = 0
) -> dict[int, dict[str, Visited]]:
    """`repeat` is 0 for the race. Of several visits of an arm in one round the last counts."""
    rounds: dict[int, dict[str, Visited]] = {}
    for arm, processes in state.processes.items():
        for process in processes:
            for visit in process.visits if process.repeat == repeat else ():
                if visit.shape == shape:
                    rounds.setdefault(visit.round, {})[arm] = visit
    return rounds


def counted_visits(state: RunState, arm: str, shape: Shape) -> list[tuple[int, Visited]]:
    """Return the arm's visits that count, each with 0 or the number of its repetition."""
    return [
        (repeat, visits[arm])
        for repeat in (0, *sorted(state.repeats))
        for _, visits in sorted(visits_by_round(state, shape, repeat).items())
        if arm in visits
    ]


def mean_log_speedups(state: RunState, shape: Shape) -> dict[str, float]:
    rounds = visits_by_round(state, shape)
    series = {
        each.id: paired_log_speedups(rounds, state.plan.baseline.id, each.id)
        for each in state.plan.distinct
    }
    return {arm: trimmed_mean(each) for arm, each in series.items() if each and state.is_valid(arm)}


def race_log_speedups(
    rounds: Mapping[int, Mapping[str, Visited]], baseline: str, arm: str, best: str
) -> tuple[float, ...]:
    """Return the paired log speed-ups of an arm in a race that `best` leads.

    An arm that left the race early is compared with the best one over the rounds that both were in:
    its speed-ups are shifted so that their mean is that of the best arm over all rounds plus the
    mean difference of the two. Otherwise a drift of the baseline could put it ahead of the arm that
    it lost to.
    """
    own = paired_log_speedups(rounds, baseline, arm)
    if best in {baseline, arm}:
        return own
    over_best = paired_log_speedups(rounds, best, arm)
    whole = paired_log_speedups(rounds, baseline, best)
    if not own or not over_best or len(over_best) >= len(whole):
        return own
    shift = trimmed_mean(whole) + trimmed_mean(over_best) - trimmed_mean(own)
    return tuple(each + shift for each in own)


def paired_log_speedups(
    rounds: Mapping[int, Mapping[str, Visited]], baseline: str, arm: str
) -> tuple[float, ...]:
    """Return the log seconds of the baseline minus those of the arm, for each round with both."""
    return tuple(
        log_median_seconds(visits[baseline]) - log_median_seconds(visits[arm])
        for _, visits in sorted(rounds.items())
        if baseline in visits and arm in visits
    )


def arms_by_speed(races: Mapping[Shape, RaceResult], state: RunState, shape: Shape) -> list[str]:
    """Return the valid arms: the best one of the race first, eliminated ones last."""
    race = races.get(shape)
    if race is None:
        return []
    speedups = mean_log_speedups(state, shape)
    others = [arm for arm in speedups if arm != race.best]
    return [race.best, *sorted(others, key=lambda arm: (arm in race.eliminated, -speedups[arm]))]


def find_failure(state: RunState) -> UserError | None:
    """Return the error of a reference or a baseline that failed before the races, if one did."""
    failure = state.last_process(REFERENCE).failure
    if not state.has_reference and failure is not None and failure.status != "skipped":
        return baseline_error(state, REFERENCE)
    baseline = state.plan.baseline.id
    return baseline_error(state, baseline) if baseline in state.failed_arms else None


def can_go_on(state: RunState) -> bool:
    """Return whether neither the reference nor the baseline of a run failed for its model.

    A run whose disk was full goes on when there is space.
    """
    failure = find_failure(state)
    return failure is None or isinstance(failure, NotWritableError)


def baseline_error(state: RunState, arm: str) -> UserError:
    name = f"the {arm}" if arm == REFERENCE else arm
    return error_of(name, state.processes[arm][-1].failure)


#: A budget that is named has at least this many times the seconds of the one that did not suffice.
LEAST_MORE = 1.5


def is_late(failure: Failure) -> bool:
    return failure.skip_cause == "out-of-time"


def more_time(state: RunState, question: Question) -> str:
    """Return the next step for arms that a run did not reach: a budget that is expected to suffice.

    It is the time of the run so far and the expected builds of these arms; one that is not known
    counts as the median of those that are. Servers take as long as those that were measured.
    """
    arms, left = state.plan.distinct, []
    for planned in arms:
        processes = state.processes.get(planned.id, ())
        failures = [each.failure for each in processes if each.failure]
        if not any(each.ready for each in processes) and all(map(is_late, failures)):
            left.append(planned.expected_build_seconds)
    expected = [each.expected_build_seconds for each in arms]
    known = [each for each in expected if each is not None] or [0.0]
    builds = sum(statistics.median(known) if each is None else each for each in left)
    seconds = (state.at + builds) / question.budget.race_share
    if question.serves:
        seconds = state.at * len(arms) / max(len(arms) - len(left), 1)
    if math.isfinite(question.seconds):
        seconds = max(seconds, LEAST_MORE * question.seconds)
    return f"allow more with --budget {write_duration(seconds)}"
