"""The answer for a GPU that is not attached from a stored run that was measured on one: decided anew, and said to come from elsewhere."""

from __future__ import annotations

import dataclasses
import datetime as dt
import pathlib
import re

import msgspec

from advisor import catalogue, machine, question
from advisor.applicability import required_packages
from advisor.context import Context
from advisor.domain.decision import Provenance, Recommendation, ScoredArm
from advisor.domain.question import Question
from advisor.domain.run import Header
from advisor.domain.run_state import RunState
from advisor.errors import UserError
from advisor.pipeline import other_platforms
from advisor.pipeline.decision import Decision, advise, judge
from advisor.question.answers import Answers

#: The best grade that figures from elsewhere can have: the machine that asks has not been seen to
#: be like the one that measured.
BEST_TRUST = "B"


@dataclasses.dataclass(frozen=True)
class Imported:
    """A decision on a run made elsewhere, and where that was."""

    decision: Decision
    provenance: Provenance


def answer(answers: Answers, world: Context) -> Imported | None:
    """Return what the newest finished run on such a GPU gives for the same model; None where no such run is stored."""
    rubric = pathlib.Path(answers.rubric) if answers.rubric else None
    known = catalogue.load(world.rubric, probes=world.probes, rubric=rubric)
    here = machine.detect(question.interpreter_of(answers), required_packages(known))
    asked = question.resolve(msgspec.structs.replace(answers, gpu=question.CPU), here, known)
    found = find(answers, asked, world)
    if found is None:
        return None
    header, state = found
    stored = msgspec.structs.replace(
        header.question,
        priorities=asked.priorities,
        constraints=asked.constraints,
        requests=asked.requests,
        price_per_hour=asked.price_per_hour,
    )
    judged_by = msgspec.structs.replace(header.catalogue, rubric=known.rubric)
    decision = judge(msgspec.structs.replace(header, question=stored, catalogue=judged_by), state)
    provenance = trace(header, world.now())
    return Imported(_relabel(decision, provenance), provenance)


def find(answers: Answers, asked: Question, world: Context) -> tuple[Header, RunState] | None:
    """Return the newest finished run of this question on a GPU of this name, with the sizes and the precision asked for, if any were."""
    for entry in [] if world.store.is_empty() else world.store.history():
        if (
            entry.finished
            and entry.model == asked.model.name
            and is_named(entry.device, answers.gpu)
        ):
            try:
                run = world.store.find(entry.run_id)
                header = run.header()
                if _is_asked(header.question, answers, asked):
                    return header, run.state()
            except UserError:
                continue
    return None


def _is_asked(found: Question, answers: Answers, asked: Question) -> bool:
    """Say whether a run's question is this one, whatever the batch sizes and the precision if none were asked for."""
    wanted = (
        asked
        if answers.batch_sizes
        else msgspec.structs.replace(asked, batch_sizes=found.batch_sizes)
    )
    return (
        found.gpu is not None
        and other_platforms.is_same_question(found, wanted)
        and answers.dtype in {"auto", found.dtype}
    )


def is_named(device: str, text: str) -> bool:
    """Say whether the words of `text` stand in the device's name in their order, each whole: `RTX 4090` in `NVIDIA GeForce RTX 4090`."""
    words = r"\W+(?:\w+\W+)*?".join(map(re.escape, text.split()))
    return bool(words) and re.search(rf"(?<!\w){words}(?!\w)", device, re.IGNORECASE) is not None


def trace(header: Header, now: dt.datetime) -> Provenance:
    """Return where and when a run was made, in fields and in words."""
    gpu = next(gpu for gpu in header.machine.gpus if gpu.uuid == header.question.gpu)
    age = max((now - dt.datetime.fromisoformat(header.created)).days, 0)
    days = "today" if age == 0 else "1 day ago" if age == 1 else f"{age} days ago"
    words = (
        f"measured {days} on {gpu.name}, driver {gpu.driver}, {header.machine.cpu.model} (run {header.run_id}); "
        "nothing was measured on this machine"
    )
    return Provenance(
        run=header.run_id,
        created=header.created,
        age_days=age,
        device=gpu.name,
        cpu=header.machine.cpu.model,
        kernel=header.machine.kernel,
        driver=gpu.driver,
        versions=header.machine.software.packages,
        words=words,
    )


def _relabel(decision: Decision, provenance: Provenance) -> Decision:
    """Return the decision with nothing in it said to be measured here."""
    scored = tuple(_relabel_arm(arm) for arm in decision.scored)
    if decision.recommendation is None:
        return dataclasses.replace(decision, scored=scored)
    advice = advise(decision.header, decision.state, decision.results, scored)
    return dataclasses.replace(decision, scored=scored, recommendation=_doubt(advice, provenance))


def _relabel_arm(arm: ScoredArm) -> ScoredArm:
    ratings = {
        name: msgspec.structs.replace(rating, evidence="imported")
        if rating.evidence == "measured"
        else rating
        for name, rating in arm.ratings.items()
    }
    return msgspec.structs.replace(arm, ratings=ratings)


def _doubt(advice: Recommendation, provenance: Provenance) -> Recommendation:
    return msgspec.structs.replace(
        advice,
        trust=max(advice.trust, BEST_TRUST),
        trust_reasons=(provenance.words, *advice.trust_reasons),
        next_steps=(
            f"run p3-advisor on the machine that will serve, if it is not the one of run {provenance.run}",
            *advice.next_steps,
        ),
    )
