"""Evidence from other devices: runs in the store that were made where this one was not, imported ones among them."""

from __future__ import annotations

from collections.abc import Sequence

from advisor import measure, recommend
from advisor.domain.measurement import Platform, Results
from advisor.domain.outcome import Completed
from advisor.domain.question import Question
from advisor.domain.run import Header
from advisor.domain.run_events import PlatformKnown
from advisor.domain.run_state import RunState
from advisor.errors import PlatformError, UserError
from advisor.pipeline import replay
from advisor.pipeline.arms import plan_of
from advisor.score import performance_portability
from advisor.store import Run, Store


def recall(store: Store, header: Header) -> tuple[PlatformKnown, ...]:
    """Return every other device on which a finished run has measured the same model and sizes, by its newest run."""
    platforms: dict[str, Platform] = {}
    for entry in store.history():
        if (
            entry.finished
            and entry.model == header.question.model.name
            and entry.run_id != header.run_id
        ):
            try:
                run = store.find(entry.run_id)
                other = run.header()
                if is_same_question(other.question, header.question) and other.device not in {
                    header.device,
                    *platforms,
                }:
                    platforms[other.device] = read(run)
            except UserError:
                continue
    return tuple(PlatformKnown(platform=platform) for platform in platforms.values())


def is_same_question(one: Question, two: Question) -> bool:
    """Say whether two runs measure the same work; precision may differ, as devices have their own."""
    facts = [
        (asked.model, asked.task, asked.batch_sizes, asked.input_tokens, asked.output_tokens)
        for asked in (one, two)
    ]
    return facts[0] == facts[1]


def read(run: Run) -> Platform:
    """Return a stored run as a platform."""
    header, state = run.header(), run.state()
    races = replay.results_by_batch_size(state, header.question)
    results = measure.summarise(state, races, dtype=header.question.dtype, margin=recommend.EPSILON)
    return describe(header, state, results)


def describe(header: Header, state: RunState, results: Results) -> Platform:
    """Return a run's results as a platform."""
    return performance_portability.describe(
        results,
        header.catalogue.workflows,
        refused=refused_workflows(state),
        name=header.device,
        run=header.run_id,
        created=header.created,
    )


def refused_workflows(state: RunState) -> tuple[str, ...]:
    """Return the workflows that cannot run there: known limits, and those all of whose arms have failed."""
    plan = plan_of(state)
    limits = [entry.workflow for entry in plan.excluded if entry.status == "unsupported"]
    ended: dict[str, list[bool]] = {}
    for arm in plan.arms:
        for process in state.processes.get(arm.id, ()):
            if process.outcome is not None:
                ended.setdefault(arm.workflow, []).append(isinstance(process.outcome, Completed))
    return (*limits, *(workflow for workflow, completed in ended.items() if not any(completed)))


def named(runs: Sequence[Run], header: Header) -> tuple[Platform, ...]:
    """Return these runs as platforms, in this order; raise `PlatformError` for one that cannot stand beside the run of `header`."""
    seen = {header.device}
    for run in runs:
        other = run.header()
        if not is_same_question(other.question, header.question):
            raise PlatformError(
                f"run {other.run_id} measured another model or other sizes",
                "name runs of the same model and sizes",
            )
        if other.device in seen:
            raise PlatformError(
                f"run {other.run_id} is on {other.device} too", "name one run for each device"
            )
        seen.add(other.device)
    return tuple(read(run) for run in runs)
