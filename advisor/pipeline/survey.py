"""Build and check every model of the panel with every workflow of the plan (`--survey`).

Nothing is timed.
"""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec

from advisor.domain.catalogue import Panel, PanelModel
from advisor.domain.outcome import Completed, Outcome
from advisor.domain.plan import REFERENCE, Arm
from advisor.domain.question import Question
from advisor.domain.run_events import ModelSurveyed, RunEvent, WorkerEnded
from advisor.domain.run_state import RunState
from advisor.pipeline.stored.arms import plan_of
from advisor.pipeline.stored.survey_findings import one_arm_per_workflow, verdict_of
from advisor.probing.run_config import RunConfig
from advisor.probing.session import Session

#: Opens the session for the workers of one model.
OpenSession = Callable[[RunConfig], Session]


def survey_models(
    state: RunState,
    question: Question,
    panel: Panel,
    run_config: RunConfig,
    open_session: OpenSession,
) -> Iterator[ModelSurveyed]:
    """Try each workflow on each model of the panel that this run has not tried yet.

    Findings recalled from other runs do not count.
    """
    arms = one_arm_per_workflow(plan_of(state))
    tried = {(finding.workflow, finding.model) for finding in state.surveyed if finding.run is None}
    for model in panel.surveyed:
        untried = [arm for arm in arms if (arm.workflow, model.id) not in tried]
        if untried:
            # Weights and references belong to one model. Compiler caches stay: nothing is timed.
            shutil.rmtree(run_config.scratch_directory / "shared", ignore_errors=True)
            model_config = dataclasses.replace(
                run_config,
                question=_question_about(model, question, panel),
                arms_directory=run_config.arms_directory / "survey" / model.id,
            )
            yield from _try_model(
                open_session(model_config), plan_of(state).baseline, untried, model
            )


def _question_about(model: PanelModel, question: Question, panel: Panel) -> Question:
    return msgspec.structs.replace(
        question,
        model=model.to_model(),
        task="forward",
        budget=msgspec.structs.replace(question.budget, new_shapes=False, new_shape_seconds=0.0),
        dtype="float32" if question.dtype == "native" else question.dtype,
        batch_sizes=(panel.batch_size,),
        input_tokens=panel.input_tokens,
        max_build_seconds=min(question.max_build_seconds, panel.build_seconds),
    )


def _try_model(
    session: Session, baseline: Arm, arms: Sequence[Arm], model: PanelModel
) -> Iterator[ModelSurveyed]:
    """Make the reference, then build and check the model with every arm; end all workers."""
    compiled = [arm for arm in arms if arm != baseline]
    outcomes = _outcomes(session.start_reference(baseline, 0))
    outcomes |= _outcomes(session.start([(arm, 0) for arm in compiled]))
    for arm in compiled:
        outcomes |= _outcomes(session.build(arm.id))
    outcomes |= _outcomes(session.stop())
    reference = outcomes.get(REFERENCE)
    has_reference = isinstance(reference, Completed)
    for arm in arms:
        # The reference is made by eager PyTorch, so the baseline has no output of its own to check.
        is_reference = arm == baseline or not has_reference
        verdict, reason = verdict_of(reference if is_reference else outcomes.get(arm.id))
        yield ModelSurveyed(
            workflow=arm.workflow,
            model=model.id,
            family=model.family,
            verdict=verdict if has_reference else "untried",
            reason=reason,
        )


def _outcomes(run_events: Iterable[RunEvent]) -> dict[str, Outcome]:
    """Consume the events; return the outcomes of the arms that ended, by arm."""
    return {
        run_event.arm: run_event.outcome
        for run_event in run_events
        if isinstance(run_event, WorkerEnded)
    }
