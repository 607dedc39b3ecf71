"""A stack that works against the program ends as an outcome, and the rest of the run completes."""

from __future__ import annotations

import os
import pathlib
import random
import shutil

import psutil
import pytest
import sessions

from advisor.context import Context
from advisor.domain.run_state import RunState
from advisor.question.answers import Answers
from advisor.store.store import Store
from probes.wire.outcome import Outcome

pytestmark = pytest.mark.slow

#: By option of the workflow `misbehaving`: the status, and a part of the reason.
HOSTILE = {
    "not-text": ("crashed", "cannot be read"),
    "ignores-signals": ("timed-out", "build"),
    "stops-itself": ("timed-out", "build"),
    "takes-all-memory": ("out-of-memory", "MemoryError"),
    "removes-its-directory": ("crashed", "was removed"),
    "closes-its-files": ("build-failed", "Bad file descriptor"),
}
HARMLESS = ("changes-directory", "starts-many")
ARMS = "[workflow.misbehaving.arms]\n"


@pytest.fixture(scope="module")
def state(
    tmp_path_factory: pytest.TempPathFactory, fake_probes: pathlib.Path, fake_rubric: pathlib.Path
) -> RunState:
    """The state of a run with one arm for each hostile act."""
    place = tmp_path_factory.mktemp("hostile")
    shutil.copytree(fake_rubric, place / "rubric")
    workflows = place / "rubric" / "workflows.toml"
    added = "".join(f'{name} = {{ fault = "{name}" }}\n' for name in (*HOSTILE, *HARMLESS))
    workflows.write_text(workflows.read_text().replace(ARMS, ARMS + added))
    context = Context(
        environment=dict(os.environ),
        store=Store(place / "home"),
        random=random.Random(0),
        probes=fake_probes,
        rubric=place / "rubric",
    )
    arms = ",".join(f"misbehaving/{name}" for name in (*HOSTILE, *HARMLESS))
    answers = Answers(batch_sizes="2", budget="4", max_build_seconds=2.0, workflows=f"quick,{arms}")
    return sessions.execute_run(context, answers).state()


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_act_is_an_outcome(state: RunState, name: str) -> None:
    outcome = state.processes[f"misbehaving/{name}"][-1].outcome
    status, reason = HOSTILE[name]
    assert outcome is not None
    assert outcome.failure is not None
    assert (outcome.failure.status, reason in outcome.failure.reason) == (status, True), outcome


@pytest.mark.parametrize("arm", ["quick", *(f"misbehaving/{name}" for name in HARMLESS)])
def test_the_other_arms_complete(state: RunState, arm: str) -> None:
    assert state.processes[arm][-1].outcome == Outcome()


def test_no_process_is_left(state: RunState) -> None:
    assert state.finished
    left = [
        process
        for process in psutil.process_iter(["cmdline"])
        if process.info["cmdline"] == ["sleep", "3603"]
    ]
    assert left == []
