"""How certain the advice is, given the uncertainty of the measured speed-ups.

Draws of the speed-ups are scored like the measurement itself. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

from advisor.domain.priorities import Priorities
from advisor.domain.recommendation import Certainty, DecisionWord, ScoreRegret, SpeedRegret
from advisor.domain.results import Results
from advisor.domain.rubric import Rubric
from advisor.domain.scores import ScoredArm
from advisor.recommendation.best_arms import find_most_exact
from advisor.recommendation.speedup_draws import (
    Draws,
    GradeCurve,
    draw_grades,
    draw_log_speedups,
    speedup_errors,
)

#: Share of the draws that makes a decision certain, and that makes a workflow a contender.
CERTAIN, CONTENDING = 0.95, 0.05
#: Numbers of further repetitions of which the least that is enough is named.
REPETITIONS_TO_TRY = (1, 2, 4, 8, 16)
#: The fact that the draws are about.
SPEEDUP = "speedup"


def assess(
    viable: Sequence[ScoredArm],
    measured: Sequence[ScoredArm],
    results: Results,
    priorities: Priorities,
    rubric: Rubric,
    *,
    seed: int,
) -> tuple[ScoredArm, Certainty]:
    """Choose among the `viable` arms, best first, and say how certain that is.

    `measured` has all scored arms, those that fail a constraint included: the fastest of them is
    named whatever the constraints are.
    """
    draws = _ScoredDraws(results, {arm.arm for arm in measured}, seed)
    scores = draws.scores(viable, priorities, rubric)
    shares = _shares_within(scores, viable, rubric.indifference)
    equal = [workflow for workflow, share in shares.items() if share >= CERTAIN]
    first = _cheapest(equal, viable) if len(equal) > 1 else viable[0].workflow
    advised = find_most_exact(_best_arm(first, viable), viable, results, rubric.indifference)
    certainty = shares[first]
    decision_word: DecisionWord = (
        "EITHER" if len(equal) > 1 else "CLEAR" if certainty >= CERTAIN else "OPEN"
    )
    own = [arm.arm for arm in viable].index(advised.arm)
    lost = scores[:, sorted({own, *_columns_of_best(viable).values()})].max(axis=1) - scores[:, own]
    near = equal if len(equal) > 1 else [w for w, each in shares.items() if each > CONTENDING]
    contenders = (first, *(workflow for workflow in near if workflow != first))
    return advised, Certainty(
        decision_word=decision_word,
        share=round(certainty, 4),
        seed=seed,
        indifference=rubric.indifference,
        contenders={workflow: round(shares[workflow], 4) for workflow in contenders},
        speed_regret=draws.speed_regret(advised, measured),
        score_regret=ScoreRegret(
            expected=_rounded(lost.mean()), high=_rounded(_quantile(lost, CERTAIN))
        ),
        needed_repetitions=_needed_repetitions(
            draws, viable, _processes(results, viable, contenders), priorities, rubric
        )
        if decision_word == "OPEN"
        else None,
    )


class _ScoredDraws:
    """Draws of log speed-ups over the baseline, and the scores that follow from them."""

    def __init__(self, results: Results, arms: Collection[str], seed: int) -> None:
        # Ranks depend on the weights, and the draws must not.
        names = sorted(arms)
        self._column = {arm: column for column, arm in enumerate(names)}
        self._errors, self._seed = speedup_errors(results, names), seed
        self.logs = draw_log_speedups(self._errors, seed)

    def scores(
        self,
        viable: Sequence[ScoredArm],
        priorities: Priorities,
        rubric: Rubric,
        *,
        scale: float = 1.0,
    ) -> Draws:
        """Return the score of each viable arm in each draw, `(draws, arms) float64`.

        `scale` scales the errors of the speed-ups.
        """
        import numpy as np  # noqa: PLC0415 - slow to import, and most commands decide nothing

        columns = [self._column[arm.arm] for arm in viable]
        shares = priorities.shares()
        fixed_part, moving_part = np.zeros(len(viable)), 0.0
        for criterion in rubric.criteria:
            rule = next((each for each in criterion.grades if each.fact == SPEEDUP), None)
            fixed = np.array([arm.ratings[criterion.id].grade for arm in viable])
            if rule is None:
                fixed_part += shares[criterion.id] * fixed
                continue
            limited = np.array([arm.ratings[criterion.id].fact != SPEEDUP for arm in viable])
            limits = np.where(limited, fixed, np.inf)
            curve = GradeCurve(rule.knots, rule.between, rule.below, rule.above)
            grades = draw_grades(self._errors, self._seed, scale, curve)[:, columns]
            moving_part += shares[criterion.id] * np.minimum(grades, limits)
        return np.broadcast_to(fixed_part + moving_part, (len(self.logs), len(viable)))

    def speed_regret(self, advised: ScoredArm, measured: Sequence[ScoredArm]) -> SpeedRegret:
        """Return how much faster than the advised arm the fastest one is, and may be."""
        own = self.logs[:, [self._column[advised.arm]]]
        gains = (self.logs - own).max(axis=1)
        fastest = max(measured, key=lambda arm: (arm.speedup, -arm.rank))
        value = fastest.speedup / advised.speedup
        return SpeedRegret(
            arm=fastest.arm if fastest.arm != advised.arm else None,
            value=_rounded(value),
            high=_rounded(max(math.exp(_quantile(gains, CERTAIN)), value)),
        )


def _shares_within(
    scores: Draws, viable: Sequence[ScoredArm], indifference: float
) -> dict[str, float]:
    """Return, by workflow, the share of draws in which its best arm is within the indifference."""
    best = _columns_of_best(viable)
    of_best = scores[:, list(best.values())]
    near = of_best >= of_best.max(axis=1, keepdims=True) - indifference - 1e-12
    return dict(zip(best, map(float, near.mean(axis=0)), strict=True))


def _columns_of_best(viable: Sequence[ScoredArm]) -> dict[str, int]:
    """Return, by workflow, the column of its best arm in the scores of `viable`.

    The other arms do not count: the best draw of several arms that differ by chance is better than
    any of them.
    """
    columns: dict[str, int] = {}
    for column, arm in enumerate(viable):
        columns.setdefault(arm.workflow, column)
    return columns


def _cheapest(workflows: Sequence[str], viable: Sequence[ScoredArm]) -> str:
    """Return the workflow that is the cheapest to adopt; among equals the one that scores more."""
    best = {name: _best_arm(name, viable) for name in workflows}
    return min(
        workflows,
        key=lambda name: (-best[name].ratings["productivity"].grade, best[name].rank),
    )


def _needed_repetitions(
    draws: _ScoredDraws,
    viable: Sequence[ScoredArm],
    processes: int,
    priorities: Priorities,
    rubric: Rubric,
) -> int | None:
    """Return the further repetitions in fresh processes after which the decision would be certain.

    The errors fall with the square root of the number of processes. None where the
    largest of `REPETITIONS_TO_TRY` is not enough, and for servers, which have no cells.
    """
    if processes == 0:
        return None
    for repetitions in REPETITIONS_TO_TRY:
        scale = math.sqrt(processes / (processes + repetitions))
        scores = draws.scores(viable, priorities, rubric, scale=scale)
        if max(_shares_within(scores, viable, rubric.indifference).values()) >= CERTAIN:
            return repetitions
    return None


def _processes(results: Results, viable: Sequence[ScoredArm], contenders: Sequence[str]) -> int:
    """Return the fewest processes in which an arm that may lead was timed; 0 if none was."""
    leading = {_best_arm(workflow, viable).arm for workflow in contenders} - {results.baseline}
    compared = leading or {arm.arm for arm in viable} - {results.baseline}
    return min(
        (
            cell.processes
            for entry in results.measurements
            if entry.arm in compared
            for cell in entry.cells
        ),
        default=0,
    )


def _best_arm(workflow: str, viable: Sequence[ScoredArm]) -> ScoredArm:
    return next(arm for arm in viable if arm.workflow == workflow)


def _quantile(values: Draws, share: float) -> float:
    import numpy as np  # noqa: PLC0415 - as above

    return float(np.quantile(values, share))


def _rounded(value: float) -> float:
    """Return a figure of the draws without digits that mean nothing."""
    return round(float(value), 4)
