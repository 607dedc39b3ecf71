"""Without a name, `resume` continues the newest run that can go on."""

from __future__ import annotations

import pathlib

import builders
import pytest

from advisor.decide.decision import decide
from advisor.domain.plan import REFERENCE
from advisor.domain.run_events import Planned, RunEvent, WorkerEnded, WorkerSpawned
from advisor.domain.run_state import resume_command
from advisor.errors import UnknownRunError
from advisor.execute.remaining import newest_resumable
from advisor.store.store import Store
from probes.wire.outcome import Failure, Outcome

REFUSED = Outcome(Failure("model-refused", phase="load", reason="it has no weights"))
FULL = Outcome(Failure("disk-full", phase="load", reason="the disk is full"))


def make_run(store: Store, run_id: str, outcome: Outcome | None = None) -> None:
    """Store an unfinished run, whose reference ended with `outcome` if that is given."""
    run_events: list[RunEvent] = [Planned(plan=builders.plan("compiled"))]
    if outcome is not None:
        run_events += [
            WorkerSpawned(arm=REFERENCE, process=0),
            WorkerEnded(arm=REFERENCE, process=0, outcome=outcome),
        ]
    with store.create(builders.header(run_id=run_id)).writer() as writer:
        for event in builders.events(*run_events):
            writer.append(event)


@pytest.mark.parametrize(
    ("older", "newer", "chosen"),
    [
        (None, None, "newer"),
        (None, REFUSED, "older"),
        (REFUSED, None, "newer"),
        (REFUSED, REFUSED, "newer"),
        (None, FULL, "newer"),
    ],
)
def test_a_run_with_a_failed_model_is_chosen_only_if_no_other_can_go_on(
    older: Outcome | None, newer: Outcome | None, chosen: str, home: pathlib.Path
) -> None:
    store = Store(home)
    ids = {"older": "20261121-000000-0000", "newer": "20261122-000000-0000"}
    make_run(store, ids["older"], older)
    make_run(store, ids["newer"], newer)
    assert newest_resumable(store).directory.name == ids[chosen]


@pytest.mark.parametrize(("outcome", "resumable"), [(None, True), (REFUSED, False), (FULL, True)])
def test_arms_are_measured_by_resuming_only_a_run_that_can_go_on(
    outcome: Outcome | None, resumable: bool, home: pathlib.Path
) -> None:
    store, run_id = Store(home), "20261121-000000-0000"
    make_run(store, run_id, outcome)
    answer = decide(store.find(run_id))
    assert answer.problem is not None
    step = resume_command(run_id) if resumable else answer.problem.next_step
    assert (answer.finished, answer.resumable) == (False, resumable)
    assert {entry.fix for entry in answer.unmeasured if entry.arm == "compiled"} == {step}


def test_without_an_unfinished_run_there_is_nothing_to_resume(home: pathlib.Path) -> None:
    with pytest.raises(UnknownRunError):
        newest_resumable(Store(home))
