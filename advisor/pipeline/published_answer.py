"""The answer for a GPU that is not attached: published figures through the same rubric, said to be of lower evidence."""

from __future__ import annotations

import pathlib

import msgspec

from advisor import catalogue, machine, question, recommend, score
from advisor.applicability import required_packages
from advisor.context import Context
from advisor.domain.catalogue import Catalogue
from advisor.domain.decision import PublishedAnswer, PublishedCase, Recommendation, ScoredArm
from advisor.domain.plan import Excluded
from advisor.domain.question import Question, Transformers
from advisor.domain.rubric import Criterion
from advisor.errors import NothingViableError, UserError
from advisor.question.answers import Answers
from advisor.recommend import guidelines, published_figures, sensitivity

MEASURE = "run p3-advisor on a machine with that GPU"


def answer(answers: Answers, world: Context, absent: UserError) -> PublishedAnswer:
    """Return what the published figures give; raise `absent` where there are none, `NothingViableError` where they contradict."""
    known = catalogue.load(
        world.rubric,
        probes=world.probes,
        rubric=pathlib.Path(answers.rubric) if answers.rubric else None,
    )
    here = machine.detect(question.interpreter_of(answers), required_packages(known))
    gpu = question.find_known_gpu(answers.gpu, known)
    if gpu is None:
        raise absent
    local = question.resolve(msgspec.structs.replace(answers, gpu=question.CPU), here, known)
    asked = msgspec.structs.replace(
        local,
        device="cuda",
        gpu=gpu,
        task="generate" if isinstance(local.model, Transformers) else "forward",
        dtype=question.choose_dtype(answers.dtype, local.model, known.models, on_gpu=True),
    )
    cases = published_figures.find_cases(known.published, gpu, asked.model.name, asked.batch_sizes)
    if not cases:
        raise absent
    scored, advice = decide(cases, asked, known, gpu)
    return PublishedAnswer(
        created=world.now().isoformat(timespec="seconds"),
        question=asked,
        machine=here,
        catalogue=known,
        cases=cases,
        scored=scored,
        failures=failures(asked, known),
        recommendation=advice,
    )


def decide(
    cases: tuple[PublishedCase, ...], asked: Question, known: Catalogue, gpu: str
) -> tuple[tuple[ScoredArm, ...], Recommendation]:
    """Score the published cases and recommend one of them; eager PyTorch, the measure of all of them, is no candidate."""
    contradicting = [case.workflow for case in cases if case.contradicts]
    if contradicting:
        raise NothingViableError(
            f"published figures for the {gpu} contradict each other: {', '.join(contradicting)}",
            MEASURE,
        )
    scored = score.rank(
        [_score(case, max(other.low for other in cases), asked, known) for case in cases]
    )
    viable = [arm for arm in scored if not arm.fails]
    if not viable:
        raise NothingViableError(
            f"every workflow with published figures for the {gpu} fails a constraint",
            "ask for less with --require",
        )
    winner, runner_up = viable[0], (viable[1] if len(viable) > 1 else None)
    simplex = sensitivity.share_simplex(viable, asked.priorities)
    guideline = guidelines.choose_guideline(known.guidelines, asked)
    case = next(case for case in cases if case.workflow == winner.workflow)
    sizes = ", ".join(map(str, case.speedups))
    return scored, Recommendation(
        arm=winner.arm,
        workflow=winner.workflow,
        verdict="INCONCLUSIVE",
        trust="D",
        trust_reasons=(
            f"nothing was measured: the {gpu} is not attached, and these are figures of the paper",
            "eager PyTorch, which all published speed-ups are measured against, is no candidate here, though it may be the better choice",
            "facts without a published figure were left out of the rules",
        ),
        runner_up=runner_up.arm if runner_up else None,
        margin=winner.score - runner_up.score if runner_up else None,
        ties=(),
        flips=recommend.find_flips(viable, asked.priorities),
        reasons=(
            f"published: {case.low:.2f}x as fast as eager PyTorch, geometric mean over batch sizes {sizes}",
            f"published for the {gpu} with {case.stack}, section {', '.join(case.sections)}",
            *(
                f"{name}: tier {rating.tier}, {rating.why} ({rating.evidence})"
                for name, rating in winner.ratings.items()
            ),
        ),
        next_steps=(MEASURE,),
        simplex_share=simplex[winner.arm],
        simplex=simplex,
        constraints=sensitivity.weigh_constraints(scored, asked.constraints, winner.arm),
        guideline=guidelines.compare_with_guideline(
            guideline, winner, scored, failures(asked, known)
        )
        if guideline
        else None,
        tree=guidelines.follow_tree(known.tree, asked),
    )


def failures(asked: Question, known: Catalogue) -> tuple[Excluded, ...]:
    """Return the workflows that the paper could not run for this model."""
    return tuple(
        Excluded(
            workflow=entry.workflow,
            status="unsupported",
            reason=f"published: {entry.reason}",
            fix=None,
        )
        for entry in known.published.failure
        if entry.model == asked.model.name
    )


def _score(case: PublishedCase, fastest: float, asked: Question, known: Catalogue) -> ScoredArm:
    workflow = next(workflow for workflow in known.workflows if workflow.id == case.workflow)
    facts: dict[str, score.FactValue] = {
        **score.declared_facts(workflow),
        "speedup_low": case.low,
        "fastest_over_it": fastest / case.low,
        "cold_build_seconds": case.compile_seconds,
        "performance_portability": None,
    }
    ratings = {}
    for criterion in known.rubric.criteria:
        rating = score.rate(_without_unknown(criterion, facts), facts, known.rubric)
        if rating.evidence == "measured":
            why = f"by published figures, which have no interval: {rating.rule}"
            rating = msgspec.structs.replace(rating, evidence="published", why=why)
        ratings[criterion.id] = rating
    return ScoredArm(
        arm=case.workflow,
        workflow=case.workflow,
        ratings=ratings,
        score=round(
            asked.priorities.weigh({name: rating.tier for name, rating in ratings.items()}), 9
        ),
        rank=0,
        fails=score.failed_constraints(ratings, asked.constraints),
        speedup=case.low,
    )


def _without_unknown(criterion: Criterion, facts: dict[str, score.FactValue]) -> Criterion:
    """Return the criterion without conditions on facts nobody published; a tier that would then ask for nothing stays as it is."""
    tiers = []
    for rule in criterion.tiers:
        kept = tuple(condition for condition in rule.all if facts[condition.fact] is not None)
        tiers.append(msgspec.structs.replace(rule, all=kept or rule.all))
    return msgspec.structs.replace(criterion, tiers=tuple(tiers))
