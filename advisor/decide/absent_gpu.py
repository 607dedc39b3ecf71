"""Answer for a GPU that is not attached: from a stored run on one, or from published figures.

A stored run is decided again; ratings, trust and text mark it as measured elsewhere. Published
figures are scored with the same rubric.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import pathlib
import re
from collections.abc import Callable, Sequence
from typing import TypeVar

import msgspec

from advisor.ask import detection
from advisor.ask.answers import Answers, command_of
from advisor.ask.devices import CPU, find_known_gpu
from advisor.ask.obstacles import required_packages
from advisor.ask.resolve import choose_dtype, resolve, worker_interpreter
from advisor.ask.rubric_files import load as load_catalogue
from advisor.context import Context
from advisor.decide import guidelines, performance_portability, scoring, sensitivity
from advisor.decide.decision import evaluate
from advisor.decide.grades import FactValue, declared_facts, rate
from advisor.decide.guidelines import PublishedCase
from advisor.decide.headline import write_headline
from advisor.decide.reasons import describe_rating
from advisor.decide.scoring import find_failures
from advisor.decide.sensitivity import find_flips
from advisor.domain.answer import PUBLISHED, Answer, Provenance, UnmeasuredArm
from advisor.domain.catalogue import Catalogue
from advisor.domain.machine import Machine
from advisor.domain.plan import BASELINE
from advisor.domain.question import Question
from advisor.domain.recommendation import Recommendation, Trust, lower_trust
from advisor.domain.results import Results, ScoredArm
from advisor.domain.run_state import Header, RunState
from advisor.domain.workflow import Workflow
from advisor.errors import (
    GpuNotAttachedError,
    NothingViableError,
    RunFileError,
    UnknownGpuError,
    UserError,
)
from advisor.version import __version__

#: Best trust grade of an imported answer: whether this machine is like the one of the run is not
#: known.
BEST_TRUST: Trust = "B"

_Draft = TypeVar("_Draft")


def find_answer(answers: Answers, context: Context) -> Answer | None:
    """Return the answer of the newest finished run of this question on such a GPU.

    None if no such run is stored.
    """
    rubric = pathlib.Path(answers.rubric) if answers.rubric else None
    catalogue = load_catalogue(context.rubric, probes=context.probes, rubric=rubric)
    here = detection.detect(worker_interpreter(answers), required_packages(catalogue))
    question = resolve(msgspec.structs.replace(answers, gpu=CPU, gpus_per_model=1), here, catalogue)
    found = find_run(answers, question, context)
    if found is None:
        return None
    header, state = found
    stored_question = msgspec.structs.replace(
        header.question,
        priorities=question.priorities,
        constraints=question.constraints,
        requests=question.requests,
        price_per_hour=question.price_per_hour,
    )
    with_rubric = msgspec.structs.replace(header.catalogue, rubric=catalogue.rubric)
    header = msgspec.structs.replace(header, question=stored_question, catalogue=with_rubric)
    provenance = provenance_of(header, context.now())
    answer = msgspec.structs.replace(
        evaluate(header, state, evidence="imported"), provenance=provenance
    )
    if answer.recommendation is None:
        return answer
    return msgspec.structs.replace(
        answer, recommendation=_with_lower_trust(answer.recommendation, provenance)
    )


def find_run(
    answers: Answers, question: Question, context: Context
) -> tuple[Header, RunState] | None:
    """Return the newest finished run of this question on a GPU of this name.

    Batch sizes and precision count only if the user has named them.
    """
    for run, header in context.store.finished_runs(question.model.name):
        if matches_gpu_name(header.device, answers.gpu) and _is_same_question(
            header.question, answers, question
        ):
            with contextlib.suppress(RunFileError):
                return header, run.state()
    return None


def _is_same_question(found: Question, answers: Answers, question: Question) -> bool:
    wanted = (
        question
        if answers.batch_sizes
        else msgspec.structs.replace(question, batch_sizes=found.batch_sizes)
    )
    return (
        found.gpu is not None
        and found.devices_per_model == answers.gpus_per_model
        and performance_portability.is_same_work(found, wanted)
        and answers.dtype in {"auto", found.dtype}
    )


def matches_gpu_name(device: str, text: str) -> bool:
    """Return whether the words of `text` occur whole and in this order in the device's name.

    `RTX 4090` matches `NVIDIA GeForce RTX 4090`.
    """
    words = r"\W+(?:\w+\W+)*?".join(map(re.escape, text.split()))
    return bool(words) and re.search(rf"(?<!\w){words}(?!\w)", device, re.IGNORECASE) is not None


def provenance_of(header: Header, now: dt.datetime) -> Provenance:
    """Return where and when a run on a GPU was measured, in fields and in words."""
    gpu = next(gpu for gpu in header.machine.gpus if gpu.uuid == header.question.gpu)
    cpu = header.machine.cpu.model
    age_days = max((now - dt.datetime.fromisoformat(header.created)).days, 0)
    ago = "today" if age_days == 0 else "1 day ago" if age_days == 1 else f"{age_days} days ago"
    return Provenance(
        run=header.run_id,
        created=header.created,
        age_days=age_days,
        device=gpu.name,
        cpu=cpu,
        kernel=header.machine.kernel,
        driver=gpu.driver,
        versions=header.machine.software.packages,
        summary=(
            f"measured {ago} on {gpu.name}, driver {gpu.driver}, {cpu} (run {header.run_id}); "
            "nothing was measured on this machine"
        ),
    )


def _with_lower_trust(recommendation: Recommendation, provenance: Provenance) -> Recommendation:
    return msgspec.structs.replace(
        recommendation,
        trust=lower_trust(recommendation.trust, BEST_TRUST),
        trust_reasons=(provenance.summary, *recommendation.trust_reasons),
        next_steps=(
            (
                "run p3-advisor on the machine that will serve, if it is not the one of run "
                f"{provenance.run}"
            ),
            *recommendation.next_steps,
        ),
    )


def draft_or_answer(
    answers: Answers, context: Context, draft: Callable[[], _Draft]
) -> _Draft | Answer:
    """Return what `draft` returns, or the answer without a measurement for an absent GPU."""
    try:
        return draft()
    except (GpuNotAttachedError, UnknownGpuError) as absent:
        return answer_without_measurement(answers, context, absent)


def answer_without_measurement(answers: Answers, context: Context, absent: UserError) -> Answer:
    """Return an answer without a measurement on this machine.

    Raise `absent` if there is neither an imported run nor a published figure.
    """
    found = find_answer(answers, context) or answer_from_figures(answers, context, absent)
    return msgspec.structs.replace(found, rerun_command=command_of(answers))


NEXT_STEP = "run p3-advisor on a machine with that GPU"


def answer_from_figures(answers: Answers, context: Context, absent: UserError) -> Answer:
    """Return the answer of the published figures.

    Raise `absent` if there are none or if they are for another task, length or precision,
    `NothingViableError` if they contradict each other.
    """
    catalogue = load_catalogue(
        context.rubric,
        probes=context.probes,
        rubric=pathlib.Path(answers.rubric) if answers.rubric else None,
    )
    here = detection.detect(worker_interpreter(answers), required_packages(catalogue))
    gpu = find_known_gpu(answers.gpu, catalogue)
    if gpu is None:
        raise absent
    question = _question_about(answers, gpu, here, catalogue)
    catalogue = catalogue.for_question(question)
    cases = guidelines.find_cases(
        catalogue.published, gpu, question.model.name, question.batch_sizes
    )
    differences = catalogue.published.differences(question)
    if cases and differences:
        what = f"{absent.what}; the published figures are for {', '.join(differences)}"
        raise type(absent)(what, absent.next_step)
    if not cases:
        raise absent
    cases = (*cases, guidelines.baseline_case(cases))
    scored, recommendation = recommend_case(cases, question, catalogue, gpu)
    answer = Answer(
        run_id=PUBLISHED,
        created=context.now().isoformat(timespec="seconds"),
        advisor_version=__version__,
        rubric=catalogue.rubric.name,
        finished=True,
        question=question,
        machine=here,
        results=Results(baseline=BASELINE, measurements=(), races=(), noise_floor=None),
        scores=scored,
        unmeasured=published_failures(question, catalogue),
        recommendation=recommendation,
        problem=None,
    )
    return msgspec.structs.replace(answer, headline=write_headline(answer))


def _workflow(name: str, catalogue: Catalogue) -> Workflow:
    return next(workflow for workflow in catalogue.workflows if workflow.id == name)


def _question_about(answers: Answers, gpu: str, here: Machine, catalogue: Catalogue) -> Question:
    """Return the question about a GPU that is not attached, by its name.

    The other answers are checked as for a question about the CPU.
    """
    on_cpu = resolve(msgspec.structs.replace(answers, gpu=CPU), here, catalogue)
    return msgspec.structs.replace(
        on_cpu,
        device="cuda",
        gpu=gpu,
        dtype=choose_dtype(answers.dtype, on_cpu.model, catalogue.models, on_gpu=True),
    )


def recommend_case(
    cases: tuple[PublishedCase, ...], question: Question, catalogue: Catalogue, gpu: str
) -> tuple[tuple[ScoredArm, ...], Recommendation]:
    """Score the published cases and recommend one of them."""
    contradicting = [case.workflow for case in cases if case.contradicts]
    if contradicting:
        raise NothingViableError(
            f"published figures for the {gpu} contradict each other: {', '.join(contradicting)}",
            NEXT_STEP,
        )
    scored = scoring.rank([_score(case, question, catalogue) for case in cases])
    viable = [arm for arm in scored if not arm.failures]
    if not viable:
        raise NothingViableError(
            f"every workflow with published figures for the {gpu} fails a constraint",
            "ask for less with --require",
        )
    return scored, _recommend(scored, viable, cases, question, catalogue, gpu)


def _recommend(
    scored: Sequence[ScoredArm],
    viable: Sequence[ScoredArm],
    cases: Sequence[PublishedCase],
    question: Question,
    catalogue: Catalogue,
    gpu: str,
) -> Recommendation:
    """Recommend the first of the viable arms, which are in the order of their rank."""
    winner, runner_up = viable[0], (viable[1] if len(viable) > 1 else None)
    simplex = sensitivity.leading_shares(viable, question.priorities)
    guideline = guidelines.choose_guideline(catalogue.guidelines, question)
    case = next(case for case in cases if case.workflow == winner.workflow)
    return Recommendation(
        arm=winner.arm,
        workflow=winner.workflow,
        trust="D",
        trust_reasons=_trust_reasons(gpu),
        runner_up=runner_up.arm if runner_up else None,
        margin=winner.score - runner_up.score if runner_up else None,
        ties=(),
        flips=find_flips(viable, question.priorities),
        reasons=_reasons(winner, case, gpu),
        next_steps=(NEXT_STEP,),
        simplex_share=simplex[winner.arm],
        simplex=simplex,
        constraints=sensitivity.constraint_effects(scored, question.constraints, winner.arm),
        guideline=guidelines.compare_with_guideline(
            guideline,
            winner,
            scored,
            published_failures(question, catalogue),
        )
        if guideline
        else None,
        tree=guidelines.follow_tree(catalogue.tree, question),
    )


def _trust_reasons(gpu: str) -> tuple[str, ...]:
    return (
        f"nothing was measured: the {gpu} is not attached, and these are figures of the paper",
        "facts without a published figure were left out of the rules",
    )


def _reasons(winner: ScoredArm, case: PublishedCase, gpu: str) -> tuple[str, ...]:
    sizes = ", ".join(map(str, case.speedups))
    speed = (
        "published: the baseline, and no published speed-up outweighs what it costs"
        if winner.workflow == BASELINE
        else f"published: {case.low:.2f}x as fast as eager PyTorch, "
        f"geometric mean over batch sizes {sizes}"
    )
    return (
        speed,
        f"published for the {gpu} with {case.stack}, section {', '.join(case.sections)}",
        *(describe_rating(name, rating) for name, rating in winner.ratings.items()),
    )


def published_failures(question: Question, catalogue: Catalogue) -> tuple[UnmeasuredArm, ...]:
    """Return the workflows that the paper could not run for this model."""
    return tuple(
        UnmeasuredArm(
            arm=entry.workflow,
            workflow=entry.workflow,
            title=_workflow(entry.workflow, catalogue).title,
            status="unsupported",
            reason=f"published: {entry.reason}",
        )
        for entry in catalogue.published.failure
        if entry.model == question.model.name
    )


def _score(case: PublishedCase, question: Question, catalogue: Catalogue) -> ScoredArm:
    workflow = _workflow(case.workflow, catalogue)
    facts: dict[str, FactValue] = {
        **declared_facts(workflow),
        "speedup": case.low,
        "build_seconds": case.compile_seconds,
        "performance_portability": None,
    }
    ratings = {}
    for criterion in catalogue.rubric.criteria:
        rating = rate(criterion, facts, catalogue.rubric, skip_unknown=True)
        if rating.evidence == "measured":
            why = f"{rating.why}, by published figures, which have no interval"
            rating = msgspec.structs.replace(rating, evidence="published", why=why)
        ratings[criterion.id] = rating
    return ScoredArm(
        arm=case.workflow,
        workflow=case.workflow,
        title=workflow.title,
        ratings=ratings,
        score=scoring.weigh(ratings, question),
        rank=0,
        failures=find_failures(ratings, question.constraints),
        speedup=case.low,
        adoption=scoring.adoption_of(workflow),
        verified=workflow.verified,
        origin=f"published figures of {case.stack}, section {', '.join(case.sections)}",
    )
