"""Where the outputs of an arm vary, its workflow's arms for such models are measured too."""

from __future__ import annotations

import dataclasses
import pathlib
import shutil
from collections.abc import Callable

import pytest
import sessions
from sessions import expect_failure

from advisor.ask.answers import Answers
from advisor.context import Context
from advisor.decide.decision import decide
from advisor.domain.run_events import ArmsAdded
from advisor.store.runs import Run
from probes.wire.outcome import Outcome

pytestmark = pytest.mark.slow

#: A workflow whose outputs vary unless it runs on one thread.
WORKFLOW = """
[workflow.threaded]
title = "threaded"
tasks = ["forward"]
devices = ["cpu"]
dtypes = ["float32"]
input_formats = ["torch"]
build_order = 1
how_to_get = "write it"
arms_after_nondeterministic = ["one-thread"]
environment = { kind = "shared", requirements = [] }

[workflow.threaded.arms]
default = { fault = "FAULT" }
one-thread = { fault = "" }

[workflow.threaded.declared]
lines_changed = { value = 0, source = "a fake" }
export_step = { value = false, source = "a fake" }
vendors = { value = 4, source = "a fake" }
artefact_scope = { value = "any", source = "a fake" }
target_needs = { value = "runtime", source = "a fake" }
new_shapes = { value = "served", source = "a fake" }
architectures = { value = "any", source = "a fake" }
"""


@pytest.fixture(params=["varies", "varies-later"])
def threaded_context(
    request: pytest.FixtureRequest, fake_context: Callable[[], Context], tmp_path: pathlib.Path
) -> Context:
    """A context with the workflow `threaded`, whose outputs vary at the check or after the race."""
    context = fake_context()
    probes, rubric = tmp_path / "probes", tmp_path / "rubric"
    shutil.copytree(context.probes, probes)
    shutil.copytree(context.rubric, rubric)
    workflows = probes / "workflows"
    shutil.copy(workflows / "misbehaving.py", workflows / "threaded.py")
    with (rubric / "workflows.toml").open("a") as file:
        file.write(WORKFLOW.replace("FAULT", request.param))
    return dataclasses.replace(context, probes=probes, rubric=rubric)


def measure(context: Context, workflows: str) -> Run:
    answers = Answers(batch_sizes="2", budget="1", all_arms=True, workflows=workflows)
    return sessions.execute_run(context, answers)


def test_the_fallback_is_measured_after_the_outputs_have_varied(threaded_context: Context) -> None:
    run = measure(threaded_context, "threaded")
    (added,) = [event.run_event for event in run.events() if isinstance(event.run_event, ArmsAdded)]
    assert ([arm.id for arm in added.added], added.instead_of) == (
        ["threaded/one-thread"],
        "threaded",
    )
    processes = run.state().processes
    expect_failure(processes["threaded"][-1].outcome, "nondeterministic")
    assert processes["threaded/one-thread"][-1].outcome == Outcome()
    assert "threaded/one-thread" in {each.arm for each in decide(run).results.measurements}
