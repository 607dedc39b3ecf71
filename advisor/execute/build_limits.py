"""Limit the time of builds, which must be able to pay for themselves in the budget."""

from __future__ import annotations

import collections
import math
from collections.abc import Iterable

from advisor.decide.rounds import more_time
from advisor.domain.errors import OptionValueError
from advisor.domain.plan import Arm
from advisor.domain.question import Question
from advisor.domain.run_state import Header, ProcessState, RunState
from advisor.domain.text import format_number, write_count, write_duration
from advisor.execute.run_in_progress import RunInProgress
from advisor.probing.worker_process import BuildLimit
from probes.outcome import Failure, FailureStatus
from probes.shape import Shape

#: Factor on the seconds of a call of a built arm: calls timed during the warm-up scatter, and the
#: limit must not be too strict.
ALLOWANCE = 1.25
#: Factor on the least seconds of a run: a busy machine takes longer.
SUFFICIENT = 2.0
#: A build that is expected to take this many times its limit is not started.
HOPELESS_FACTOR = 2.0
#: Seconds that the import of a stack takes.
IMPORT_SECONDS = 5.0
#: How arms fail for what they may share with others of their workflow.
SHARED: set[FailureStatus] = {"unsupported", "build-failed", "not-engaged"}


def limit_or_skip(progress: RunInProgress, planned: Arm) -> BuildLimit | Failure | None:
    """Return the limit for the builds of the arm, or its failure if they need not start.

    They must be expected to end while arms are built.
    """
    state, question = progress.state, progress.question
    shared = _shared_failure(state, planned)
    if shared is not None:
        return shared
    limit = limit_build(state, planned.id, question)
    expected_seconds = _expected_seconds(state, planned)
    if expected_seconds is None:
        return limit
    if limit is not None and expected_seconds > HOPELESS_FACTOR * limit.seconds:
        expected = format_number(expected_seconds, digits=2)
        reason = f"not built: {expected} s expected, {limit.shortfall}"
        return Failure("skipped", "build", reason, limit.fix, skip_cause="build-limit")
    left_seconds, needed_seconds = seconds_left(progress), expected_seconds + IMPORT_SECONDS
    if needed_seconds > left_seconds:
        needed, left = (
            format_number(max(each, 0.0), digits=2) for each in (needed_seconds, left_seconds)
        )
        reason = f"not built: {needed} s expected with its import, and {left} s were left"
        fix = more_time(state, question)
        return Failure("skipped", "build", reason, fix, skip_cause="out-of-time")
    return limit


def _shared_failure(state: RunState, planned: Arm) -> Failure | None:
    """Return the failure of another arm of the workflow that this one would have, too.

    Arms of the same precisions open the same models, and those with one artefact build the same.
    What runs nothing without options runs nothing with them. Where two arms failed alike, it is for
    what they share.
    """
    alike = collections.Counter[tuple[str, str]]()
    for other in state.plan.arms:
        failure = state.last_process(other.id).failure
        if (
            failure is None
            or other.workflow != planned.workflow
            or other.id == planned.id
            or failure.status not in SHARED
        ):
            continue
        alike[failure.status, failure.reason] += 1
        opens_same_models = failure.phase == "open" and other.dtypes == planned.dtypes
        builds_same = bool(planned.artefact) and other.artefact == planned.artefact
        if (
            (opens_same_models and failure.status == "unsupported")
            or (builds_same if failure.status != "not-engaged" else not other.options)
            or alike[failure.status, failure.reason] > 1
        ):
            return failure
    return None


def _expected_seconds(state: RunState, planned: Arm) -> float | None:
    """Return how long the build may take, by those of the workflow that this run has made.

    It takes no less than the quickest of them: what is known of earlier runs may be of small
    models.
    """
    if planned.expected_build_seconds is None:
        return None
    made = [
        (state.last_process(each.id).build_seconds, each.expected_build_seconds)
        for each in state.plan.arms
        if each.workflow == planned.workflow and state.is_valid(each.id)
    ]
    slowness = max((seconds / expected for seconds, expected in made if expected), default=1.0)
    quickest = min((seconds for seconds, _ in made), default=0.0)
    return max(planned.expected_build_seconds * slowness, quickest)


def seconds_left(progress: RunInProgress) -> float:
    """Set no limit before the first race: an arm to compare with is worth its time."""
    return progress.races_end - progress.clock() if progress.state.has_raced else math.inf


def refuse_short_budget(arms: Iterable[Arm], header: Header) -> None:
    """Raise `OptionValueError` if no second arm is expected to be built, as far as known."""
    question, limits = header.question, header.catalogue.presets.builds
    baseline, *others = (each for each in arms if each.duplicate_of is None)
    builds = [each.expected_build_seconds for each in others]
    known = [each for each in builds if each is not None]
    first = baseline.expected_build_seconds
    if question.serves or first is None or not known or len(known) < len(builds):
        return
    least = (limits.first_build_seconds + first + min(known)) / question.budget.race_share
    if question.seconds < least:
        raise OptionValueError(
            f"--budget {question.budget.name} is too short: starting, building and checking two"
            f" workflows is expected to take {least:.0f} s or more",
            f"use --budget {write_duration(SUFFICIENT * least)}: other work may double the time",
        )


def limit_build(state: RunState, arm: str, question: Question) -> BuildLimit | None:
    """Return the build seconds of `arm` that the requested number of requests cannot pay back.

    After these seconds a built arm would have served all requests, even if the calls of `arm` took
    no time. None for the controls, and if no number of requests is given or no arm is built.
    """
    built = [
        next(process for process in state.processes[other.id] if process.ready)
        for other in state.plan.arms
        if other.id != arm and state.is_valid(other.id)
    ]
    if question.requests is None or not built or arm in state.controls:
        return None
    seconds = max(
        min(_seconds_to_serve(question.requests, process, shape) for process in built)
        for shape in question.shapes
    )
    return BuildLimit(
        seconds,
        f"builds of more than {seconds:.3g} s cannot be paid back: by then another arm has served "
        "all requests, even if the calls of this one took no time",
        "ask for more with --requests, or leave it out to compare speeds alone",
        f"which {write_count(f'{question.requests:,}', 'request')} cannot repay",
    )


def _seconds_to_serve(requests: int, process: ProcessState, shape: Shape) -> float:
    call_seconds = ALLOWANCE * process.warmed_up[shape].typical_seconds
    return process.build_seconds + requests * call_seconds / shape.batch_size
