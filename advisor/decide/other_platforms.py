"""Results of the same question on other devices, from stored and imported runs."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from advisor.decide import performance_portability, replay
from advisor.decide.arm_states import plan_of
from advisor.decide.rounds import is_valid
from advisor.decide.summary import summarise
from advisor.domain.question import Question
from advisor.domain.results import Platform, Results
from advisor.domain.run import Header
from advisor.domain.run_events import OtherPlatformFound
from advisor.domain.run_state import RunState
from advisor.errors import PlatformError, UserError
from advisor.store.runs import Run
from advisor.store.store import Store


def find_platforms(store: Store, header: Header) -> tuple[OtherPlatformFound, ...]:
    """Return every other device with a finished run of the same work, by its newest run.

    Unreadable runs are skipped.
    """
    platforms: dict[str, Platform] = {}
    for run, other in store.finished_runs(header.question.model.name):
        if (
            other.run_id != header.run_id
            and other.device not in {header.device, *platforms}
            and is_same_work(other.question, header.question)
        ):
            with contextlib.suppress(UserError):
                platforms[other.device] = load_platform(run)
    return tuple(OtherPlatformFound(platform=platform) for platform in platforms.values())


def is_same_work(one: Question, two: Question) -> bool:
    """Return whether two questions measure the same work.

    The precision may differ: devices support different ones.
    """
    facts = [(each.model, each.task, each.batch_sizes, each.lengths) for each in (one, two)]
    return facts[0] == facts[1]


def load_platform(run: Run) -> Platform:
    """Return the results of a stored run as a platform."""
    header, state = run.header(), run.state()
    races = replay.results_by_shape(state, header.question)
    question = header.question
    results = summarise(state, races, dtype=question.dtype, weights=question.weights)
    return platform_of(header, state, results)


def platform_of(header: Header, state: RunState, results: Results) -> Platform:
    """Return the results of a run as a platform."""
    return performance_portability.platform_from_results(
        results,
        header.catalogue.workflows,
        refused=refused_workflows(state),
        name=header.device,
        run=header.run_id,
        created=header.created,
    )


def refused_workflows(state: RunState) -> tuple[str, ...]:
    """Return the workflows that cannot run on the device of a run.

    They are unsupported there, or all their arms have failed.
    """
    plan = plan_of(state)
    unsupported = [entry.workflow for entry in plan.excluded if entry.status == "unsupported"]
    has_completed: dict[str, list[bool]] = {}
    for arm in plan.arms:
        for process in state.processes.get(arm.id, ()):
            if process.outcome is not None:
                completed = process.completed or is_valid(state, arm.id)
                has_completed.setdefault(arm.workflow, []).append(completed)
    failed = [workflow for workflow, completed in has_completed.items() if not any(completed)]
    return (*unsupported, *failed)


def load_platforms(runs: Sequence[Run], header: Header) -> tuple[Platform, ...]:
    """Return the results of these runs as platforms, in this order.

    Raise `PlatformError` for a run of other work, or two runs of one device.
    """
    devices = {header.device}
    for run in runs:
        other = run.header()
        if not is_same_work(other.question, header.question):
            raise PlatformError(
                f"run {other.run_id} measured another model or other sizes",
                "name runs of the same model and sizes",
            )
        if other.device in devices:
            raise PlatformError(
                f"run {other.run_id} is on {other.device} too", "name one run for each device"
            )
        devices.add(other.device)
    return tuple(load_platform(run) for run in runs)
