"""Answers for a GPU that is not attached, from runs of others."""

from __future__ import annotations

import json
from typing import Any

import builders
import jsonschema
import pytest
import recorded_runs

from advisor.ask.context import Context
from advisor.ask.model import parse_model
from advisor.ask.run_options import RunOptions
from advisor.cli import schemas
from advisor.domain.answer import Answer, encode
from advisor.execute import drafts
from advisor.report import text_report
from advisor.report.headline import AnswerDocument

OPTIONS = RunOptions(model="synthetic/ffn@8x16", gpu="H100")


def find_answer(context: Context, **changes: Any) -> Answer:
    return builders.known(drafts.find_answer(builders.replace(OPTIONS, **changes), context))


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
    recommendation = builders.known(answer.recommendation)
    assert recommendation.trust >= drafts.BEST_TRUST
    assert recommendation.trust_reasons[0] == answer.provenance


def test_a_run_of_a_forward_pass_does_not_answer_for_generation(context: Context) -> None:
    run_options = RunOptions(model="demo/llama", gpu="H100", task="forward")
    model = parse_model(run_options, builders.shipped_catalogue().models)
    recorded_runs.make_gpu_run(context.store, model=model)
    generation = builders.replace(run_options, task="generate")
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
    run_options = builders.replace(OPTIONS, **changes)
    assert drafts.find_answer(run_options, context) is None


def test_a_damaged_run_is_skipped(context: Context) -> None:
    intact = recorded_runs.make_gpu_run(context.store)
    newer = recorded_runs.make_gpu_run(context.store, "20261102-000000-0000")
    context.store.history()
    recorded_runs.damage(newer)
    assert find_answer(context).run_id == intact.directory.name
