"""The JSON document of a run: `--json`, `show --json`. Its keys are a promise to scripts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

import msgspec

from advisor.domain.decision import (
    Evidence,
    Provenance,
    Rating,
    Recommendation,
    ScoredArm,
    TierGap,
)
from advisor.domain.machine import Cpu, Gpu, Interpreter
from advisor.domain.measurement import (
    BuildSeconds,
    CallDiagnosis,
    Cell,
    Interval,
    Measurement,
    MemoryBytes,
    Portability,
    RaceResult,
    Results,
    Survey,
    SustainedCheck,
    VerdictKind,
    Visits,
)
from advisor.domain.outcome import Completed, Failure
from advisor.domain.plan import Arm, Excluded
from advisor.domain.question import Question
from advisor.domain.rubric import Basis
from advisor.domain.run import Header, resumption_of
from advisor.domain.run_state import RunState
from advisor.domain.worker_events import Checked, NewShapeResult, Peaks
from advisor.report.known_faults import find_next_step

if TYPE_CHECKING:
    from advisor.pipeline.decision import Decision

SCHEMA: Final = "p3-advisor/run/1"
#: Stands for the run's id in an answer from published figures: nothing was run, so nothing is
#: stored.
PUBLISHED = "published"

Status = Literal[
    "completed",
    "unsupported",
    "not-installed",
    "build-failed",
    "incorrect",
    "not-engaged",
    "out-of-memory",
    "timed-out",
    "crashed",
    "skipped",
    "excluded",
]


class MachineEntry(msgspec.Struct, frozen=True, kw_only=True):
    """The machine."""

    gpu: tuple[Gpu, ...]
    gpu_problem: str | None
    cpu: Cpu
    kernel: str
    software: Interpreter


class ScoreEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One criterion of one arm."""

    tier: int
    fact: str
    value: float | str | bool | int | None
    rule: str
    evidence: Evidence
    basis: Basis
    source: str
    to_next: tuple[TierGap, ...] | None
    why: str


class Correctness(msgspec.Struct, frozen=True, kw_only=True):
    """What the outputs were compared with, and how far they are from it, by batch size."""

    verdict: Literal["equivalent", "near", "wrong"]
    reference: str
    by_batch_size: tuple[Checked, ...]


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """What holds the arm back at its largest batch size, in words, and the counts behind it for all."""

    words: str
    by_batch_size: tuple[CallDiagnosis, ...]


class WorkflowEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One arm, or a workflow that was not measured."""

    id: str
    options: str | None
    arm: str
    status: Status
    reason: str | None = None
    fix: str | None = None
    evidence: Evidence = "declared"
    verified: tuple[str, ...] = ()
    engaged_share: float | None = None
    engagement: str | None = None
    cells: tuple[Cell, ...] = ()
    speedup: Interval | None = None
    build_seconds: BuildSeconds | None = None
    memory_bytes: MemoryBytes | None = None
    correctness: Correctness | None = None
    diagnosis: Diagnosis | None = None
    #: What came of batch sizes that were not built; null when none was tried.
    flexibility: tuple[NewShapeResult, ...] | None = None
    visits: Visits | None = None
    #: Whether the calls had settled before timing began.
    steady: bool | None = None
    versions: dict[str, str] = {}
    settings: dict[str, str] = {}
    scores: dict[str, ScoreEntry] | None = None
    fails: tuple[str, ...] = ()
    score: float | None = None
    rank: int | None = None


class RaceEntry(msgspec.Struct, frozen=True, kw_only=True):
    """How well the speeds are told apart, over all batch sizes: the weakest verdict, the largest noise."""

    verdict: VerdictKind
    noise_floor: float | None
    rounds: int
    discarded: int
    #: Visits in all, and those that count although the machine was not fit.
    visits: Visits | None = None
    #: Repetitions of the leaders in fresh processes.
    repeats: int = 0
    sustained: SustainedCheck | None = None
    peaks: Peaks | None = None
    by_batch_size: tuple[RaceResult, ...]


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """Why there is no recommendation."""

    name: str
    what: str
    next_step: str


class RunDocument(msgspec.Struct, frozen=True, kw_only=True):
    """Everything about a run."""

    schema: Literal["p3-advisor/run/1"]
    run_id: str
    created: str
    advisor_version: str
    rubric: str
    finished: bool
    #: True for a run that was made on another machine.
    imported: bool = False
    question: Question
    machine: MachineEntry
    workflows: tuple[WorkflowEntry, ...]
    race: RaceEntry | None
    recommendation: Recommendation | None
    problem: Problem | None
    #: What each workflow made of a panel of small models; empty without `--survey`.
    surveys: tuple[Survey, ...] = ()
    #: Over every platform with evidence for this model; null with one.
    portability: Portability | None = None
    #: Set where the answer rests on a run made on another machine.
    provenance: Provenance | None = None
    #: The command that gives this answer again, where it is not that of a stored run.
    again: str | None = None


def compose(decision: Decision) -> RunDocument:
    """Put a run's document together; arms by rank, then those without a measurement, then what was not planned."""
    header, state, results, problem = (
        decision.header,
        decision.state,
        decision.results,
        decision.problem,
    )
    plan = state.plan
    verified = {workflow.id: workflow.verified for workflow in header.catalogue.workflows}
    measurements = {measurement.arm: measurement for measurement in results.measurements}
    evidence: Evidence = "imported" if header.imported else "measured"
    entries = [_measured(arm, measurements[arm.arm], evidence) for arm in decision.scored]
    if plan is not None:
        entries += [
            _failed(arm, state, header)
            for arm in plan.arms
            if arm.duplicate_of is None and arm.id not in measurements
        ]
        entries += [_excluded(entry) for entry in plan.excluded]
    machine = header.machine
    return RunDocument(
        schema=SCHEMA,
        run_id=header.run_id,
        created=header.created,
        advisor_version=header.advisor_version,
        rubric=header.catalogue.rubric.name,
        finished=state.finished,
        imported=header.imported,
        question=header.question,
        machine=MachineEntry(
            gpu=machine.gpus,
            gpu_problem=machine.gpu_problem,
            cpu=machine.cpu,
            kernel=machine.kernel,
            software=machine.software,
        ),
        workflows=tuple(
            msgspec.structs.replace(entry, verified=verified.get(entry.id, ())) for entry in entries
        ),
        race=_race(results, decision.recommendation),
        recommendation=decision.recommendation,
        problem=Problem(name=problem.name, what=problem.what, next_step=problem.next_step)
        if problem
        else None,
        surveys=results.surveys,
        portability=results.portability,
    )


def encode(document: RunDocument) -> str:
    """Return the document as indented JSON with a final line break."""
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode("utf-8") + "\n"


def _measured(scored: ScoredArm, measurement: Measurement, evidence: Evidence) -> WorkflowEntry:
    verdicts = {checked.verdict for checked in measurement.correctness}
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
        correctness=Correctness(
            verdict="wrong"
            if "wrong" in verdicts
            else "near"
            if "near" in verdicts
            else "equivalent",
            reference=measurement.correctness[0].reference if measurement.correctness else "none",
            by_batch_size=measurement.correctness,
        ),
        diagnosis=Diagnosis(
            words=measurement.diagnosis[-1].words, by_batch_size=measurement.diagnosis
        )
        if measurement.diagnosis
        else None,
        flexibility=measurement.flexed or None,
        visits=measurement.visits,
        steady=measurement.steady,
        versions=measurement.versions,
        settings=measurement.settings,
        scores={name: _rated(rating, evidence) for name, rating in scored.ratings.items()},
        fails=scored.fails,
        score=scored.score,
        rank=scored.rank,
    )


def _rated(rating: Rating, evidence: Evidence) -> ScoreEntry:
    changes = {
        "to_next": rating.to_next or None,
        "evidence": evidence if rating.evidence == "measured" else rating.evidence,
    }
    return msgspec.convert(
        {**msgspec.structs.asdict(rating), **changes}, ScoreEntry, from_attributes=True
    )


def _failed(arm: Arm, state: RunState, header: Header) -> WorkflowEntry:
    ends = [
        process.outcome
        for process in state.processes.get(arm.id, ())
        if process.outcome is not None
    ]
    failures = [end for end in ends if not isinstance(end, Completed)]
    if not failures:
        reason, fix = (
            "the run stopped before it was measured",
            None if header.imported else resumption_of(header.run_id),
        )
        return WorkflowEntry(
            id=arm.workflow,
            options=arm.option,
            arm=arm.id,
            status="excluded",
            reason=reason,
            fix=fix,
        )
    failure, status = failures[-1], status_of(failures[-1])
    advice = failure.fix or find_next_step(header, arm.workflow, status)
    return WorkflowEntry(
        id=arm.workflow,
        options=arm.option,
        arm=arm.id,
        status=status,
        reason=failure.reason,
        fix=advice,
    )


def status_of(failure: Failure) -> Status:
    """Return the document's word for a failure."""
    tag = str(failure.__struct_config__.tag)
    return "build-failed" if tag == "model-refused" else msgspec.convert(tag, Status)


def _excluded(entry: Excluded) -> WorkflowEntry:
    return WorkflowEntry(
        id=entry.workflow,
        options=None,
        arm=entry.workflow,
        status=entry.status,
        reason=entry.reason,
        fix=entry.fix,
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
        by_batch_size=results.races,
    )
