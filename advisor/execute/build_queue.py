"""Choose the next build where several arms are built at the same time.

Arms that cannot lead need no build.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from advisor.decide.unmeasured import Potential, potential_of
from advisor.domain.answer import Answer
from advisor.domain.catalogue import Catalogue
from advisor.domain.plan import Arm
from advisor.domain.question import Question
from advisor.domain.results import ScoredArm
from advisor.domain.run_state import RunState
from advisor.execute import build_limits, racing, remaining
from advisor.execute.build_limits import IMPORT_SECONDS
from advisor.execute.run_in_progress import RunInProgress
from advisor.probing.side_by_side import NextBuild
from advisor.probing.worker_failures import skipped_by_user
from probes.outcome import Failure

#: A build that takes this many times its expected seconds may hang.
OVERDUE = 2.5
#: With so many processors for each, builds side by side end sooner than one after the other. With
#: four, the build of a U-Net for one shape took 29 s beside three others, and 20 s beside one.
PROCESSORS_OF_A_BUILD = 5
#: What a user can do about an arm that is not built because it cannot lead.
ALL_ARMS = "ask again with p3-advisor recommend --all-arms"


class _Place(NamedTuple):
    """The place of an arm in the order of builds, by its first field that differs: False first."""

    exceeds_limit: bool
    is_no_duplicate: bool
    builds_alone: bool
    waits_for_memory: bool
    never_ran_out_of_memory: bool
    follows_its_workflow: bool
    negative_promise: float


def order_builds(arms: Sequence[Arm], state: RunState, question: Question) -> list[Arm]:
    """Return the arms in build order: among equals, those that promise most for their seconds.

    Of each workflow that has not raced, one arm precedes those of workflows that have a figure: one
    that the model calls for, if there is any.
    The duplicate precedes all others, because every race needs it, and arms of an open race precede
    those that wait for memory. Arms that must be built alone follow the others. Arms whose builds
    are expected to exceed their limit come last: they cannot change the answer.
    """
    waiting = remaining.waiting_arms(state, question)
    out_of_memory = remaining.oom_beside_others(state)

    raced = state.raced_arms
    known = {each.workflow for each in state.plan.arms if each.id in raced}
    first: dict[str, str] = {}
    for each in sorted(arms, key=_rank):
        first[each.workflow] = each.id

    def place_of(planned: Arm) -> _Place:
        seconds = planned.expected_build_seconds
        limit = build_limits.limit_build(state, planned.id, question)
        is_first = planned.workflow not in known and first[planned.workflow] == planned.id
        return _Place(
            exceeds_limit=limit is not None and seconds is not None and seconds > limit.seconds,
            is_no_duplicate=planned.duplicate_of is None,
            builds_alone=planned.builds_alone,
            waits_for_memory=planned.id in waiting,
            never_ran_out_of_memory=planned.id not in out_of_memory,
            follows_its_workflow=not is_first,
            negative_promise=-_promise(planned),
        )

    return sorted(arms, key=place_of)


def may_outdo(one: Arm, other: Arm) -> bool:
    """Return whether a race of `one` may show that `other`, of its workflow, cannot lead."""
    return one.workflow == other.workflow and _gain(one) >= _gain(other)


def _gain(planned: Arm) -> tuple[bool, float]:
    gain = planned.possible_gain
    return planned.called_for is not None, -math.inf if gain is None else gain


def _rank(planned: Arm) -> tuple[bool, float]:
    """Return by what the arms of one workflow are ordered, the largest first."""
    return planned.called_for is not None, _promise(planned)


def _promise(planned: Arm) -> float:
    """Return what the arm may gain for a second of its build, or of its import if that is longer.

    Arms that can gain nothing follow, then those that are not known.
    """
    gain, seconds = planned.possible_gain, planned.expected_build_seconds
    if gain is None or seconds is None:
        return -math.inf
    return gain / max(seconds, IMPORT_SECONDS) if gain > 0 else gain


def waits_for_race(planned: Arm, ahead: Sequence[Arm], progress: RunInProgress) -> bool:
    """Return whether a race of the arms `ahead` may save the build of this one.

    An arm that is not known to gain waits for any that is, another for one of its workflow that
    promises as much, unless it can be built without a delay of others.
    """
    state = progress.state
    if not skips_losing_arms(progress.question) or planned.id in state.controls:
        return False
    rivals = [each for each in ahead if may_save_builds(each, state)]
    if _promise(planned) <= 0:
        return bool(rivals)
    if is_quick(planned) or _has_processors_for([planned, *ahead], progress):
        return False
    is_running = progress.session.is_running(planned.id)
    return any(promises_as_much(each, planned, is_running=is_running) for each in rivals)


def may_save_builds(rival: Arm, state: RunState) -> bool:
    """Return whether a race of this arm may soon show that others cannot lead.

    An arm whose build takes far longer than expected may hang.
    """
    return rival.id not in state.controls and _promise(rival) > 0 and not is_overdue(rival, state)


def is_quick(planned: Arm) -> bool:
    """Return whether the build takes no longer than an import."""
    seconds = planned.expected_build_seconds
    return seconds is not None and seconds <= IMPORT_SECONDS


def promises_as_much(rival: Arm, planned: Arm, *, is_running: bool) -> bool:
    """Return whether `rival`, of the workflow of `planned`, promises as much for its seconds.

    An arm that the model calls for precedes the others, but not one whose worker `is_running`: it
    still has to import.
    """
    if rival.workflow != planned.workflow:
        return False
    if is_running:
        return _promise(rival) >= _promise(planned)
    return _rank(rival) >= _rank(planned)


def _has_processors_for(arms: Iterable[Arm], progress: RunInProgress) -> bool:
    is_built = progress.session.is_built
    builds = sum(not is_quick(each) and not is_built(each.id) for each in arms)
    processors = progress.header.machine.cpu.usable_processors
    return builds * PROCESSORS_OF_A_BUILD <= processors


def is_overdue(planned: Arm, state: RunState) -> bool:
    since, seconds = state.last_process(planned.id).building_since, planned.expected_build_seconds
    return since is not None and seconds is not None and state.at - since > OVERDUE * seconds


def without_waiting(arms: Iterable[Arm], progress: RunInProgress) -> list[Arm]:
    """Return the arms, in their order, that wait for no race of one before them."""
    chosen: list[Arm] = []
    for planned in arms:
        if not waits_for_race(planned, chosen, progress):
            chosen.append(planned)
    return chosen


def missing_shapes(progress: RunInProgress, arm: str) -> int:
    return len(progress.question.shapes) - len(progress.state.last_process(arm).built)


def skips_losing_arms(question: Question) -> bool:
    """Return whether arms that cannot lead are left out: the user did not ask for them."""
    return question.budget.skips_losing_arms and not question.all_arms and not question.workflows


@dataclasses.dataclass
class BuildQueue:
    """The arms that wait for a build, and the conditions under which the next one starts."""

    progress: RunInProgress
    waiting: list[Arm]
    #: Number of builds that run at the same time, and the arms whose builds run already.
    builds_at_once: int
    building: list[str]
    #: Whether builds start before the first calls of the baseline show its memory.
    starts_at_once: bool = False
    #: Arms that are not built: the user skips them, or no time is left.
    skipped: list[tuple[Arm, Failure]] = dataclasses.field(default_factory=list)
    started: list[Arm] = dataclasses.field(default_factory=list)
    _runs_alone: bool = False

    def choose(self, running: int) -> NextBuild | None:
        """Return the next build; None while it has to wait, or when the others wait for a group."""
        while (planned := self._next_arm()) is not None and self._may_start(planned, running):
            is_baseline = planned == self.progress.state.plan.baseline
            if not (is_baseline or self.starts_at_once or self._is_measured()):
                return None
            self.waiting.remove(planned)
            progress, state = self.progress, self.progress.state
            is_running = progress.session.is_running(planned.id)
            if not is_running and progress.session.has_started(planned.id):
                continue  # its import failed
            limit = build_limits.limit_or_skip(progress, planned)
            if isinstance(limit, Failure):
                self.skipped.append((planned, limit))
                continue
            expected_seconds_left = self._expected_seconds_left(planned)
            self.started.append(planned)
            return NextBuild(
                planned,
                None if is_running else state.next_process_number(planned.id),
                limit,
                keeps_caches=planned.id in state.arms_built_before,
                expected_seconds_left=expected_seconds_left,
            )
        return None

    def leave_to_user(self) -> bool:
        """Take the arms that the user skips out of the queue; return whether there are any."""
        to_skip, is_running = self.progress.to_skip, self.progress.session.is_running
        arms = [each for each in self.waiting if each.id in to_skip and not is_running(each.id)]
        self.skipped += [(each, skipped_by_user("start")) for each in arms]
        self.waiting = [each for each in self.waiting if each not in arms]
        return bool(arms)

    def _next_arm(self) -> Arm | None:
        raced = self.progress.state.raced_arms
        ahead = [each for each in self._begun() if each.id not in raced]
        return next(
            (one for one in self.waiting if not waits_for_race(one, ahead, self.progress)), None
        )

    def _begun(self) -> list[Arm]:
        """Return the arms whose builds run or have finished in this stretch."""
        plan = self.progress.state.plan
        begun = [*(each for each in plan.arms if each.id in self.building), *self.started]
        return [each for each in begun if self.progress.session.is_running(each.id)]

    def _is_measured(self) -> bool:
        """Return whether the baseline has made its first calls, so that its memory is known."""
        baseline = self.progress.state.plan.baseline.id
        has_started = bool(self.progress.state.processes.get(baseline))
        return not has_started or not missing_shapes(self.progress, baseline)

    def _expected_seconds_left(self, planned: Arm) -> float | None:
        session = self.progress.session
        running = [each for each in self._begun() if not session.is_prepared(each.id)]
        seconds = [each.expected_build_seconds for each in (planned, *running, *self.waiting)]
        known = [each for each in seconds if each is not None]
        if len(known) < len(seconds):
            return None
        return round(max(*known, sum(known) / self.builds_at_once), 1)

    def _may_start(self, planned: Arm, running: int) -> bool:
        """Return whether memory and the builds that run allow the build of this arm.

        While an arm is built whose stack requires it, or that ran out of memory next to others, no
        other build runs.
        """
        session, state = self.progress.session, self.progress.state
        out_of_memory = remaining.oom_beside_others(state)
        needs_all = planned.builds_alone or planned.id in out_of_memory
        if running:
            return (
                not self._runs_alone
                and not needs_all
                and session.headroom.fits_another_worker(running)
            )
        self._runs_alone = needs_all
        is_first = not self.started and not has_new_arm(self.progress)
        return is_first or session.headroom.fits_another_worker()


def has_new_arm(progress: RunInProgress) -> bool:
    """Return whether an arm that has not raced is built."""
    known = progress.state.raced_arms | progress.state.controls
    return not known.issuperset(racing.built_arms(progress))


def arms_that_cannot_lead(answer: Answer, catalogue: Catalogue) -> dict[str, Failure]:
    """Return the arms without a measurement that cannot score more than the advised arm.

    Each has the reason. None where the budget builds all arms, where the user named workflows, and
    while the decision is OPEN.
    """
    question, advice = answer.question, answer.recommendation
    if (
        not skips_losing_arms(question)
        or answer.advised is None
        or advice is None
        or advice.decision.word not in {"CLEAR", "LIKELY"}
    ):
        return {}
    advised = answer.advised.scored
    least = advised.score + advised.bonus + catalogue.rubric.decision.near
    found = {
        each.arm: potential_of(each, answer, catalogue)
        for each in answer.unmeasured
        if each.option is not None and each.status == "excluded"
    }
    return {
        arm: Failure("skipped", "build", _reason(each, advised), ALL_ARMS, skip_cause="cannot-lead")
        for arm, each in found.items()
        if each is not None and each.score <= least
    }


def _reason(found: Potential, advised: ScoredArm) -> str:
    most = (
        f"not built: {found.speedup:.2g}x and {found.score:.2f} points at most, where {advised.arm}"
        f" has {advised.score:.2f} at the weights of the run"
    )
    if found.gain is None:
        return most
    gain = f"at most {found.gain.largest:.2g}x as fast as {found.sibling}"
    return f"{most}; it was {gain} in {found.gain.runs} runs"
