"""Which length of a sweep is measured next, with which workflows and how much time. Pure."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from advisor.domain.plan import BASELINE
from advisor.domain.question import Budget
from advisor.domain.recommendation import Recommendation
from advisor.domain.run_events import LoggedEvent, RaceClosed, RaceOpened
from advisor.domain.sweep import Lengths


@dataclasses.dataclass(frozen=True)
class LengthFinding:
    """What the run at one length has shown."""

    #: The advised workflow if the decision is CLEAR, else None.
    clear_workflow: str | None = None
    #: Workflows that lead or may lead, and the runner-up.
    contenders: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class SweepStep:
    """The next length to measure."""

    lengths: Lengths
    #: Workflows that the plan is limited to; empty for all of the question.
    limited_to: tuple[str, ...] = ()
    #: The nearest shorter and longer lengths, whose equal answers limit the plan.
    between: tuple[Lengths, ...] = ()


def next_step(
    lengths: Sequence[Lengths], findings: Mapping[Lengths, LengthFinding]
) -> SweepStep | None:
    """Return the length that adds most to what is known; None if all have findings.

    The shortest comes first, and the longest, which is the farthest from it, second. Then come
    lengths whose neighbours have different answers, and among them the one in the largest gap.
    """
    if not findings:
        return SweepStep(min(lengths))
    left = [each for each in lengths if each not in findings]
    if not left:
        return None
    steps = [plan_step(each, findings) for each in left]
    return min(
        steps,
        key=lambda step: (bool(step.limited_to), -_gap(step.lengths, findings), step.lengths),
    )


def plan_step(lengths: Lengths, findings: Mapping[Lengths, LengthFinding]) -> SweepStep:
    """Return the step for a length, limited where both neighbours clearly advise one workflow."""
    between = find_neighbours(lengths, findings)
    found = [findings[each] for each in between]
    answers = {each.clear_workflow for each in found}
    if len(found) < 2 or len(answers) > 1 or None in answers:  # noqa: PLR2004 - both sides
        return SweepStep(lengths)
    names = dict.fromkeys(name for each in found for name in each.contenders)
    # The baseline is in every plan. A limit to it alone would still have to name it.
    rivals = tuple(name for name in names if name != BASELINE)
    return SweepStep(lengths, rivals or (BASELINE,), between)


def find_neighbours(lengths: Lengths, known: Iterable[Lengths]) -> tuple[Lengths, ...]:
    """Return the nearest known lengths of which one is shorter and one longer, or nothing.

    Neither the inputs nor the outputs of the shorter one are longer, and the other way round.
    """
    others = [each for each in known if each != lengths]
    shorter = [each for each in others if _is_within(each, lengths)]
    longer = [each for each in others if _is_within(lengths, each)]
    if not shorter or not longer:
        return ()
    return tuple(
        min(side, key=lambda each: (distance(each, lengths), each)) for side in (shorter, longer)
    )


def distance(one: Lengths, two: Lengths) -> float:
    """Return how far apart two lengths are: the sum of the factors between them, as logarithms."""
    return abs(math.log(one.input_tokens / two.input_tokens)) + abs(
        math.log(one.output_tokens / two.output_tokens)
    )


def finding_of(advice: Recommendation | None) -> LengthFinding:
    """Return what a decision says about its length; nothing without advice."""
    certainty = advice.certainty if advice is not None else None
    if advice is None or certainty is None:
        return LengthFinding()
    runner_up = (advice.runner_up.partition("/")[0],) if advice.runner_up else ()
    return LengthFinding(
        clear_workflow=advice.workflow if certainty.decision_word == "CLEAR" else None,
        contenders=tuple(dict.fromkeys((advice.workflow, *certainty.contenders, *runner_up))),
    )


def limit_workflows(asked: Sequence[str], limited_to: Sequence[str]) -> tuple[str, ...]:
    """Return the workflows and arms that the user named, as far as the limit has them.

    Without a limit these are all; where the user named none, they are those of the limit.
    """
    if not limited_to or not asked:
        return tuple(limited_to or asked)
    named = tuple(name for name in asked if name.partition("/")[0] in limited_to)
    return named or tuple(limited_to)


def share_budget(budget: Budget, spent: float, runs_left: int) -> Budget:
    """Return the budget of the next run: an equal part of the time that is left for `runs_left`.

    `spent` has the seconds of the earlier runs: what one did not need goes to the later ones.
    """
    seconds = (budget.measuring_seconds - spent) / runs_left
    share = seconds / budget.measuring_seconds
    return msgspec.structs.replace(
        budget,
        measuring_seconds=seconds,
        open_seconds=budget.open_seconds * share,
        sustained_seconds=budget.sustained_seconds * share,
        all_new_shapes_seconds=budget.all_new_shapes_seconds * share,
    )


def spent_seconds(events: Iterable[LoggedEvent], budget: Budget) -> float:
    """Return the seconds of a run's races, and no more than the run's budget.

    Races may take longer until they can decide; later runs are not cut short for that.
    """
    opened: dict[int, float] = {}
    total = 0.0
    for event in events:
        if isinstance(event.run_event, RaceOpened):
            opened[event.run_event.batch_size] = event.at
        elif isinstance(event.run_event, RaceClosed):
            since = opened.pop(event.run_event.batch_size, event.at)
            total += event.at - since
    return min(total, budget.measuring_seconds)


def _is_within(one: Lengths, two: Lengths) -> bool:
    return one.input_tokens <= two.input_tokens and one.output_tokens <= two.output_tokens


def _gap(lengths: Lengths, findings: Mapping[Lengths, LengthFinding]) -> float:
    """Return the distance to the nearest length with a finding."""
    return min(distance(lengths, each) for each in findings)
