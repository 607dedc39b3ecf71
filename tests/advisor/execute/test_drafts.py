"""Further runs, and environments of their own."""

from __future__ import annotations

import os
import pathlib
import shutil
import sys

import builders
import built_answers
import pytest
import sessions
from builders import DUPLICATE, priorities, replace
from recorded_runs import SECONDS, make_header, make_run

from advisor.ask import catalogue_files
from advisor.ask.context import Context
from advisor.ask.run_options import RunOptions
from advisor.decide.recommend import further_budget, undecided_workflows
from advisor.decide.unmeasured import arms_to_retry
from advisor.domain.errors import GpuNotAttachedError
from advisor.execute.drafts import propose, propose_again
from advisor.probing import env_registry
from advisor.report.answer_files import decide
from advisor.store.runs import Run
from advisor.store.store import Store


@pytest.mark.parametrize(("asked", "sizes", "rows"), [("", (4,), 4), ("1,2", (1, 2), None)])
def test_the_batch_size_of_the_examples_is_measured_unless_others_are_asked_for(
    asked: str, sizes: tuple[int, ...], rows: int | None, tmp_path: pathlib.Path
) -> None:
    model = tmp_path / "net.py"
    model.write_text("import torch\n\ndef build():\n    return torch.nn.ReLU(), torch.ones(4, 8)\n")
    run_options = RunOptions(model=f"{model}:build", gpu="cpu", batch_sizes=asked)
    draft = propose(run_options, Context(environment=dict(os.environ), store=Store(tmp_path)))
    assert (draft.question.batch_sizes, draft.example_rows) == (sizes, rows)


def test_the_failed_arms_are_retried_by_their_names_in_the_option(made_run: Run) -> None:
    made = decide(made_run)
    others = (
        builders.unmeasured("unreached", option="default", status="excluded"),
        builders.unmeasured("absent"),
    )
    answer = replace(made, unmeasured=(*made.unmeasured, *others))
    assert arms_to_retry(answer) == ("broken/default",)


def test_no_run_is_drafted_without_the_gpu_of_the_question(made_run: Run, context: Context) -> None:
    header = made_run.header()
    question = replace(header.question, gpu="GPU-gone", device="cuda", python=sys.executable)
    header = replace(header, question=question)
    with pytest.raises(GpuNotAttachedError):
        propose_again(header, ("broken/default",), context)


def test_an_open_decision_is_measured_again_for_its_contenders_alone() -> None:
    made = built_answers.with_question(built_answers.answer(), workflows=("vllm", "openvino"))
    question, contenders = made.question, {"openvino": 0.6, "iree": 0.5}
    undecided, clear = (
        built_answers.with_decision(made, word=word, contenders=contenders).recommendation
        for word in ("OPEN", "CLEAR")
    )
    assert undecided_workflows(undecided, question) == ("openvino", "iree")
    assert undecided_workflows(clear, question) == question.workflows
    assert undecided_workflows(None, question) == question.workflows


@pytest.mark.parametrize(
    ("spent", "following"),
    [("quick", "thorough"), ("standard", "thorough"), ("thorough", "thorough")],
)
def test_a_further_run_has_the_budget_that_the_headline_names(
    spent: str, following: str, tmp_path: pathlib.Path
) -> None:
    """The duplicate is slower than the baseline, so the two leaders are not told apart."""
    made, presets = make_header(generates=False), builders.shipped_catalogue().presets
    run = make_run(
        Store(tmp_path),
        finished=True,
        seconds_of={**SECONDS, "exported": 0.0037, DUPLICATE: 0.0125},
        catalogue=replace(made.catalogue, presets=presets),
        question=replace(
            made.question, priorities=priorities(90, 5, 5), budget=presets.budgets[spent]
        ),
    )
    answer = decide(run)
    certainty = built_answers.advised(answer).decision
    assert (certainty.word, bool(certainty.needed_repetitions)) == ("OPEN", True)
    line = " ".join(built_answers.advised(answer).advice.next_steps)
    named = {name for name in presets.budgets if f"--budget {name}" in line}
    assert named == {following} - {spent}
    assert further_budget(answer, run.header().catalogue).name == following


pytestmark = pytest.mark.slow

#: Stands for an environment's interpreter: it logs its `PYTHONPATH` and executes the real one.
INTERPRETER = """#!/bin/sh
echo "$PYTHONPATH" >> "{log}"
exec "{python}" "$@"
"""


def test_a_worker_runs_in_the_interpreter_of_its_device_without_the_users_pythonpath(
    context: Context, home: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    log, catalogue = tmp_path / "log", tmp_path / "catalogue"
    shutil.copytree(context.catalogue_directory, catalogue)
    before, quick = (catalogue / "workflows.toml").read_text().split("[workflow.quick]\n")
    shared = 'environment = { kind = "shared", requirements = [] }'
    own = 'environment = "elsewhere"\nenvironment_on = { cpu = "apart" }'
    tables = [
        f'[environment.{name}]\nkind = "own"\nrequirements = ["{name}-stack==2.1"]\n'
        for name in ("apart", "elsewhere")
    ]
    changed = f"{before}[workflow.quick]\n{quick.replace(shared, own, 1)}"
    (catalogue / "workflows.toml").write_text("\n".join([changed, *tables]))
    known = catalogue_files.load(catalogue, probes=context.probes).workflows
    environment = env_registry.own_environments(known)["apart"]
    digest = env_registry.environment_digest(
        environment, env_registry.lock_file(catalogue, "apart")
    )
    directory = builders.add_environment(home / "environments", "apart", digest)
    python = env_registry.interpreter_path(directory)
    python.write_text(INTERPRETER.format(log=log, python=sys.executable))
    python.chmod(0o755)
    variables = {**os.environ, "P3_ADVISOR_HOME": str(home), "PYTHONPATH": str(tmp_path / "poison")}
    context = replace(context, environment=variables, catalogue_directory=catalogue)
    run = sessions.execute_run(context, sessions.short_options("quick"))
    assert set(decide(run).measurements) == {"pytorch-eager", "quick"}
    plan = run.state().plan
    for each in (plan, propose_again(run.header(), ("quick",), context).plan):
        assert {planned.id: planned.python for planned in each.arms} == {
            "pytorch-eager": "",
            "pytorch-eager#duplicate": "",
            "quick": str(python),
        }
    assert set(log.read_text().split("\n")) == {""}, "`PYTHONPATH` has reached the worker"
