"""The header of a run, and its state. The table, the JSON, the screens and a resumed run use it."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from advisor.domain import run_events
from advisor.domain.catalogue import Catalogue
from advisor.domain.errors import NotWritableError, UserError, error_of
from advisor.domain.machine import Machine, QuietCheck
from advisor.domain.measurement import Start, Variant
from advisor.domain.plan import REFERENCE, Plan
from advisor.domain.question import Question
from advisor.domain.results import Instant, Platform, RunId
from probes import events
from probes.accuracy import Checked, TextScores, UserMetric
from probes.outcome import Failure, FailureStatus, Outcome, Phase
from probes.shape import Shape


class ProcessState(msgspec.Struct, frozen=True, kw_only=True):
    """State of one worker process."""

    #: 0 in the race, else the number of its repetition.
    repeat: int = 0
    phase: Phase = "start"
    #: Start of the running build, in seconds of the run.
    building_since: float | None = None
    #: How its builds ran; null for builds that ran alone with all processors.
    build_started: run_events.BuildStarted | None = None
    imported: events.Imported | None = None
    opened: events.Opened | None = None
    built: dict[Shape, events.Built] = {}
    checked: dict[Shape, Checked] = {}
    caches: events.Caches | None = None
    engaged: events.Engagement | None = None
    text_scores: TextScores | None = None
    user_metric: UserMetric | None = None
    snippet_facts: events.SnippetFacts | None = None
    warmed_up: dict[Shape, events.WarmedUp] = {}
    #: The first reading, of the built shapes, and the last, after others were tried.
    warm_memory: events.MemoryRead | None = None
    memory: events.MemoryRead | None = None
    device_memory: run_events.DeviceMemory | None = None
    ready: bool = False
    visits: tuple[events.Visited, ...] = ()
    visit_conditions: tuple[run_events.ConditionsRecorded, ...] = ()
    workloads: dict[Shape, events.Workload] = {}
    peaks: events.Peaks | None = None
    sustained: tuple[events.Sustained, ...] = ()
    energy: tuple[run_events.EnergyMeasured, ...] = ()
    serving: events.Serving | None = None
    closed_loops: tuple[events.ClosedLoop, ...] = ()
    texts_sampled: tuple[events.TextsSampled, ...] = ()
    load_blocks: tuple[run_events.LoadMeasured, ...] = ()
    diagnosed: dict[Shape, events.Diagnosed] = {}
    new_shape_results: dict[Shape, events.NewShapeResult] = {}
    #: The new shape that was tried last.
    new_shape_started: events.PhaseStarted | None = None
    outcome: Outcome | None = None
    #: Whether the run stopped while the process was at work: it has no outcome and runs no more.
    is_lost: bool = False
    #: Other arms whose workers held the model when this process ran out of memory before it was
    #: ready.
    residents_at_oom: tuple[str, ...] = ()

    @property
    def build_seconds(self) -> float:
        return sum(built.seconds for built in self.built.values())

    @property
    def failure(self) -> Failure | None:
        return self.outcome.failure if self.outcome else None

    def failed_with(self, *statuses: FailureStatus) -> bool:
        return self.failure is not None and self.failure.status in statuses

    @property
    def completed(self) -> bool:
        return self.outcome is not None and self.outcome.failure is None

    @property
    def invalidates_times(self) -> bool:
        """Whether its outcome invalidates the times of its arm.

        A wrong output and an arm that is not engaged always do. Other failures do not when they
        happen in a repetition or while new shapes are tried.
        """
        failure = self.failure
        if failure is None:
            return False
        if failure.status in {"out-of-memory", "disk-full"} and not self.ready:
            return False  # nothing was timed, and another process of the arm may have more room
        return failure.status in {"incorrect", "nondeterministic", "not-engaged"} or (
            self.repeat == 0 and failure.phase != "new-shapes"
        )


class RaceGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Arms that race together at a shape.

    The numbers of the rounds continue over the groups of a shape.
    """

    arms: tuple[str, ...]
    first_round: int


class RunState(msgspec.Struct, frozen=True, kw_only=True):
    """What the events of a run have shown so far."""

    #: Empty until the first event, `ArmsPlanned`; a stored run is refused without it.
    plan: Plan = Plan(arms=(), excluded=())
    #: The processes of each arm, in the order of their start.
    processes: dict[str, tuple[ProcessState, ...]] = {}
    #: The groups of arms that raced at each shape; there are several if some arms were built after
    #: the first race, or if memory does not hold all arms at once.
    groups: dict[Shape, tuple[RaceGroup, ...]] = {}
    #: The end of the last group's race at each shape; missing while the race is open.
    closed: dict[Shape, run_events.RaceClosed] = {}
    #: The arms of each repetition, by its number.
    repeats: dict[int, tuple[str, ...]] = {}
    #: The starts of each arm in new processes.
    starts: dict[str, tuple[Start, ...]] = {}
    #: The code of each arm with further lines.
    variants: dict[str, tuple[Variant, ...]] = {}
    memory_checked: run_events.MemoryChecked | None = None
    #: The last check of what else runs, before a measurement.
    quiet_check: QuietCheck | None = None
    platforms: tuple[Platform, ...] = ()
    finished: bool = False
    #: When the run was resumed last.
    resumed_at: float = 0.0
    #: How often it was resumed after it had finished.
    times_remeasured: int = 0
    #: Number and time of the last event.
    seq: int = 0
    at: float = 0.0

    @property
    def has_raced(self) -> bool:
        """Whether a race has begun: after the first race there always is an answer."""
        return bool(self.groups)

    @property
    def last_groups(self) -> dict[Shape, tuple[str, ...]]:
        return {shape: groups[-1].arms for shape, groups in self.groups.items()}

    @property
    def baselines(self) -> set[str]:
        """The baseline and its duplicate, which every race group contains."""
        return {self.plan.baseline.id, self.plan.duplicate} - {""}

    @property
    def raced_arms(self) -> set[str]:
        return {arm for groups in self.groups.values() for group in groups for arm in group.arms}

    @property
    def arms_built_before(self) -> set[str]:
        """The arms whose caches hold a finished build."""
        return {arm for arm in self.processes if self.last_ready_process(arm)}

    @property
    def failed_arms(self) -> set[str]:
        """The arms that have ended, or share an artefact that varies, without valid times."""
        return {
            arm
            for arm, processes in self.processes.items()
            if (any(each.outcome for each in processes) and not self.is_valid(arm))
            or self.varying_sibling(arm) is not None
        }

    @property
    def has_reference(self) -> bool:
        """Whether the inputs and the reference outputs are stored."""
        return any(each.completed for each in self.processes.get(REFERENCE, ()))

    @property
    def early_error(self) -> UserError | None:
        """The error of a reference or a baseline that failed before the races, if one did."""
        failure = self.last_process(REFERENCE).failure
        if not self.has_reference and failure is not None and failure.status != "skipped":
            return self.worker_error(REFERENCE)
        baseline = self.plan.baseline.id
        return self.worker_error(baseline) if baseline in self.failed_arms else None

    @property
    def can_go_on(self) -> bool:
        """Whether neither the reference nor the baseline failed for the model.

        A run whose disk was full goes on when there is space.
        """
        return self.early_error is None or isinstance(self.early_error, NotWritableError)

    def worker_error(self, arm: str) -> UserError:
        """Return the error of a reference or a baseline whose last worker has ended."""
        name = f"the {arm}" if arm == REFERENCE else arm
        return error_of(name, self.processes[arm][-1].failure)

    def next_process_number(self, arm: str) -> int:
        return len(self.processes.get(arm, ()))

    def last_process(self, arm: str, repeat: int | None = None) -> ProcessState:
        """Return the arm's process that was started last, of all or of one repetition.

        An empty state stands for none.
        """
        found = [each for each in self.processes.get(arm, ()) if repeat in {None, each.repeat}]
        return found[-1] if found else ProcessState()

    def last_ready_process(self, arm: str, repeat: int | None = None) -> ProcessState | None:
        """Return the last one that became ready, of all or of one repetition; None without one."""
        found = [each for each in self.processes.get(arm, ()) if repeat in {None, each.repeat}]
        return next((each for each in reversed(found) if each.ready), None)

    def is_valid(self, arm: str) -> bool:
        """Return whether the arm was ready and no outcome invalidates its times.

        These are outcomes of its own processes, and varying outputs of an arm with the same
        artefact.
        """
        return (
            self.last_ready_process(arm) is not None
            and not any(each.invalidates_times for each in self.processes[arm])
            and self.varying_sibling(arm) is None
        )

    def varies(self, arm: str) -> bool:
        return any(each.failed_with("nondeterministic") for each in self.processes.get(arm, ()))

    def varying_sibling(self, arm: str) -> str | None:
        """Return another arm with the same artefact whose outputs vary; None without one."""
        own = next((each for each in self.plan.arms if each.id == arm and each.artefact), None)
        alike = (own.workflow, own.artefact) if own else None
        return next(
            (
                each.id
                for each in self.plan.arms
                if each.id != arm
                and (each.workflow, each.artefact) == alike
                and self.varies(each.id)
            ),
            None,
        )


#: The format of `run.json` and of the events.
SCHEMA: Final = "p3-advisor/stored-run/1"


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """`run.json`: everything that the decision depends on besides the events."""

    schema: Literal["p3-advisor/stored-run/1"] = SCHEMA
    run_id: RunId
    created: Instant
    advisor_version: str
    question: Question
    machine: Machine
    catalogue: Catalogue
    #: Whether the run was imported from a file, or its directory is outside the store: its code is
    #: not run and its paths are not opened.
    foreign: bool = False

    @property
    def device_name(self) -> str:
        return self.question.name_device(self.machine)
