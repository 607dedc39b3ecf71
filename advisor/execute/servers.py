"""Measure servers under load: one after the other, then the contenders again in fresh processes.

The first time the goodput is searched; the second time, in reverse order, blocks near it and at
shares of it are measured. An arm that cannot lead is searched coarsely and not measured again. Only
one server runs at a time. The load generator has processors of its own.
"""

from __future__ import annotations

from collections.abc import Iterator

from advisor.decide.arm_states import plan_of
from advisor.decide.baseline_failure import baseline_error, has_reference
from advisor.domain.catalogue import Catalogue
from advisor.domain.machine import Machine
from advisor.domain.plan import BASELINE, REFERENCE, SERVING_BASELINE, Arm
from advisor.domain.run import Header
from advisor.domain.run_events import LoggedEvent, RepetitionStarted
from advisor.domain.run_state import RunState
from advisor.errors import EnvironmentNotUsableError, NoStackError
from advisor.execute.load_blocks import LoadedRun
from advisor.execute.recorder import Recorder
from advisor.execute.server_load import REPEAT, SEARCH, ServerLoad
from advisor.probing.run_config import RunConfig
from advisor.probing.session import Session

#: The worker that makes weights, prompts and reference texts runs eager PyTorch.
REFERENCE_ARM = Arm(
    id=BASELINE, workflow=BASELINE, option="default", options={}, eager_fallback=False
)


def measure_servers(
    session: Session, recorder: Recorder, header: Header, config: RunConfig
) -> Iterator[LoggedEvent]:
    """Measure every arm's server; raise `NothingViableError` if the reference fails.

    What an earlier execution of the run has measured is not repeated.
    """
    question, rules = header.question, header.catalogue.serving
    if question.load is None or rules is None:
        message = "a run without a load has no servers"
        raise ValueError(message)
    yield from _make_reference(session, recorder)
    python = find_interpreter(header.catalogue, header.machine)
    loaded = LoadedRun(session, recorder, question.load, rules, config)
    load = ServerLoad(loaded, python)
    # The usual baseline is the slowest one as a rule. Once a faster one is known, it needs few
    # blocks.
    planned = plan_of(recorder.state).arms
    arms = sorted(planned, key=lambda arm: arm.workflow == SERVING_BASELINE)
    for arm in arms:
        if not is_complete(recorder.state, arm.id, SEARCH):
            yield from load.measure_arm(arm, SEARCH)
    found = [arm for arm in arms if load.goodput(arm) is not None]
    contenders = [arm for arm in reversed(found) if load.may_lead(arm)]
    if contenders and REPEAT not in recorder.state.repeats:
        names = tuple(arm.id for arm in contenders)
        yield recorder.record(RepetitionStarted(repeat=REPEAT, arms=names))
    for arm in contenders:
        if not is_complete(recorder.state, arm.id, REPEAT):
            yield from load.measure_arm(arm, REPEAT)


def _make_reference(session: Session, recorder: Recorder) -> Iterator[LoggedEvent]:
    """Let the reference worker make checkpoint, prompts and texts, unless it has."""
    if not has_reference(recorder.state):
        number = len(recorder.state.processes.get(REFERENCE, ()))
        yield from recorder.record_each(session.start_reference(REFERENCE_ARM, number))
        yield from recorder.record_each(session.start([]))
        yield from recorder.record_each(session.finish_reference())
    if not has_reference(recorder.state):
        raise baseline_error(recorder.state, REFERENCE)


def is_complete(state: RunState, arm: str, repeat: int) -> bool:
    """Return whether a process of this pass has ended by itself, or has failed."""
    processes = [each for each in state.processes.get(arm, ()) if each.repeat == repeat]
    if not processes or processes[-1].outcome is None:
        return False
    return processes[-1].failure is not None or bool(processes[-1].load_blocks)


def find_interpreter(catalogue: Catalogue, machine: Machine) -> str:
    """Return the interpreter of the load generator.

    Raise `EnvironmentNotUsableError` where its environment is missing or does not work.
    """
    names = [each.load_generator.name for each in catalogue.workflows if each.load_generator]
    if not names:
        raise NoStackError(
            "the catalogue has no workflow with a load generator", "restore rubric/workflows.toml"
        )
    created = machine.environments.get(names[0])
    if created is None or created.fault:
        problem = created.fault if created else "it has not been created"
        raise EnvironmentNotUsableError(
            f"the environment {names[0]}, which sends the requests, cannot be used: {problem}",
            f"p3-advisor env create {names[0]}",
        )
    return created.python
