"""New and further runs, the runs of other devices, and environments of their own."""

from __future__ import annotations

import json
import os
import pathlib
import sys
from typing import Any

import builders
import jsonschema
import pytest
import recorded_runs
import sessions
from builders import replace

from advisor.ask.context import Context
from advisor.ask.model import parse_model
from advisor.ask.run_options import RunOptions
from advisor.cli import schemas
from advisor.domain.answer import Answer, encode
from advisor.domain.errors import GpuNotAttachedError
from advisor.domain.run_events import OtherPlatformFound
from advisor.execute import drafts
from advisor.execute.drafts import create, draft_again, draft_run
from advisor.probing import env_registry
from advisor.report import text_report
from advisor.report.advice_lines import describe_steps, trust_reasons
from advisor.report.answer_files import answer_of_run
from advisor.report.headline import AnswerDocument
from advisor.store.runs import Run
from advisor.store.store import Store


@pytest.mark.parametrize(("asked", "sizes", "rows"), [("", (4,), 4), ("1,2", (1, 2), None)])
def test_the_batch_size_of_the_examples_is_measured_unless_others_are_asked_for(
    asked: str, sizes: tuple[int, ...], rows: int | None, tmp_path: pathlib.Path
) -> None:
    model = tmp_path / "net.py"
    model.write_text("import torch\n\ndef build():\n    return torch.nn.ReLU(), torch.ones(4, 8)\n")
    run_options = RunOptions(model=f"{model}:build", gpu="cpu", batch_sizes=asked)
    draft = draft_run(run_options, Context(environment=dict(os.environ), store=Store(tmp_path)))
    assert (draft.question.batch_sizes, draft.example_rows) == (sizes, rows)


def test_no_run_is_drafted_without_the_gpu_of_the_question(made_run: Run, context: Context) -> None:
    header = made_run.header()
    question = replace(header.question, gpu="GPU-gone", device="cuda", python=sys.executable)
    header = replace(header, question=question)
    with pytest.raises(GpuNotAttachedError):
        draft_again(header, ("broken/default",), context)


OPTIONS = RunOptions(model="synthetic/ffn@8x16", gpu="cpu", batch_sizes="1", dtype="float32")


def test_the_newest_run_of_the_same_work_on_another_device_is_a_platform(context: Context) -> None:
    gpu_run = recorded_runs.make_gpu_run(context.store)
    recorded_runs.make_gpu_run(context.store, "20261030-000000-0000")
    recorded_runs.make_gpu_run(context.store, "20261031-000000-0000", batch_sizes=(2,))
    header = builders.header(run_id="20261121-000000-0000", catalogue=gpu_run.header().catalogue)
    (found,) = drafts.find_platforms(context.store, header)
    assert found.platform.name == recorded_runs.GPU_NAME
    assert found.platform.run == gpu_run.directory.name
    assert found.platform.efficiencies["exported"].application_efficiency == 1
    assert found.platform.refused == ("broken",)


def test_platforms_are_stored_with_a_new_run(context: Context) -> None:
    draft = draft_run(OPTIONS, context)
    recorded_runs.make_gpu_run(
        context.store, model=draft.question.model, input_tokens=draft.question.input_tokens
    )
    (found,) = sessions.of_kind(create(draft, context).events(), OtherPlatformFound)
    assert found.platform.name == recorded_runs.GPU_NAME


def test_an_error_before_the_run_is_stored_leaves_no_run(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError

    draft = draft_run(OPTIONS, context)
    monkeypatch.setattr(drafts, "find_platforms", fail)
    with pytest.raises(OSError):  # noqa: PT011 - any will do
        create(draft, context)
    assert context.store.is_empty()


# Answers for a GPU that is not attached, from runs of others

ON_GPU = RunOptions(model="synthetic/ffn@8x16", gpu="H100")


def find_answer(context: Context, **changes: Any) -> Answer:
    return builders.known(drafts.find_answer(replace(ON_GPU, **changes), context))


def test_the_answer_names_its_origin_and_counts_less_than_a_measurement(context: Context) -> None:
    recorded_runs.make_gpu_run(context.store)
    answer = find_answer(context)
    jsonschema.validate(json.loads(encode(AnswerDocument.of(answer))), schemas.generate("run"))
    assert answer.evidence == "imported"
    assert '"measured"' not in encode(answer)
    text, summary = text_report.render(answer), answer.provenance
    assert f"Imported: {summary}" in text.splitlines()[:6]
    for fact in ("20 days ago", recorded_runs.GPU_NAME, "driver 580.65"):
        assert fact in summary
    assert "(measured)" not in text
    assert builders.known(answer.recommendation).trust >= "B"
    assert trust_reasons(answer)[0] == answer.provenance
    assert answer.run_id in describe_steps(answer)[0]


def test_a_run_of_a_forward_pass_does_not_answer_for_generation(context: Context) -> None:
    run_options = RunOptions(model="demo/llama", gpu="H100", task="forward")
    model = parse_model(run_options, builders.shipped_catalogue().models)
    recorded_runs.make_gpu_run(context.store, model=model)
    generation = replace(run_options, task="generate")
    assert drafts.find_answer(run_options, context) is not None
    assert drafts.find_answer(generation, context) is None


def test_the_priorities_of_the_new_question_decide(context: Context) -> None:
    recorded_runs.make_gpu_run(context.store)
    serving = find_answer(context, preset="serving", requests=1000)
    assert serving.question.priorities.performance == 70
    assert serving.question.requests == 1000
    strict = find_answer(
        context, require="performance>=3,productivity>=3,portability>=3,architecture_support>=3"
    )
    assert serving.recommendation is not None
    assert strict.recommendation is None or strict.recommendation.arm == "exported"


def test_the_newest_finished_run_of_the_same_model_on_a_gpu_answers(context: Context) -> None:
    recorded_runs.make_gpu_run(context.store)
    newest = recorded_runs.make_gpu_run(context.store, "20261102-000000-0000")
    recorded_runs.make_gpu_run(context.store, "20261103-000000-0000", finished=False)
    demo = builders.shipped_catalogue().models.demo
    recorded_runs.make_gpu_run(context.store, "20261104-000000-0000", model=demo)
    recorded_runs.make_gpu_run(context.store, "20261105-000000-0000", device="cpu", gpu=None)
    assert find_answer(context).run_id == newest.directory.name


@pytest.mark.parametrize(
    "changes",
    [
        {"gpu": "H200"},
        {"model": "demo"},
        {"batch_sizes": "64"},
        {"dtype": "bfloat16"},
        {"input_tokens": "64"},
        {"output_tokens": "64"},
        {"gpus_per_model": 2},
        {"gpu": "H10"},
        {"gpu": "100 H"},
    ],
    ids=str,
)
def test_a_run_of_another_question_does_not_answer(
    changes: dict[str, Any], context: Context
) -> None:
    recorded_runs.make_gpu_run(context.store)
    assert drafts.find_answer(replace(ON_GPU, **changes), context) is None


def test_a_damaged_run_is_skipped(context: Context) -> None:
    intact = recorded_runs.make_gpu_run(context.store)
    newer = recorded_runs.make_gpu_run(context.store, "20261102-000000-0000")
    context.store.history()
    recorded_runs.damage(newer)
    assert find_answer(context).run_id == intact.directory.name


#: Stands for an environment's interpreter: it logs its `PYTHONPATH` and executes the real one.
INTERPRETER = """#!/bin/sh
echo "$PYTHONPATH" >> "{log}"
exec "{python}" "$@"
"""


def test_a_worker_runs_in_the_interpreter_of_its_device_without_the_users_pythonpath(
    own_context: Context, home: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    log, catalogue = tmp_path / "log", own_context.catalogue_directory
    before, quick = (catalogue / "workflows.toml").read_text().split("[workflow.quick]\n")
    shared = 'environment = { kind = "shared", requirements = [] }'
    own = 'environment = "elsewhere"\nenvironment_on = { cpu = "apart" }'
    tables = [
        f'[environment.{name}]\nkind = "own"\nrequirements = ["{name}-stack==2.1"]\n'
        for name in ("apart", "elsewhere")
    ]
    changed = f"{before}[workflow.quick]\n{quick.replace(shared, own, 1)}"
    (catalogue / "workflows.toml").write_text("\n".join([changed, *tables]))
    directory = sessions.add_own_environment(home, "apart", catalogue, own_context.probes)
    python = env_registry.interpreter_path(directory)
    python.write_text(INTERPRETER.format(log=log, python=sys.executable))
    python.chmod(0o755)
    variables = {**os.environ, "P3_ADVISOR_HOME": str(home), "PYTHONPATH": str(tmp_path / "poison")}
    context = replace(own_context, environment=variables)
    run = sessions.execute_run(context, sessions.short_options("quick"))
    assert set(answer_of_run(run).results.by_arm) == {"pytorch-eager", "quick"}
    plan = run.state().plan
    for each in (plan, draft_again(run.header(), ("quick",), context).plan):
        assert {planned.id: planned.python for planned in each.arms} == {
            "pytorch-eager": "",
            "pytorch-eager#duplicate": "",
            "quick": str(python),
        }
    assert set(log.read_text().split("\n")) == {""}, "`PYTHONPATH` has reached the worker"
