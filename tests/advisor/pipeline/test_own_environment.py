"""A workflow with an environment of its own is measured in it, and the others where they were."""

from __future__ import annotations

import os
import pathlib
import sys
from collections.abc import Callable

import msgspec
import pytest

from advisor import catalogue
from advisor.context import Context
from advisor.domain.catalogue import Catalogue
from advisor.pipeline.decision import decide
from advisor.pipeline.draft import prepare
from advisor.pipeline.execution import execute
from advisor.probing.environments import places
from advisor.question.answers import Answers

#: Stands for an environment's interpreter: writes down what it sees and hands over to one that has
#: what the pretend workflows need.
INTERPRETER = """#!/bin/sh
echo "$PYTHONPATH" >> "{saw}"
exec "{python}" "$@"
"""


def put_environment(
    root: pathlib.Path, known: Catalogue, rubric: pathlib.Path, saw: pathlib.Path
) -> pathlib.Path:
    environment = places.own_environments(known.workflows)["apart"]
    digest = places.digest_of(environment, places.lock_file(rubric, "apart"))
    directory = places.directory_of(root, "apart", digest)
    python = places.python_in(directory)
    python.parent.mkdir(parents=True)
    python.write_text(INTERPRETER.format(saw=saw, python=sys.executable))
    python.chmod(0o755)
    record = places.Record(
        name="apart",
        digest=digest,
        python_version="3",
        packages={},
        disk_bytes=1,
        seconds=1,
        made="2026-11-21",
    )
    (directory / places.RECORD).write_bytes(msgspec.json.encode(record))
    return python


@pytest.mark.parametrize(
    "asked",
    ['environment = "apart"', 'environment = "elsewhere"\nenvironment_on = { cpu = "apart" }'],
)
def test_it_runs_in_its_own_interpreter_and_sees_no_packages_from_elsewhere(
    asked: str, fake_world: Callable[[], Context], home: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    shared = fake_world()
    rubric = tmp_path / "rubric"
    rubric.mkdir()
    for file in shared.rubric.glob("*.toml"):
        (rubric / file.name).write_bytes(file.read_bytes())
    before, quick = (rubric / "workflows.toml").read_text().split("[workflow.quick]\n")
    quick = quick.replace('environment = { kind = "shared", requirements = [] }', asked, 1)
    tables = [
        f'[environment.{name}]\nkind = "own"\nrequirements = ["{name}-stack==2.1"]\n'
        for name in ("apart", "elsewhere")
    ]
    (rubric / "workflows.toml").write_text(
        "\n".join([f"{before}[workflow.quick]\n{quick}", *tables])
    )

    saw = tmp_path / "saw"
    python = put_environment(
        home / "environments", catalogue.load(rubric, probes=shared.probes), rubric, saw
    )
    variables = {**os.environ, "P3_ADVISOR_HOME": str(home), "PYTHONPATH": str(tmp_path / "poison")}
    world = Context(environment=variables, store=shared.store, probes=shared.probes, rubric=rubric)
    run = prepare(Answers(gpu="cpu", batch_sizes="1", budget="2", workflows="quick"), world)
    for _ in execute(run, world):
        pass
    decision = decide(run)
    assert {measurement.arm for measurement in decision.results.measurements} == {
        "pytorch-eager",
        "quick",
    }
    plan = decision.state.plan
    assert plan is not None
    assert {arm.id: arm.python for arm in plan.arms} == {
        "pytorch-eager": "",
        "pytorch-eager#duplicate": "",
        "quick": str(python),
    }
    assert set(saw.read_text().split("\n")) == {""}, (
        "the variable that leads to other packages has reached it"
    )
