"""`--survey`: every workflow of the plan builds and checks every model of the panel.

Nothing is timed.
"""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Callable, Iterable, Iterator
from typing import Literal

import msgspec

from advisor import measure
from advisor.domain.catalogue import Panel, PanelModel
from advisor.domain.outcome import Completed, Failure, Incorrect, NotEngaged, Outcome
from advisor.domain.plan import REFERENCE, Arm, Plan
from advisor.domain.question import Question
from advisor.domain.run import Header
from advisor.domain.run_events import Ended, RunEvent, Surveyed
from advisor.domain.run_state import RunState
from advisor.errors import UserError
from advisor.pipeline.arms import plan_of
from advisor.probing.run_config import RunConfig
from advisor.probing.session import Session
from advisor.store import Store

Verdict = Literal["pass", "wrong", "failed", "fell-back", "untried"]

#: Makes the session of one model's workers.
Open = Callable[[RunConfig], Session]


def take(
    state: RunState, question: Question, panel: Panel, site: RunConfig, open_session: Open
) -> Iterator[Surveyed]:
    """Try what the run has not tried yet, one model after the other; findings of other runs do not count."""
    arms = arms_of(plan_of(state))
    known = {(finding.workflow, finding.model) for finding in state.surveyed if finding.run is None}
    for model in panel.model:
        waiting = [arm for arm in arms if (arm.workflow, model.id) not in known]
        if waiting:
            # Weights and references are a model's own; compiler caches are kept, as nothing is
            # timed.
            shutil.rmtree(site.scratch / "shared", ignore_errors=True)
            place = dataclasses.replace(
                site, question=_ask(question, model, panel), arms=site.arms / "survey" / model.id
            )
            yield from _try_model(open_session(place), plan_of(state).baseline, waiting, model)


def arms_of(plan: Plan) -> list[Arm]:
    """Return one arm for each workflow: options do not decide which models it takes."""
    first: dict[str, Arm] = {}
    for arm in plan.arms:
        first.setdefault(arm.workflow, arm)
    return list(first.values())


def _ask(question: Question, model: PanelModel, panel: Panel) -> Question:
    return msgspec.structs.replace(
        question,
        model=model.as_subject(),
        task="forward",
        dtype="float32" if question.dtype == "native" else question.dtype,
        batch_sizes=(panel.batch_size,),
        input_tokens=panel.input_tokens,
        max_build_seconds=min(question.max_build_seconds, panel.build_seconds),
    )


def _try_model(
    session: Session, baseline: Arm, arms: list[Arm], model: PanelModel
) -> Iterator[Surveyed]:
    """Have the reference made and every arm build and check the model, then end them all."""
    others = [arm for arm in arms if arm != baseline]
    ends = _ends(session.make_reference(baseline, 0))
    ends |= _ends(session.start([(arm, 0) for arm in others]))
    for arm in others:
        ends |= _ends(session.build(arm.id))
    ends |= _ends(session.stop())
    reference = ends.get(REFERENCE)
    for arm in arms:
        # Eager PyTorch has made the reference; there is nothing it could be compared with but
        # itself.
        outcome = (
            reference
            if arm == baseline or not isinstance(reference, Completed)
            else ends.get(arm.id)
        )
        verdict, reason = judge(outcome)
        if not isinstance(reference, Completed):
            verdict = "untried"
        yield Surveyed(
            workflow=arm.workflow,
            model=model.id,
            family=model.family,
            verdict=verdict,
            reason=reason,
        )


def _ends(run_events: Iterable[RunEvent]) -> dict[str, Outcome]:
    """Let it happen; return the outcomes of the arms that ended meanwhile."""
    return {
        run_event.arm: run_event.outcome for run_event in run_events if isinstance(run_event, Ended)
    }


def judge(outcome: Outcome | None) -> tuple[Verdict, str | None]:
    """Return the survey's word for how a worker ended, and why."""
    if isinstance(outcome, Completed):
        return "pass", None
    if isinstance(outcome, Incorrect):
        return "wrong", outcome.reason
    if isinstance(outcome, NotEngaged):
        return "fell-back", outcome.reason
    return "failed", outcome.reason if isinstance(outcome, Failure) else "its worker gave no answer"


def findings_of(state: RunState, question: Question) -> tuple[Surveyed, ...]:
    """Return the findings on the panel and, where there are any, those on the user's own model, which the run itself has tried."""
    if not state.surveyed:
        return ()
    fresh = [finding for finding in state.surveyed if finding.run is None]
    own = []
    for arm in arms_of(plan_of(state)):
        ends = [
            process.outcome
            for process in state.processes.get(arm.id, ())
            if process.outcome is not None
        ]
        if ends:
            failed = next(
                (end for end in reversed(ends) if not isinstance(end, Completed)), ends[-1]
            )
            verdict, reason = ("pass", None) if measure.is_valid(state, arm.id) else judge(failed)
            own.append(
                Surveyed(
                    workflow=arm.workflow,
                    model=question.model.name,
                    family="your own",
                    verdict=verdict,
                    reason=reason,
                )
            )
    return (*(fresh or state.surveyed), *own)


def recall(store: Store, header: Header) -> tuple[Surveyed, ...]:
    """Return the findings of the newest stored survey made with the same stack, precision and device; none if there is none."""
    for entry in store.history():
        try:
            run = store.find(entry.run_id)
            other = run.header()
            if other.run_id == header.run_id or not (
                other.question.survey and entry.finished and _is_comparable(other, header)
            ):
                continue
            findings = [
                event.run_event
                for event in run.events()
                if isinstance(event.run_event, Surveyed) and event.run_event.run is None
            ]
        except UserError:
            continue
        if findings:
            return tuple(msgspec.structs.replace(finding, run=entry.run_id) for finding in findings)
    return ()


def _is_comparable(one: Header, two: Header) -> bool:
    software, other = one.machine.software, two.machine.software
    same_stack = (software.packages, software.torch_cuda) == (other.packages, other.torch_cuda)
    return same_stack and one.device == two.device and one.question.dtype == two.question.dtype
