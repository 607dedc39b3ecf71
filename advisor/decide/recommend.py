"""Make the recommendation from the scores: the last step of a decision."""

from __future__ import annotations

from collections.abc import Sequence

from advisor.decide import certainty, sensitivity, trust
from advisor.decide.costs import find_break_even, first_to_serve, price
from advisor.decide.scoring import candidates_of, potential_of, score_by_shape
from advisor.decide.unmeasured import name_late, nothing_compared, nothing_viable
from advisor.domain import recommendation
from advisor.domain.answer import Answer, RankedArm, UnmeasuredArm, is_out_of_time
from advisor.domain.catalogue import Catalogue
from advisor.domain.errors import MachineUnfitError
from advisor.domain.machine import Machine
from advisor.domain.plan import ArmName
from advisor.domain.question import Budget, Question, choose_next_budget
from advisor.domain.results import Results, ScoredArm
from advisor.domain.rubric import Guideline
from advisor.domain.text import join_names, write_speedup
from advisor.domain.workflow import Workflow

#: How an arm ends whose outputs were wrong or varied.
WRONG = {"incorrect", "nondeterministic"}


def recommend(
    contest: certainty.Contest,
    machine: Machine,
    unmeasured: Sequence[UnmeasuredArm],
    *,
    imported: bool = False,
) -> recommendation.Recommendation:
    """Return the advice on scores; `imported` are those of another machine.

    Raise `NothingViableError` when nothing was measured or every arm fails a constraint,
    `ConstraintUndecidedError` when one of them may meet it, `BudgetSpentError` when there was no
    time for a second arm, and `MachineUnfitError` when the decision is open because the machine was
    not fit to measure on.
    """
    question, results = contest.question, contest.results
    effects = sensitivity.constraint_effects(contest)
    outstanding = _outstanding(contest, unmeasured)
    by_promise = sorted(unmeasured, key=lambda each: -outstanding.get(each.arm, 0.0))
    late = [each for each in by_promise if each.arm in outstanding]
    if not contest.viable:
        raise nothing_viable(contest, late, effects)
    cut_off = [each for each in by_promise if each.is_cut_off]
    if cut_off and not (contest.scores[1:] or contest.while_running):
        raise nothing_compared(contest.scores[0], cut_off)
    decision = certainty.judge_certainty(contest, outstanding=outstanding)
    budgets, needed = contest.catalogue.presets.budgets.values(), decision.needed_repetitions
    next_budget = choose_next_budget(budgets, question.budget, made=results.repeats, needed=needed)
    if not certainty.is_settled(contest, decision):
        first = contest.advised, max(contest.viable, key=lambda each: (each.speedup, -each.rank))
        leaders = (RankedArm(each, results.by_arm[each.arm]) for each in first)
        again = question.ask_again(budget=next_budget.name) if next_budget else ""
        raise machine_unfit(results, again, *leaders, late=late)
    return _advise(contest, decision, effects, next_budget, machine, unmeasured, imported=imported)


def _outstanding(
    contest: certainty.Contest, unmeasured: Sequence[UnmeasuredArm]
) -> dict[str, float]:
    """Return the score that each arm may have that timed out, was not reached or could not lead.

    The highest score is first.

    Where an arm of its workflow was measured, only one for which no time was left counts; where
    none was, and one returned wrong or varying outputs, none counts.
    """
    question, results = contest.question, contest.results
    known = {each.workflow for each in results.measurements}
    wrong = {each.workflow for each in unmeasured if each.status in WRONG} - known
    too_slow = {served.arm for served in results.serving.arms} if results.serving else set()
    found = {}
    for each in unmeasured:
        is_open = each.is_cut_off or each.skip_cause == "cannot-lead"
        is_possible = is_out_of_time(each) or (each.workflow not in known and is_open)
        if each.arm in too_slow or each.workflow in wrong or not is_possible:
            continue
        if potential := potential_of(each, question, results, contest.catalogue):
            found[each.arm] = potential.score_with_bonus
    return dict(sorted(found.items(), key=lambda each: -each[1]))


def _advise(
    contest: certainty.Contest,
    decision: recommendation.Decision,
    effects: tuple[recommendation.ConstraintEffect, ...],
    next_budget: Budget | None,
    machine: Machine,
    unmeasured: Sequence[UnmeasuredArm],
    *,
    imported: bool,
) -> recommendation.Recommendation:
    """Return the advice to use the winner, with what else the answer says of it and its rivals."""
    question, results, catalogue = contest.question, contest.results, contest.catalogue
    winner = contest.advised
    passing = [each for each in contest.scores if not each.failures]
    eligible = [each for each in passing if not each.unproven]
    is_baseline = winner.arm == results.baseline
    # Eager is kept because nothing gains so much.
    gain = contest.rule.speed_bonus_at if is_baseline else winner.speedup
    own, baseline = results.by_arm[winner.arm], results.by_arm.get(results.baseline)
    missing = results.untimed(question.shapes)
    found, faults = trust.judge_trust(results, decision.word, missing, gain=gain, imported=imported)
    to_keep = {each.id: each.deployment_steps for each in catalogue.workflows}
    runner_up = _runner_up(winner, passing, results.baseline)
    candidates = [results.by_arm[each.arm] for each in passing]
    return recommendation.Recommendation(
        arm=winner.arm,
        workflow=winner.workflow,
        decision=decision,
        next_budget=next_budget,
        best_exact=next((each.arm for each in passing if results.by_arm[each.arm].is_exact), None),
        best_native=next((each.arm for each in passing if each.weight_format is None), None),
        can_try_tf32=_can_try_tf32(contest, machine),
        trust=found,
        trust_faults=faults,
        gain=gain,
        runner_up=runner_up.arm if runner_up else None,
        margin=winner.score - runner_up.score if runner_up else None,
        flips=sensitivity.find_flips(winner, eligible, question.priorities),
        leading_shares=sensitivity.leading_shares(eligible, question.priorities),
        break_even=() if is_baseline or baseline is None else find_break_even(own, baseline),
        first_to_serve=first_to_serve(candidates, question.requests),
        costs=price(candidates, question.price_of_all_devices),
        constraints=effects,
        guideline=_guideline_opinion(contest, decision),
        advice_by_shape=_advise_by_shape(contest),
        deployment_steps=to_keep.get(winner.workflow, ()),
        not_installed=_find_not_installed(unmeasured, catalogue.workflows),
    )


def machine_unfit(
    results: Results,
    again: str,
    leader: RankedArm,
    fastest: RankedArm,
    *,
    late: Sequence[UnmeasuredArm] = (),
) -> MachineUnfitError:
    """Return the error that says why the machine is unfit, what is known, and what to do.

    `again` is the command that repeats more, empty if no budget does; arms of `late` may lead.
    """
    reason = results.unfitness[0]
    next_step, joined, longer = "stop other work on this machine and measure again", "and", ""
    if not results.is_busy:
        next_step, joined = "measure on a machine whose processors nothing else uses", "or"
        longer = again
    longer = next((each.fix for each in late if each.fix), longer)
    next_step += f", {joined} longer: {longer}" if longer else ""
    places = {"seems to lead by score": leader, "seems the fastest": fastest}
    if leader.arm == fastest.arm:
        places = {"seems to lead by score and speed": leader}
    known = [_name_leader(ranked, place, results.baseline) for place, ranked in places.items()]
    so_far = f"; so far {join_names([each for each in known if each])}" if any(known) else ""
    so_far += f"; not measured: {name_late(late)}" if late else ""
    return MachineUnfitError(f"{reason}, so the measured speeds do not decide{so_far}", next_step)


def _name_leader(ranked: RankedArm, place: str, baseline: str) -> str:
    """Name the arm, its lead and its speed; empty for the baseline, and if it may be slower."""
    if ranked.arm == baseline or (ranked.speedup.low or 0.0) <= 1:
        return ""
    speedup = write_speedup(ranked.speedup, unfit=True, in_words=True)
    return f"{ranked.scored.title} {place} (speed-up {speedup})"


def _runner_up(winner: ScoredArm, passing: Sequence[ScoredArm], baseline: str) -> ScoredArm | None:
    """Return the best arm of another workflow or the baseline, else the next arm."""
    candidates = candidates_of(passing, baseline)
    arms = candidates if len(candidates) > 1 else passing
    others = [each for each in arms if each is not winner]
    return min(others, key=lambda each: each.rank, default=None)


def _can_try_tf32(contest: certainty.Contest, machine: Machine) -> bool:
    question, name = contest.question, "tf32"
    gpu = machine.find_gpu(question.gpu)
    first = contest.catalogue.improvements.precision[name].compute_capability
    has_tf32 = gpu is not None and float(gpu.compute_capability) >= first
    is_tried = any(
        tried.name == name for each in contest.results.measurements for tried in each.variants
    )
    return question.dtype == "float32" and has_tf32 and not is_tried


def _guideline_opinion(
    contest: certainty.Contest, decision: recommendation.Decision
) -> recommendation.GuidelineOpinion | None:
    guideline = choose_guideline(contest.catalogue.guidelines, contest.question)
    if guideline is None:
        return None
    measured = [each.arm for each in contest.scores]
    return recommendation.GuidelineOpinion(
        id=guideline.id,
        says=guideline.says,
        workflows=guideline.workflows,
        agrees=agrees_with(guideline, contest.advised.arm, decision.as_good, measured),
        source=guideline.source,
    )


def _advise_by_shape(contest: certainty.Contest) -> tuple[recommendation.ShapeAdvice, ...]:
    advised, least_lead = contest.advised.arm, contest.rule.faster_at_shape
    by_shape = score_by_shape(contest.results, contest.question, contest.catalogue)
    speedups = {(arm, cell.shape): cell.speedup for arm, cell in contest.results.cells}
    found = []
    for shape, ranked in sorted(by_shape.items()):
        eligible = [each.arm for each in ranked if not (each.failures or each.unproven)]
        own = speedups.get((advised, shape))
        if not eligible or own is None:
            continue
        ratios = {arm: speedups[arm, shape].over(own) for arm in eligible}
        faster = [arm for arm, each in ratios.items() if (each.low or 0.0) > 1]
        fastest = max(faster, key=lambda arm: ratios[arm].value, default=eligible[0])
        is_named = fastest in faster and ratios[fastest].value >= least_lead
        found.append(
            recommendation.ShapeAdvice(
                shape=shape,
                arm=eligible[0],
                speedup=speedups[eligible[0], shape].value,
                advised_speedup=own.value,
                fastest=fastest if is_named else None,
                fastest_ratio=ratios[fastest] if is_named else None,
            )
        )
    return tuple(found)


def choose_guideline(guidelines: Sequence[Guideline], question: Question) -> Guideline | None:
    for guideline in guidelines:
        name = guideline.criterion
        is_weighty = name is None or getattr(question.priorities, name) >= guideline.at_least
        if question.task in guideline.tasks and question.device in guideline.devices and is_weighty:
            return guideline
    return None


def agrees_with(
    guideline: Guideline, advised: str, as_good: Sequence[str], measured: Sequence[str]
) -> bool | None:
    """Return whether the guideline names the advised workflow.

    None if it names no measured workflow, or only one that is about as good.
    """

    def names(arms: Sequence[str]) -> bool:
        return any(ArmName.parse(arm).workflow in guideline.workflows for arm in arms)

    if names([advised]):
        return True
    return None if names(as_good) or not names(measured) else False


def _find_not_installed(
    unmeasured: Sequence[UnmeasuredArm], workflows: Sequence[Workflow]
) -> dict[str, str]:
    """Return the arms that can be installed, with the environment to create, if it is their own.

    A single arm lacks what writes its checkpoint, which other arms may lack too. A run that is kept
    may miss what is no longer measured.
    """
    dropped = {each.id for each in workflows if each.not_measured}
    absent = [each for each in unmeasured if each.status == "not-installed" and each.fix]
    own = {each.id: each.environment_name for each in workflows if each.environment.kind == "own"}
    return {each.arm: own.get(each.arm, "") for each in absent if each.workflow not in dropped}


def undecided_workflows(
    advice: recommendation.Recommendation | None, question: Question
) -> tuple[str, ...]:
    """Return the workflows that contend in an OPEN decision, else those of the question."""
    if advice is not None and advice.decision.word == "OPEN":
        named = (ArmName.parse(arm).workflow for arm in advice.decision.contenders)
        return tuple(dict.fromkeys(named))
    return question.workflows


def further_budget(answer: Answer, catalogue: Catalogue) -> Budget:
    """Return the budget that the headline names for a further run, else that of the question."""
    own, advice = answer.question.budget, answer.recommendation
    if advice is not None:
        return advice.next_budget or own
    budgets = catalogue.presets.budgets.values()
    return choose_next_budget(budgets, own, made=answer.results.repeats, needed=None) or own
