"""A workflow with its own environment runs in it; the other workflows run as before."""

from __future__ import annotations

import os
import pathlib
import sys
from collections.abc import Callable

import builders
import pytest
import sessions

from advisor.ask import rubric_files
from advisor.ask.answers import Answers
from advisor.context import Context
from advisor.decide.decision import decide
from advisor.domain.catalogue import Catalogue
from advisor.execute.drafts import prepare, propose_again
from advisor.probing.environments import registry

pytestmark = pytest.mark.slow

#: Stands for an environment's interpreter: it logs its `PYTHONPATH` and executes the real one.
INTERPRETER = """#!/bin/sh
echo "$PYTHONPATH" >> "{log}"
exec "{python}" "$@"
"""


def create_environment(
    root: pathlib.Path, known: Catalogue, rubric: pathlib.Path, log: pathlib.Path
) -> pathlib.Path:
    environment = registry.own_environments(known.workflows)["apart"]
    digest = registry.environment_digest(environment, registry.lock_file(rubric, "apart"))
    directory = registry.environment_directory(root, "apart", digest)
    python = registry.interpreter_path(directory)
    python.parent.mkdir(parents=True)
    python.write_text(INTERPRETER.format(log=log, python=sys.executable))
    python.chmod(0o755)
    builders.write_creation_record(directory, "apart", digest)
    return python


def write_rubric(source: pathlib.Path, directory: pathlib.Path, environment: str) -> pathlib.Path:
    """Return a copy of a rubric in which `quick` has another environment.

    `environment` is the TOML that replaces its entry.
    """
    directory.mkdir()
    for file in source.glob("*.toml"):
        (directory / file.name).write_bytes(file.read_bytes())
    before, quick = (directory / "workflows.toml").read_text().split("[workflow.quick]\n")
    shared = 'environment = { kind = "shared", requirements = [] }'
    tables = [
        f'[environment.{name}]\nkind = "own"\nrequirements = ["{name}-stack==2.1"]\n'
        for name in ("apart", "elsewhere")
    ]
    changed = f"{before}[workflow.quick]\n{quick.replace(shared, environment, 1)}"
    (directory / "workflows.toml").write_text("\n".join([changed, *tables]))
    return directory


def context_with_environment(
    shared: Context, environment: str, home: pathlib.Path, folder: pathlib.Path, log: pathlib.Path
) -> tuple[Context, pathlib.Path]:
    """Return a context in which `quick` has a created environment, and its interpreter."""
    rubric = write_rubric(shared.rubric, folder / "rubric", environment)
    python = create_environment(
        home / "environments", rubric_files.load(rubric, probes=shared.probes), rubric, log
    )
    variables = {**os.environ, "P3_ADVISOR_HOME": str(home), "PYTHONPATH": str(folder / "poison")}
    context = Context(
        environment=variables, store=shared.store, probes=shared.probes, rubric=rubric
    )
    return context, python


@pytest.mark.parametrize(
    "environment",
    [
        pytest.param('environment = "apart"', id="one environment"),
        pytest.param(
            'environment = "elsewhere"\nenvironment_on = { cpu = "apart" }',
            id="one for each device",
        ),
    ],
)
def test_a_worker_runs_in_its_own_interpreter_without_the_users_pythonpath(
    environment: str,
    fake_context: Callable[[], Context],
    home: pathlib.Path,
    tmp_path: pathlib.Path,
) -> None:
    log = tmp_path / "log"
    context, python = context_with_environment(fake_context(), environment, home, tmp_path, log)
    answers = Answers(gpu="cpu", batch_sizes="1", budget="1", all_arms=True, workflows="quick")
    run = sessions.execute_run(context, answers)
    assert {measurement.arm for measurement in decide(run).results.measurements} == {
        "pytorch-eager",
        "quick",
    }
    plan = run.state().plan
    assert plan is not None
    assert {arm.id: arm.python for arm in plan.arms} == {
        "pytorch-eager": "",
        "pytorch-eager#duplicate": "",
        "quick": str(python),
    }
    assert set(log.read_text().split("\n")) == {""}, "`PYTHONPATH` has reached the worker"


def test_a_further_run_uses_the_environments_that_exist_when_it_is_drafted(
    fake_context: Callable[[], Context], home: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    context, python = context_with_environment(
        fake_context(), 'environment = "apart"', home, tmp_path, tmp_path / "log"
    )
    run = prepare(Answers(gpu="cpu", batch_sizes="1", budget="1", all_arms=True), context)
    plan = propose_again(run.header(), ("quick",), context).plan
    assert {arm.id: arm.python for arm in plan.arms if not arm.duplicate_of} == {
        "pytorch-eager": "",
        "quick": str(python),
    }
