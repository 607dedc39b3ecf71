"""Compose the JSON document of a measured run from its decision."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from advisor.domain.accuracy import worst_check
from advisor.domain.artefacts import varying_sibling
from advisor.domain.check_events import Checked
from advisor.domain.measurement import Cell, Measurement, TimedVisit
from advisor.domain.outcome import Completed
from advisor.domain.plan import Arm, Excluded
from advisor.domain.recommendation import Recommendation
from advisor.domain.results import Results
from advisor.domain.run import resume_command
from advisor.domain.run_state import RunState
from advisor.domain.scores import Evidence, ScoredArm
from advisor.domain.serving import ServedArm
from advisor.domain.workflow import Workflow
from advisor.measure.rounds import counted_visits
from advisor.report.documents.document import SCHEMA, MachineEntry, Problem, RaceEntry, RunDocument
from advisor.report.documents.known_faults import find_next_step
from advisor.report.documents.measured_inputs import read_inputs
from advisor.report.documents.missing_modules import find_install_step
from advisor.report.documents.trade_off import find_trade_offs
from advisor.report.documents.workflow_entry import (
    Adoption,
    Correctness,
    Diagnosis,
    ScoreEntry,
    WorkflowEntry,
    status_of,
)
from advisor.system.number_format import format_share

if TYPE_CHECKING:
    from advisor.pipeline.decision import Decision


def compose(decision: Decision, *, with_times: bool = False) -> RunDocument:
    """Return the run's document: arms by rank, arms without a measurement, excluded workflows.

    `with_times` adds the seconds of every call that counts.
    """
    header, results, problem = decision.header, decision.results, decision.problem
    arms = {arm.id: arm for arm in decision.state.plan.arms} if decision.state.plan else {}
    workflows = {workflow.id: workflow for workflow in header.catalogue.workflows}
    entries = tuple(
        msgspec.structs.replace(
            entry,
            verified=workflows[entry.id].verified if entry.id in workflows else (),
            title=title_of(entry, workflows),
            adoption=adoption_of(entry, workflows),
            numerics=arms[entry.arm].numerics if entry.arm in arms else "native",
            weights=arms[entry.arm].weights if entry.arm in arms else None,
            cells=_cells_with_times(entry, decision.state) if with_times else entry.cells,
        )
        for entry in _entries(decision)
    )
    return RunDocument(
        schema=SCHEMA,
        run_id=header.run_id,
        created=header.created,
        advisor_version=header.advisor_version,
        rubric=header.catalogue.rubric.name,
        finished=decision.state.finished,
        in_progress=decision.in_progress,
        resumable=None if decision.state.finished else decision.is_resumable,
        imported=header.imported,
        question=header.question,
        machine=MachineEntry.of(header.machine),
        workflows=entries,
        race=_race(results, decision.recommendation),
        recommendation=decision.recommendation,
        problem=Problem.of(problem),
        surveys=results.surveys,
        portability=results.portability,
        load_check=decision.state.load_check,
        serving=results.serving,
        trade_off=find_trade_offs(entries),
        stopped_builds=results.stopped_builds,
        inputs=read_inputs(decision.state),
    )


def title_of(entry: WorkflowEntry, workflows: Mapping[str, Workflow]) -> str:
    """Return what texts call the arm; empty for an unknown workflow."""
    return workflows[entry.id].title_of(entry.arm) if entry.id in workflows else ""


def adoption_of(entry: WorkflowEntry, workflows: Mapping[str, Workflow]) -> Adoption | None:
    """Return what adopting the arm takes; None without figures, or for an unknown workflow."""
    if entry.speedup is None or entry.id not in workflows:
        return None
    return Adoption.of(workflows[entry.id].for_arm(entry.options or "default"))


def _cells_with_times(entry: WorkflowEntry, state: RunState) -> tuple[Cell, ...]:
    return tuple(
        msgspec.structs.replace(
            cell,
            times=tuple(
                TimedVisit(process=repeat, round=visit.round, seconds=visit.seconds)
                for repeat, visit in counted_visits(state, entry.arm, cell.batch_size)
            ),
        )
        for cell in entry.cells
    )


def _entries(decision: Decision) -> list[WorkflowEntry]:
    header, plan = decision.header, decision.state.plan
    measurements = {measurement.arm: measurement for measurement in decision.results.measurements}
    evidence: Evidence = "imported" if header.imported else "measured"
    entries = [_measured_entry(arm, measurements[arm.arm], evidence) for arm in decision.scored]
    if plan is None:
        return entries
    unmeasured = [
        _unmeasured_entry(arm, decision)
        for arm in plan.arms
        if arm.duplicate_of is None and arm.id not in measurements
    ]
    return [*entries, *unmeasured, *map(_excluded_entry, plan.excluded)]


def _measured_entry(
    scored: ScoredArm, measurement: Measurement, evidence: Evidence
) -> WorkflowEntry:
    return WorkflowEntry(
        id=measurement.workflow,
        options=measurement.option,
        arm=measurement.arm,
        status="completed",
        evidence=evidence,
        engaged_share=measurement.engaged_share,
        engagement=measurement.engagement,
        cells=measurement.cells,
        speedup=measurement.speedup,
        build_seconds=measurement.build_seconds,
        memory_bytes=measurement.memory_bytes,
        weight_bytes=measurement.weight_bytes,
        correctness=_correctness(measurement.correctness),
        trained_loss=measurement.trained_loss,
        diagnosis=Diagnosis(
            summary=measurement.diagnosis[-1].summary, by_batch_size=measurement.diagnosis
        )
        if measurement.diagnosis
        else None,
        flexibility=measurement.new_shape_results or None,
        visits=measurement.visits,
        steady=measurement.steady,
        versions=measurement.versions,
        settings=measurement.settings,
        scores={name: ScoreEntry.of(rating, evidence) for name, rating in scored.ratings.items()},
        failed_constraints=scored.failed_constraints,
        score=scored.score,
        rank=scored.rank,
    )


def _correctness(checks: tuple[Checked, ...]) -> Correctness:
    worst = worst_check(checks)
    return Correctness(
        verdict=worst.verdict if worst else "equivalent",
        accuracy_class=worst.accuracy_class if worst else "exact",
        reference=checks[0].reference if checks else "none",
        by_batch_size=checks,
    )


def _unmeasured_entry(arm: Arm, decision: Decision) -> WorkflowEntry:
    state, header = decision.state, decision.header
    outcomes = [process.outcome for process in state.processes.get(arm.id, ())]
    failures = [
        outcome
        for outcome in outcomes
        if outcome is not None and not isinstance(outcome, Completed)
    ]
    if not failures:
        return _entry_without_outcome(arm, decision)
    failure, status = failures[-1], status_of(failures[-1])
    checks = state.processes[arm.id][-1].checked
    return WorkflowEntry(
        id=arm.workflow,
        options=arm.option,
        arm=arm.id,
        status=status,
        reason=failure.reason,
        fix=failure.fix
        or find_install_step(header, arm.workflow, failure)
        or find_next_step(header, arm.workflow, status),
        correctness=_correctness(tuple(checked for _, checked in sorted(checks.items())))
        if checks
        else None,
    )


def _entry_without_outcome(arm: Arm, decision: Decision) -> WorkflowEntry:
    """Return the entry of an arm that did not fail and has no figures."""
    serving, header = decision.results.serving, decision.header
    served = next((each for each in serving.arms if each.arm == arm.id), None) if serving else None
    sibling = varying_sibling(decision.state, arm.id)
    if sibling is None and served is not None:
        return _too_slow_entry(arm, served)
    entry = WorkflowEntry(
        id=arm.workflow,
        options=arm.option,
        arm=arm.id,
        status="excluded",
        reason="the run stopped before this arm was measured",
        fix=_measuring_step(decision),
    )
    if sibling is None:
        return entry
    return msgspec.structs.replace(
        entry,
        status="nondeterministic",
        reason=f"it runs the same artefact as {sibling}, whose outputs vary",
        fix=find_next_step(header, arm.workflow, "nondeterministic"),
    )


def _measuring_step(decision: Decision) -> str | None:
    """Return how the arms that the run did not come to are measured; None on another machine."""
    if decision.header.imported:
        return None
    if decision.problem is not None and not decision.is_resumable:
        return decision.problem.next_step
    return resume_command(decision.header.run_id)


def _too_slow_entry(arm: Arm, served: ServedArm) -> WorkflowEntry:
    """Return the entry of a server that meets the limits at no rate that was tried."""
    slowest = min(served.levels, key=lambda level: level.rate, default=None)
    met = (
        f"; at {slowest.rate:.3g} requests/s {format_share(slowest.met)} of them do"
        if slowest
        else ""
    )
    return WorkflowEntry(
        id=arm.workflow,
        options=arm.option,
        arm=arm.id,
        status="excluded",
        reason=f"too few requests meet the limits at every rate that was tried{met}",
        fix="allow more with --ttft and --itl, or choose shorter requests with --lengths",
        evidence="measured",
    )


def _excluded_entry(excluded: Excluded) -> WorkflowEntry:
    return WorkflowEntry(
        id=excluded.workflow,
        options=None,
        arm=excluded.workflow,
        status=excluded.status,
        reason=excluded.reason,
        fix=excluded.fix,
    )


def _race(results: Results, recommendation: Recommendation | None) -> RaceEntry | None:
    if not results.races:
        return None
    return RaceEntry(
        verdict=recommendation.verdict if recommendation else "INCONCLUSIVE",
        noise_floor=results.noise_floor,
        rounds=max(race.rounds for race in results.races),
        discarded=results.visits.discarded,
        visits=results.visits,
        repeats=results.repeats,
        sustained=results.sustained,
        peaks=results.peaks,
        host=results.host,
        by_batch_size=results.races,
    )
