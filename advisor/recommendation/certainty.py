"""How certain the advice is, given the uncertainty of the measured speed-ups.

All speed-ups share the baseline, so their errors are correlated. Draws from their joint
distribution are scored like the measurement itself. The draws come from a seed and from NumPy's
`RandomState`, whose streams are frozen, so the same measurements give the same result. Pure.

The module is long because every figure of the certainty comes from the same draws.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

from advisor.domain.decision import DecisionWord, ScoredArm, ScoreRegret, SpeedRegret
from advisor.domain.measurement import Interval, Measurement, Results
from advisor.domain.question import Priorities
from advisor.domain.rubric import GradeRule, Rubric
from advisor.recommendation.flips import grades_of
from advisor.statistics.intervals import HALF_INTERVAL
from advisor.statistics.replication import MIN_PROCESSES

#: An array of float64; NumPy is imported where it computes.
Draws: TypeAlias = Any

DRAW_COUNT = 4000
#: Share of the draws that makes a decision certain, and that makes a workflow a contender.
CERTAIN, CONTENDING = 0.95, 0.05
#: Standard error of a logarithm whose interval has no bound.
UNBOUNDED = math.log(2)
#: Part of the variance of a log speed-up that comes from the baseline where both are as noisy.
BASELINE_PART = 0.5
#: The fact that the draws are about.
SPEEDUP = "speedup"


@dataclasses.dataclass(frozen=True)
class Certainty:
    """What the draws say about the decision."""

    decision: DecisionWord
    #: The arm to advise: the best of its workflow.
    arm: str
    certainty: float
    contenders: tuple[str, ...]
    speed_regret: SpeedRegret
    score_regret: ScoreRegret
    needed_seconds: float | None


def assess(
    viable: Sequence[ScoredArm],
    measured: Sequence[ScoredArm],
    results: Results,
    priorities: Priorities,
    rubric: Rubric,
    *,
    seed: int,
) -> Certainty:
    """Choose among the `viable` arms, best first, and say how certain that is.

    `measured` has all scored arms, those that fail a constraint included: the fastest of them is
    named whatever the constraints are.
    """
    draws = _Draws(results, [arm.arm for arm in measured], seed)
    scores = draws.scores(viable, priorities, rubric)
    shares = _shares_within(scores, viable, rubric.indifference)
    equal = [workflow for workflow, share in shares.items() if share >= CERTAIN]
    first = _cheapest(equal, viable) if len(equal) > 1 else viable[0].workflow
    advised = _best_arm(first, viable)
    certainty = shares[first]
    decision: DecisionWord = (
        "EITHER" if len(equal) > 1 else "CLEAR" if certainty >= CERTAIN else "OPEN"
    )
    lost = scores.max(axis=1) - scores[:, [arm.arm for arm in viable].index(advised.arm)]
    contenders = equal if len(equal) > 1 else [w for w, each in shares.items() if each > CONTENDING]
    return Certainty(
        decision=decision,
        arm=advised.arm,
        certainty=round(certainty, 4),
        contenders=(first, *(workflow for workflow in contenders if workflow != first)),
        speed_regret=draws.speed_regret(advised, measured),
        score_regret=ScoreRegret(
            expected=_rounded(lost.mean()), high=_rounded(_quantile(lost, CERTAIN))
        ),
        needed_seconds=_needed_seconds(
            draws, viable, _spent_seconds(results, viable, contenders), priorities, rubric
        )
        if decision == "OPEN"
        else None,
    )


class _StandardNormals(NamedTuple):
    """Standard normal numbers: within and between processes, shared by all arms or one's own."""

    shared_within: Draws
    own_within: Draws
    shared_between: Draws
    own_between: Draws


@functools.lru_cache(maxsize=1)
def _standard_normals(seed: int, arms: int, sizes: int) -> _StandardNormals:
    """Return the numbers of a seed; kept, because each change of a weight draws the same ones."""
    import numpy as np  # noqa: PLC0415 - as above

    stream = np.random.RandomState(seed)
    return _StandardNormals(
        stream.standard_normal((DRAW_COUNT, 1, sizes)),
        stream.standard_normal((DRAW_COUNT, arms, sizes)),
        stream.standard_normal((DRAW_COUNT, 1)),
        stream.standard_normal((DRAW_COUNT, arms)),
    )


class _Draws:
    """Draws of log speed-ups over the baseline, `(draws, arms, batch sizes) float64`."""

    def __init__(self, results: Results, arms: Sequence[str], seed: int) -> None:
        import numpy as np  # noqa: PLC0415 - slow to import, and most commands decide nothing

        by_name = {entry.arm: entry for entry in results.measurements}
        self._place = {arm: place for place, arm in enumerate(arms)}
        self._seed, self._baseline = seed, results.baseline
        speedups = _speedups([by_name[arm] for arm in arms])
        self._means = np.array([[math.log(one.value) for one in each] for each in speedups])
        self._errors = np.array([[_standard_error(one) for one in each] for each in speedups])
        self._process = np.array([_process_error(by_name[arm]) for arm in arms], dtype=float)
        is_baseline = np.array([arm == results.baseline for arm in arms])
        self._errors[is_baseline], self._process[is_baseline] = 0.0, 0.0
        self.logs = self._draw(within=1.0)

    def _draw(self, *, within: float) -> Draws:
        """Return mean log speed-ups over the batch sizes, `(draws, arms) float64`.

        `within` scales the error that more rounds would reduce; the rest lies between processes.
        """
        import numpy as np  # noqa: PLC0415 - as above

        arms, sizes = self._means.shape
        normals = _standard_normals(self._seed % 2**32, arms, sizes)
        moving = self._errors[self._errors.max(axis=1) > 0]
        shared = BASELINE_PART * moving.min(axis=0) ** 2 if len(moving) else np.zeros(sizes)
        own = np.sqrt(np.maximum(self._errors**2 - shared, 0.0))
        common = normals.shared_within * np.sqrt(shared)
        common = np.where(self._errors > 0, common, 0.0)
        noise = common + normals.own_within * own
        between = normals.shared_between * self._process
        between = between + normals.own_between * self._process
        means: Draws = self._means.mean(axis=1) + within * noise.mean(axis=2) + between
        return means

    def scores(
        self,
        viable: Sequence[ScoredArm],
        priorities: Priorities,
        rubric: Rubric,
        logs: Draws | None = None,
    ) -> Draws:
        """Return the score of each viable arm in each draw, `(draws, arms) float64`."""
        import numpy as np  # noqa: PLC0415 - as above

        places = [self._place[arm.arm] for arm in viable]
        drawn = (self.logs if logs is None else logs)[:, places]
        shares = priorities.shares()
        total = np.zeros(drawn.shape)
        for criterion in rubric.criteria:
            rule = next((each for each in criterion.grades if each.fact == SPEEDUP), None)
            fixed = np.array([grades_of(arm)[criterion.id] for arm in viable])
            if rule is None:
                total += shares[criterion.id] * fixed
                continue
            limited = np.array([arm.ratings[criterion.id].fact != SPEEDUP for arm in viable])
            grades = np.minimum(_grades(rule, drawn), np.where(limited, fixed, np.inf))
            total += shares[criterion.id] * grades
        return total

    def within_rounds(self, share: float) -> Draws:
        """Return draws whose error within processes is `share` of the present one."""
        return self._draw(within=share)

    def speed_regret(self, advised: ScoredArm, measured: Sequence[ScoredArm]) -> SpeedRegret:
        """Return how much faster than the advised arm the fastest one is, and may be."""
        own = self.logs[:, [self._place[advised.arm]]]
        gains = (self.logs - own).max(axis=1)
        fastest = max(measured, key=lambda arm: (arm.speedup, -arm.rank))
        value = fastest.speedup / advised.speedup
        return SpeedRegret(
            arm=fastest.arm if fastest.arm != advised.arm else None,
            value=_rounded(value),
            high=_rounded(max(math.exp(_quantile(gains, CERTAIN)), value)),
        )


def _speedups(measurements: Sequence[Measurement]) -> list[list[Interval]]:
    """Return the speed-ups of each arm by batch size; their means where the sizes differ."""
    sizes = {tuple(cell.batch_size for cell in entry.cells) for entry in measurements}
    if len(sizes) == 1 and sizes != {()}:
        return [[cell.speedup for cell in entry.cells] for entry in measurements]
    return [[entry.speedup] for entry in measurements]


def _standard_error(speedup: Interval) -> float:
    """Return the standard error of a log speed-up within the processes, from its 95 % interval."""
    low, high = speedup.low, speedup.high
    if low is None or high is None or low <= 0:
        return UNBOUNDED
    total = math.log(high / low) / (2 * HALF_INTERVAL)
    return math.sqrt(max(total**2 - (speedup.between or 0.0) ** 2, 0.0))


def _process_error(measurement: Measurement) -> float:
    """Return the standard error of one process that a fresh one would show.

    Zero where the draws within processes include the differences between processes.
    """
    between = measurement.speedup.between
    if between is not None:
        # Two processes differ by the square root of two times what one of them does.
        return between / math.sqrt(2)
    return 0.0 if includes_processes(measurement) else UNBOUNDED


def includes_processes(measurement: Measurement) -> bool:
    """Check whether the interval of the speed-up has what differs between processes.

    It has not where neither a duplicate of the baseline nor enough repetitions were measured.
    """
    cells = measurement.cells
    is_replicated = bool(cells) and all(cell.processes >= MIN_PROCESSES for cell in cells)
    return is_replicated or measurement.speedup.between is not None


def _grades(rule: GradeRule, logs: Draws) -> Draws:
    """Return the grades of log speed-ups, like `score.grades.grade_of` for one value."""
    import numpy as np  # noqa: PLC0415 - as above

    figures = np.array([math.log(figure) for figure, _ in rule.knots])
    heights = np.array([grade for _, grade in rule.knots])
    if rule.between == "step":
        places = np.searchsorted(figures, logs, side="right") - 1
        steps: Draws = heights[np.maximum(places, 0)]
        return steps
    slopes = np.diff(heights) / np.diff(figures)
    grades: Draws = np.interp(logs, figures, heights)
    if rule.below == "extend":
        grades = grades + np.minimum(logs - figures[0], 0.0) * slopes[0]
    if rule.above == "extend":
        grades = grades + np.maximum(logs - figures[-1], 0.0) * slopes[-1]
    return grades


def _shares_within(
    scores: Draws, viable: Sequence[ScoredArm], indifference: float
) -> dict[str, float]:
    """Return, by workflow, the share of draws in which its best arm is within the indifference."""
    near = scores >= scores.max(axis=1, keepdims=True) - indifference - 1e-12
    places: dict[str, list[int]] = {}
    for place, arm in enumerate(viable):
        places.setdefault(arm.workflow, []).append(place)
    return {workflow: float(near[:, own].any(axis=1).mean()) for workflow, own in places.items()}


def _cheapest(workflows: Sequence[str], viable: Sequence[ScoredArm]) -> str:
    """Return the workflow that is the cheapest to adopt; among equals the one that scores more."""
    best = {name: _best_arm(name, viable) for name in workflows}
    return min(
        workflows,
        key=lambda name: (-best[name].ratings["productivity"].graded, best[name].rank),
    )


def _needed_seconds(
    draws: _Draws,
    viable: Sequence[ScoredArm],
    spent: float,
    priorities: Priorities,
    rubric: Rubric,
) -> float | None:
    """Return the further seconds of measuring after which the decision would be certain.

    The error within processes falls with the square root of the measuring time, of which `spent`
    seconds are spent; the error between processes does not fall. None where no amount of time in
    the same processes is enough, and for servers, whose load is not timed by calls.
    """
    if spent == 0:
        return None
    for factor in (2.0, 4.0, 8.0, 16.0, 32.0):
        logs = draws.within_rounds(1 / math.sqrt(factor))
        scores = draws.scores(viable, priorities, rubric, logs)
        shares = _shares_within(scores, viable, rubric.indifference)
        if max(shares.values()) >= CERTAIN:
            return round((factor - 1) * spent, 1)
    return None


def _spent_seconds(
    results: Results, viable: Sequence[ScoredArm], contenders: Sequence[str]
) -> float:
    """Return the seconds of timed calls of the baseline and the best arms of the contenders."""
    best = {workflow: _best_arm(workflow, viable).arm for workflow in contenders}
    compared = {results.baseline, *best.values()}
    return sum(
        cell.seconds.median * cell.seconds.samples
        for entry in results.measurements
        if entry.arm in compared
        for cell in entry.cells
    )


def _best_arm(workflow: str, viable: Sequence[ScoredArm]) -> ScoredArm:
    return next(arm for arm in viable if arm.workflow == workflow)


def _quantile(values: Draws, share: float) -> float:
    import numpy as np  # noqa: PLC0415 - as above

    return float(np.quantile(values, share))


def _rounded(value: float) -> float:
    """Return a figure of the draws without digits that mean nothing."""
    return round(float(value), 4)
