"""Measure arms again in fresh processes, the leaders more often while the decision is OPEN."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

from advisor.decide.race import FEWEST_ROUNDS, results_by_shape
from advisor.decide.rounds import arms_by_speed
from advisor.domain.answer import Answer
from advisor.domain.plan import Arm, Plan
from advisor.domain.question import Question
from advisor.domain.run_events import RepetitionStarted, RunEvent
from advisor.domain.run_state import RunState
from advisor.execute import racing
from advisor.execute.active_run import ActiveRun

#: Fewest arms of a repetition: the baseline and one arm to compare with it.
FEWEST_ARMS = 2
#: Most rivals of the advised arm that are repeated.
MOST_RIVALS = 2
#: The criterion that new shapes grade.
FLEXIBILITY = "input_flexibility"


def arms_to_repeat(state: RunState, question: Question) -> tuple[Arm, ...]:
    """Return the baseline and, for each shape, the arms that were not eliminated.

    Each shape contributes at least its two fastest arms. A budget can ask for all valid arms.
    """
    if question.budget.repeated == "all":
        return tuple(each for each in state.plan.arms if state.is_valid(each.id))
    races = results_by_shape(state, question)
    chosen = {state.plan.baseline.id}
    for shape, race in races.items():
        ranked = arms_by_speed(races, state, shape)
        chosen |= {*ranked[:2], *(arm for arm in ranked if arm not in race.eliminated)}
    return tuple(each for each in state.plan.arms if each.id in chosen)


def order_repetitions(arms: Sequence[Arm]) -> list[Arm]:
    """Return the arms in the order in which they are likely to be repeated, the baseline first.

    The others follow in the order of their possible gain. The duplicate of the baseline is third:
    it is repeated beside a single leader.
    """
    baseline, *others = (each for each in arms if each.duplicate_of is None)
    others.sort(key=lambda each: each.possible_points or 0.0, reverse=True)
    duplicates = [each for each in arms if each.duplicate_of == baseline.id]
    return [baseline, *others[:1], *duplicates, *others[1:]]


def builds_to_repeat(answer: Answer, seconds: float) -> set[str]:
    """Return the arms whose cold build, made alongside others, limits a grade or the break-even.

    They are built again alone, with empty caches, if that leaves half of the `seconds` of the run.
    """
    beside_others = {
        measured.arm
        for measured in answer.results.measurements
        if (measured.build_seconds.builds_at_once or 1) > 1
        and 2 * measured.build_seconds.cold <= seconds
    }
    limited = {
        scored.arm
        for scored in answer.scores
        if any(rating.fact == "build_seconds" for rating in scored.ratings.values())
    }
    return beside_others if answer.question.requests is not None else beside_others & limited


def seconds_while_open(question: Question, state: RunState) -> float:
    """Return the seconds of further repetitions that an OPEN decision is worth now.

    After builds of many minutes a user gains more from an answer than from an earlier end.
    """
    budget = question.budget
    return max(budget.undecided_seconds, budget.undecided_share * state.at)


def repeat_arms(active: ActiveRun, *, is_further: bool = False) -> Iterator[RunEvent]:
    """Measure arms again in fresh processes, most of which start with warm caches.

    No repetition begins after the end of the run, and builds that have not ended by then are
    stopped. The repetitions of the budget come first. Further ones, of the leaders, follow while
    the decision is OPEN and its seconds for open decisions hold as many as would settle it, and
    where the last one made another arm lead, which has not been repeated. `is_further` asks for one
    more than there are.
    """
    question, time = active.question, active.time
    seconds, further = 0.0, None
    asked = max(question.budget.repeats, len(active.state.repeats) + is_further)
    for number in itertools.count(1):
        if is_repetition_complete(active.state, number, question):
            continue
        if time.is_over():
            return
        if number > asked:
            if further is None:
                further = time.within(seconds_while_open(question, active.state))
            answer = active.answer()
            repeated = {arm for arms in active.state.repeats.values() for arm in arms}
            is_unrepeated = answer.advised is not None and answer.advised.scored.arm not in repeated
            has_time = seconds <= time.left()
            if not (_settles(answer, seconds, further.left()) or (has_time and is_unrepeated)):
                return
        started = time.clock()
        yield from _repeat_once(active, number)
        if number not in active.state.repeats:
            return
        processes = active.state.processes
        # Where an arm did not complete it, the next one would not help.
        if number > asked and not all(
            any(each.repeat == number and each.completed for each in processes.get(arm, ()))
            for arm in active.state.repeats[number]
        ):
            return
        seconds = time.clock() - started


def _settles(answer: Answer, seconds: float, seconds_left: float) -> bool:
    decision = answer.recommendation.decision if answer.recommendation else None
    return (
        decision is not None
        and decision.word == "OPEN"
        and decision.needed_repetitions is not None
        and decision.needed_repetitions * seconds <= seconds_left
        and seconds_left > 0
    )


def build_ahead(active: ActiveRun) -> None:
    """Let the workers of the first repetition import and build, on a GPU, while nothing is timed.

    The arms may differ from those that repeat at the end: their workers are then ended.
    """
    question, pool, state = active.question, active.pool, active.state
    if question.device == "cpu" or not question.budget.repeats or state.repeats:
        return
    arms = _next_arms(active, 1)
    if len(arms) < active.builds_at_once and pool.headroom.fits_another_worker():
        numbered = [(each, state.next_process_number(each.id)) for each in arms]
        cold = builds_to_repeat(active.answer(), active.time.left())
        fits = pool.headroom.fits_another_worker(len(arms))
        pool.standbys.add_all(numbered, {each.id for each in arms} - cold if fits else set())


def _next_arms(active: ActiveRun, number: int) -> tuple[Arm, ...]:
    """Return the arms of a repetition that has not begun; none where there is nothing to compare.

    Repetitions beyond those of the budget have the leaders alone, which the decision depends on.
    With one leader, the first has the duplicate too: one difference between equal processes more.
    """
    question, plan = active.question, active.state.plan
    if question.budget.repeated == "leaders" or number > question.budget.repeats:
        arms = leaders_of(active.answer(), plan)
    else:
        arms = arms_to_repeat(active.state, question)
    if number == 1 and len(arms) == FEWEST_ARMS:
        return (*arms, *(each for each in plan.arms if each.duplicate_of == plan.baseline.id))
    return arms if len(arms) >= FEWEST_ARMS else ()


def _repeat_once(active: ActiveRun, number: int) -> Iterator[RunEvent]:
    if number not in active.state.repeats:
        arms = _next_arms(active, number)
        if not arms:
            return
        yield RepetitionStarted(repeat=number, arms=tuple(each.id for each in arms))
    yield from _repeat_in_groups(active, number)
    yield from active.session.stop()


def _repeat_in_groups(active: ActiveRun, number: int) -> Iterator[RunEvent]:
    """Make one repetition in groups that fit in memory, each with the baseline.

    The quickest build comes first: one that the end of the run stops then costs its own arm alone.
    Rounds are numbered on from group to group. Without a shortage there is one group. The workers
    of the last group keep running.
    """
    session, pool, answer = active.session, active.pool, active.answer()
    cold = builds_to_repeat(answer, active.time.left())
    seconds = {each.arm: each.build_seconds.cold for each in answer.results.measurements}
    plan, repeated, first_round = active.state.plan, active.state.repeats[number], 1
    waiting = [each for each in plan.arms if each.id in repeated and each != plan.baseline]
    waiting.sort(key=lambda each: (each.id in cold, seconds.get(each.id, 0.0)))
    starting = [plan.baseline, *waiting]
    # They may be built at the same time if a race had them all in memory.
    raced = [each.arms for groups in active.state.groups.values() for each in groups]
    fit_at_once = len(repeated) <= active.builds_at_once and any(
        set(repeated) <= set(arms) for arms in raced
    )
    while waiting:
        numbered = [(each, active.state.next_process_number(each.id)) for each in starting]
        built = [arm for arm in repeated if arm not in cold]
        yield from session.start(numbered, repeat=number, built=built)
        session.stop_compiling()
        if fit_at_once:
            side_by_side = [each.id for each in starting if each.id not in cold]
            yield from session.prepare(side_by_side, active.time.end)
        group, starting = [plan.baseline], [plan.baseline]
        yield from session.build(plan.baseline.id, end=active.time.end)
        while waiting and (
            not any(pool.is_running(each.id) for each in group[1:])
            or pool.headroom.fits_another_worker()
        ):
            group.append(waiting.pop(0))
            yield from session.build(group[-1].id, end=active.time.end)
        rounds = range(first_round, first_round + active.question.budget.repeat_rounds)
        yield from _visit_in_turn(active, group, rounds)
        if waiting:
            yield from session.stop({each.id for each in group})
        first_round = rounds.stop


def _visit_in_turn(active: ActiveRun, arms: Sequence[Arm], rounds: range) -> Iterator[RunEvent]:
    """Visit the arms in turn at each shape.

    The order rotates from round to round: an arm does not always follow the same other arm. After
    the end of the run the baselines alone, to which nothing is compared, are not visited.
    """
    rivals = {each.id for each in arms} - active.state.baselines
    if active.time.is_over() and not any(map(active.pool.is_running, rivals)):
        return
    counts = racing.DiscardCounts(active.presets.visit_limits)
    shapes = active.question.shapes
    for index, shape in enumerate(shapes):
        part = active.time.share_of(index, len(shapes))
        for number in rounds:
            if number >= rounds.start + FEWEST_ROUNDS and part.is_over():
                break
            for position in range(len(arms)):
                arm = arms[(position + number) % len(arms)].id
                if active.pool.is_running(arm):
                    yield from racing.measure_visit(active.session, arm, shape, number, counts)


def is_repetition_complete(state: RunState, number: int, question: Question) -> bool:
    if number not in state.repeats:
        return False
    visits = question.budget.repeat_rounds * len(question.shapes)
    processes = [state.last_process(arm, number) for arm in state.repeats[number]]
    return all(
        each.failure is not None or (each.completed and len(each.visits) >= visits)
        for each in processes
    )


def leaders_of(answer: Answer, plan: Plan) -> tuple[Arm, ...]:
    """Return the baseline, the advised arm and its rivals.

    The rivals are the other arms that may lead, those first that lead where their gain is shown;
    where none may, the best arm of another workflow, or of the same one. A run that is resumed
    although it is finished may have no answer because the machine was busy: the best arms are its
    leaders then.
    """
    advice = answer.recommendation
    if advice is None or answer.advised is None:
        viable = [each.arm for each in answer.scores if not each.failures]
        chosen = (
            {plan.baseline.id, *viable[:MOST_RIVALS]} if answer.times_remeasured else set[str]()
        )
        return tuple(each for each in plan.arms if each.id in chosen)
    advised = answer.advised.scored
    unproven = [each.arm for each in answer.scores if each.unproven and each.rank < advised.rank]
    siblings = [each.arm for each in answer.scores if each.arm != advised.arm]
    others = [each.arm for each in answer.scores if each.workflow != advised.workflow]
    likely = [*unproven, *(arm for arm in advice.decision.contenders if arm != advised.arm)]
    rivals = likely[:MOST_RIVALS] or (others or siblings)[:1]
    chosen = {plan.baseline.id, advised.arm, *rivals}
    return tuple(each for each in plan.arms if each.id in chosen)


def excluded_by_declaration(answer: Answer, plan: Plan) -> tuple[Arm, ...]:
    """Return the arms that only a declared letter of input flexibility excludes, best first.

    They have a higher score than the advised arm, so a measured letter may change the answer.
    """
    advised = answer.advised
    least = advised.scored.score if advised is not None else -math.inf
    arms = {each.id: each for each in plan.arms}
    return tuple(
        arms[scored.arm]
        for scored in sorted(answer.scores, key=lambda each: -each.score)
        if scored.failures
        and all(failure.constraint.quantity == FLEXIBILITY for failure in scored.failures)
        and scored.ratings[FLEXIBILITY].evidence == "declared"
        and scored.score > least
    )
