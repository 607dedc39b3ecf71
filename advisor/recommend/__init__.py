"""Stage: scores -> `Recommendation`. Pure: the same scores and results give the same words."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence

from advisor.domain.decision import (
    ConstraintEffect,
    Flip,
    HorizonBest,
    MemoryFit,
    Recommendation,
    ScoredArm,
    Side,
    Trust,
)
from advisor.domain.measurement import Measurement, Results, VerdictKind
from advisor.domain.plan import Excluded
from advisor.domain.published import DecisionTree, Guideline
from advisor.domain.question import PILLARS, Constraint, Priorities, Question
from advisor.domain.workflow import Workflow
from advisor.errors import NothingViableError
from advisor.recommend import costs, sensitivity
from advisor.recommend import guidelines as guidance
from advisor.recommend.trust import grade
from advisor.statistics.intervals import geometric_mean_interval

#: Scores closer than this differ by rounding alone.
SAME_SCORE = 1e-9
#: Where a weight ends that becomes less or more.
ENDS: Mapping[Side, float] = {"less": 0.0, "more": 100.0}
#: Margin of indifference: speeds closer than this are the same for the user.
EPSILON = 0.02
#: Verdicts from the strongest to the weakest; the weakest of the batch sizes counts.
STRENGTH: tuple[VerdictKind, ...] = ("PROVEN", "TIE", "SAFE", "INCONCLUSIVE")


def recommend(
    results: Results,
    scored: Sequence[ScoredArm],
    question: Question,
    excluded: Sequence[Excluded],
    guidelines: Sequence[Guideline] = (),
    *,
    tree: DecisionTree | None = None,
    workflows: Sequence[Workflow] = (),
    device_bytes: int | None = None,
) -> Recommendation:
    """Return the advice; raise `NothingViableError` when nothing was measured or everything fails a constraint.

    `device_bytes` is the memory of the GPU, None where the processor's is used.
    """
    viable = [arm for arm in scored if not arm.fails]
    if not viable:
        raise _nothing_viable(scored, question.constraints)
    winner, *others = viable
    runner_up = next(
        (arm for arm in others if arm.workflow != winner.workflow), others[0] if others else None
    )
    missing = find_missing(results, question)
    verdict = (
        "INCONCLUSIVE"
        if missing
        else max((race.verdict for race in results.races), key=STRENGTH.index)
    )
    trust, trust_reasons = grade(results, verdict, missing)
    ties = tuple(arm.arm for arm in others if is_tie(winner, arm, results))
    measurements = {entry.arm: entry for entry in results.measurements}
    measurement, baseline = measurements[winner.arm], measurements.get(results.baseline)
    paid_after = (
        costs.find_break_even(measurement, baseline)
        if baseline and baseline is not measurement
        else ()
    )
    simplex = sensitivity.share_simplex(viable, question.priorities)
    candidates = [measurements[arm.arm] for arm in viable]
    horizons = costs.find_horizons(candidates, question.requests)
    effects = sensitivity.weigh_constraints(scored, question.constraints, winner.arm)
    guideline = guidance.choose_guideline(guidelines, question)
    memory = costs.fit_memory(candidates, device_bytes)
    keep = next((workflow.deployment_steps for workflow in workflows if workflow.id == winner.workflow), ())
    return Recommendation(
        arm=winner.arm,
        workflow=winner.workflow,
        verdict=verdict,
        trust=trust,
        trust_reasons=trust_reasons,
        runner_up=runner_up.arm if runner_up else None,
        margin=winner.score - runner_up.score if runner_up else None,
        ties=ties,
        flips=find_flips(viable, question.priorities),
        reasons=(
            *give_reasons(winner, measurement, results, ties, missing),
            *_tell_undecided(winner, results, trust),
            *_tell_horizon(horizons, question.requests),
            *_tell_effects(effects),
            *_tell_memory(memory, winner.arm),
        ),
        next_steps=(*give_deployment_steps(measurement, keep), *give_next_steps(trust, excluded)),
        simplex_share=simplex[winner.arm],
        simplex=simplex,
        pareto=sensitivity.find_pareto(viable, measurements),
        break_even_requests=costs.worst_break_even(paid_after),
        break_even=paid_after,
        horizons=horizons,
        costs=costs.price(candidates, question.price_per_hour),
        constraints=effects,
        guideline=guidance.compare_with_guideline(guideline, winner, scored, excluded)
        if guideline
        else None,
        memory=memory,
        energy=costs.weigh_energy(results.sustained),
        tree=guidance.follow_tree(tree, question) if tree else (),
    )


def find_missing(results: Results, question: Question) -> tuple[int, ...]:
    """Return the batch sizes that were asked for and have no race that says anything."""
    raced = {race.batch_size for race in results.races}
    return tuple(size for size in question.batch_sizes if size not in raced)


def _tell_undecided(winner: ScoredArm, results: Results, trust: Trust) -> list[str]:
    """Say, where nothing can be trusted, which arms may be as fast or faster: an answer is not forced."""
    open_arms = sorted(
        {arm for race in results.races for arm in (race.best, *race.tied, *race.unresolved)}
        - {winner.arm}
    )
    if trust != "D" or not open_arms:
        return []
    return [
        f"the speeds are not decided: {', '.join(open_arms)} may be as fast or faster, so this is one of several candidates"
    ]


def _tell_horizon(horizons: Sequence[HorizonBest], requests: int | None) -> list[str]:
    return [
        f"over {requests:,} requests at batch size {entry.batch_size}, {entry.arm} has served them first, its build counted"
        for entry in horizons
        if entry.requests == requests
    ]


def _tell_effects(effects: Sequence[ConstraintEffect]) -> list[str]:
    return [
        f"without {effect.constraint} the answer would be {effect.without}"
        for effect in effects
        if effect.changes_answer
    ]


def _tell_memory(memory: Sequence[MemoryFit], winner: str) -> list[str]:
    return [
        f"{fit.arm} reached {fit.share:.0%} of the GPU's memory"
        + (
            ", its build included: it may serve, but leaves little beside it"
            if fit.arm == winner
            else ""
        )
        + "; compilers skip strategies when memory is short, so with more memory it might be faster"
        for fit in memory
        if fit.short
    ]


def _nothing_viable(
    scored: Sequence[ScoredArm], constraints: Sequence[Constraint]
) -> NothingViableError:
    if not scored:
        return NothingViableError(
            "nothing was measured, so there is nothing to recommend",
            "see the reasons beside each workflow",
        )
    fails = "; ".join(f"{arm.arm}: {', '.join(arm.fails)}" for arm in scored)
    effects = sensitivity.weigh_constraints(scored, constraints, None)
    ways = [
        f"without {effect.constraint} the answer would be {effect.without}"
        for effect in effects
        if effect.without
    ]
    return NothingViableError(
        f"every workflow fails a constraint ({fails})",
        "; ".join(["ask for less with --require", *ways]),
    )


def is_tie(winner: ScoredArm, other: ScoredArm, results: Results) -> bool:
    """Say whether the same score and speeds within the noise leave the choice open."""
    if abs(winner.score - other.score) > SAME_SCORE:
        return False
    margin = math.log1p(max(EPSILON, results.noise_floor or 0.0))
    ours, theirs = results.log_speedups[winner.arm], results.log_speedups[other.arm]
    pairs = [
        [one - two for one, two in zip(ours[size], theirs[size], strict=False)]
        for size in ours
        if ours[size] and theirs.get(size)
    ]
    return bool(pairs) and abs(geometric_mean_interval(pairs, 0.95).value) <= margin


def find_flips(viable: Sequence[ScoredArm], priorities: Priorities) -> tuple[Flip, ...]:
    """Return, for each of the three Ps, the weights at which the lead changes, nearest to the present weight first.

    Along each path the scores are straight lines, so the lead can change only where two of them
    cross.
    """
    flips: list[Flip] = []
    # Arms of the same tiers score the same whatever the weights: of these only the first in the
    # ranking can ever lead.
    leading = list(
        reversed({tuple(_tiers(arm).values()): arm for arm in reversed(viable)}.values())
    )
    for pillar in PILLARS:
        now = getattr(priorities, pillar)
        found = [flip for side in ENDS for flip in _walk(leading, priorities, pillar, side)]
        flips += sorted(found, key=lambda flip: abs(flip.weight - now))
    return tuple(flips)


def _walk(
    viable: Sequence[ScoredArm], priorities: Priorities, pillar: str, when: Side
) -> list[Flip]:
    """Follow the lead from the present weight down to 0 or up to 100."""
    now, end = getattr(priorities, pillar), ENDS[when]
    moved = [priorities.with_weight(pillar, weight) for weight in (now, end)]
    at_start, at_end = ({arm.arm: each.weigh(_tiers(arm)) for arm in viable} for each in moved)
    crossings = {1.0}
    for one, two in itertools.combinations(viable, 2):
        before = at_start[one.arm] - at_start[two.arm]
        after = at_end[one.arm] - at_end[two.arm]
        if before * after < 0 and abs(before) > SAME_SCORE and abs(after) > SAME_SCORE:
            crossings.add(before / (before - after))
    flips = []
    leader, previous = viable[0].arm, 0.0
    for share in sorted(crossings):
        if share - previous < SAME_SCORE:
            continue  # the same crossing but for rounding: whoever leads in between leads at a point only
        middle = (previous + share) / 2
        ahead = _leader(
            viable,
            {name: at_start[name] + middle * (at_end[name] - at_start[name]) for name in at_start},
        )
        if ahead != leader:
            flips.append(
                Flip(criterion=pillar, weight=now + previous * (end - now), to=ahead, when=when)
            )
            leader = ahead
        previous = share
    return flips


def _tiers(arm: ScoredArm) -> dict[str, int]:
    return {name: rating.tier for name, rating in arm.ratings.items()}


def _leader(viable: Sequence[ScoredArm], scores: dict[str, float]) -> str:
    return min(viable, key=lambda arm: (-round(scores[arm.arm], 9), -arm.speedup, arm.arm)).arm


def give_reasons(
    winner: ScoredArm,
    measurement: Measurement,
    results: Results,
    ties: Sequence[str],
    missing: Sequence[int] = (),
) -> list[str]:
    """Return why the winner wins, each reason with its figure."""
    speedup = measurement.speedup
    bounds = (
        f" (95 %: {speedup.low:.2f} to {speedup.high:.2f})"
        if speedup.low is not None and speedup.high is not None
        else ""
    )
    reasons = [f"it scores {winner.score:.2f} of 3 with these priorities"]
    if winner.arm != results.baseline:
        over = "the batch sizes that were measured" if missing else "the batch sizes"
        reasons.append(
            f"it runs {speedup.value:.2f}x as fast as {results.baseline}{bounds}, geometric mean over {over}"
        )
    else:
        reasons.append("no other workflow's gains outweigh what it costs in the other criteria")
    reasons += [
        f"{name}: tier {rating.tier}, {rating.why} ({rating.evidence})"
        for name, rating in winner.ratings.items()
    ]
    if ties:
        reasons.append(
            f"tie: {', '.join(ties)} score the same, and the speeds are within the noise"
        )
    return reasons


def give_deployment_steps(measurement: Measurement, keep: Sequence[str]) -> list[str]:
    """Return what to do with the recommended workflow, so that what runs later is what was measured."""
    build = measurement.build_seconds
    gain = (
        f" (here {build.warm:.1f} s instead of {build.cold:.1f} s)"
        if build.warm is not None and build.warm < build.cold
        else ""
    )
    pins = ", ".join(f"{name} {version}" for name, version in sorted(measurement.versions.items()))
    return [
        *(f"{step}{gain}" for step in keep),
        *([f"pin the versions that were measured: {pins}"] if pins else []),
    ]


def give_next_steps(trust: Trust, excluded: Sequence[Excluded]) -> list[str]:
    """Return what the user can do to get a better founded answer."""
    steps = []
    if trust == "D":
        steps.append(
            "measure again when the machine is quiet, or allow more with --budget thorough"
        )
    missing = [entry for entry in excluded if entry.status == "not-installed" and entry.fix]
    steps += [f"to have {entry.workflow} measured too: {entry.fix}" for entry in missing]
    return steps
