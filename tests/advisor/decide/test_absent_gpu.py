"""Answers for a GPU that is not attached: from runs of others, and from published figures."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import builders
import jsonschema
import msgspec
import pytest
import recorded_runs

from advisor import schemas
from advisor.ask.answers import Answers
from advisor.ask.model import parse_model
from advisor.context import Context
from advisor.decide import absent_gpu, guidelines
from advisor.domain.answer import Answer, Provenance, encode
from advisor.domain.constraints import Constraint
from advisor.domain.model import SyntheticModel, TransformersModel
from advisor.domain.question import Lengths, Question
from advisor.domain.recommendation import Recommendation
from advisor.errors import NothingViableError
from advisor.report import text_report

KNOWN = builders.shipped_catalogue()
TINY, LLAMA = "TinyLlama/TinyLlama-1.1B-Chat-v1.0", "meta-llama/Llama-2-7b-chat-hf"
SIZES = (1, 4, 16, 64)


def ask(model: str, preset: str, required: tuple[Constraint, ...] = ()) -> Question:
    return builders.question(
        model=TransformersModel(name=model, weights="random"),
        task="generate",
        device="cuda",
        batch_sizes=SIZES,
        priorities=KNOWN.presets.priorities[preset].priorities,
        constraints=required,
    )


def advise(gpu: str, model: str, preset: str, *required: Constraint) -> Recommendation:
    asked = ask(model, preset, required)
    return absent_gpu.recommend_case(
        guidelines.find_cases(KNOWN.published, gpu, model, SIZES), asked, KNOWN, gpu
    )[1]


#: Cases whose figures lead to the other guideline's workflow.
OTHERS = {("research", TINY, "RTX 5090"), ("serving", LLAMA, "RTX 4090")}
GUIDELINES = {"research": "torch-compile-inductor", "serving": "tensorrt-llm"}


@pytest.mark.parametrize("gpu", ["RTX 4090", "RTX 5090"])
@pytest.mark.parametrize("model", [TINY, LLAMA])
@pytest.mark.parametrize("preset", GUIDELINES)
def test_the_published_cases_lead_to_the_published_guidelines(
    gpu: str, model: str, preset: str
) -> None:
    advice = advise(gpu, model, preset)
    agrees = (preset, model, gpu) not in OTHERS
    assert (advice.workflow == GUIDELINES[preset]) is agrees
    assert advice.guideline is not None
    assert advice.guideline.agrees is agrees
    assert (advice.decision, advice.trust) == (None, "D")


@pytest.mark.parametrize("gpu", ["RTX 4090", "RTX 5090"])
@pytest.mark.parametrize("model", [TINY, LLAMA])
def test_the_portability_guideline_names_a_workflow_without_published_figures(
    gpu: str, model: str
) -> None:
    advice = advise(gpu, model, "multi-vendor")
    assert advice.guideline is not None
    assert advice.guideline.id == "device-portability"
    assert advice.guideline.agrees is None
    assert "onnxruntime-tensorrt: published:" in advice.guideline.why


def test_figures_of_the_newest_environment_take_precedence() -> None:
    cases = {
        case.workflow: case
        for case in guidelines.find_cases(KNOWN.published, "RTX 5090", TINY, SIZES)
    }
    assert cases["tensorrt-llm"].stack == "Triton-Env-2602"
    assert cases["tensorrt-llm"].speedups[64] == pytest.approx((20963 / 5587, 20963 / 5587))
    assert cases["torch-compile-inductor"].speedups == {
        64: pytest.approx((5576 / 5587, 5609 / 5587))
    }


def test_without_published_figures_there_is_no_case() -> None:
    assert guidelines.find_cases(KNOWN.published, "H200", TINY, SIZES) == ()
    assert guidelines.find_cases(KNOWN.published, "RTX 4090", "another/model", SIZES) == ()
    assert guidelines.find_cases(KNOWN.published, "RTX 4090", TINY, (3,)) == ()


def test_figures_that_contradict_each_other_give_no_recommendation() -> None:
    figure = next(figure for figure in KNOWN.published.figure if figure.workflow == "tensorrt-llm")
    other = msgspec.structs.replace(figure, low=figure.low / 2, high=figure.high / 2)
    published = msgspec.structs.replace(KNOWN.published, figure=(figure, other))
    cases = guidelines.find_cases(published, figure.gpu, figure.model, SIZES)
    with pytest.raises(NothingViableError) as problem:
        absent_gpu.recommend_case(cases, ask(TINY, "serving"), KNOWN, figure.gpu)
    assert "contradict" in problem.value.what
    assert "p3-advisor" in problem.value.next_step


def test_constraints_apply_to_published_figures() -> None:
    assert (
        advise(
            "RTX 4090", TINY, "serving", Constraint(criterion="portability", at_least=2)
        ).workflow
        == "torch-compile-inductor"
    )


def test_every_published_model_has_the_conditions_of_its_figures() -> None:
    published = KNOWN.published
    assert {figure.model for figure in published.figure} == {*published.conditions}


def lengths(inputs: int, outputs: int) -> tuple[Lengths]:
    return (Lengths(input_tokens=inputs, output_tokens=outputs),)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({}, []),
        ({"dtype": "native"}, []),
        ({"task": "forward"}, ["generate"]),
        ({"dtype": "float32"}, ["bfloat16", "float32"]),
        ({"lengths": lengths(512, 32)}, ["32 input tokens", "512"]),
        ({"lengths": lengths(32, 64)}, ["32 output tokens", "64"]),
    ],
)
def test_figures_are_compared_by_task_precision_and_lengths(
    changes: dict[str, object], named: list[str]
) -> None:
    asked = msgspec.structs.replace(ask(TINY, "serving"), **{"dtype": "bfloat16", **changes})
    differences = KNOWN.published.differences(asked)
    assert bool(differences) == bool(named)
    assert all(word in " ".join(differences) for word in named)


def test_the_output_length_does_not_matter_for_one_pass() -> None:
    model = SyntheticModel(
        name="synthetic/ffn-multilayer@tinyllama",
        block="ffn-multilayer",
        hidden=2048,
        intermediate=5632,
        layers=22,
    )
    asked = builders.question(
        model=model, task="forward", dtype="bfloat16", input_tokens=32, output_tokens=7
    )
    assert KNOWN.published.differences(asked) == ()


def test_eager_is_advised_where_no_published_speed_up_is_worth_its_cost() -> None:
    cases = guidelines.find_cases(KNOWN.published, "RTX 4090", TINY, SIZES)
    slow = tuple(
        msgspec.structs.replace(
            case, speedups=dict.fromkeys(case.speedups, (1.0, 1.0)), contradicts=()
        )
        for case in cases
    )
    cases = (*slow, guidelines.baseline_case(slow))
    _, advice = absent_gpu.recommend_case(cases, ask(TINY, "balanced"), KNOWN, "RTX 4090")
    assert advice.workflow == "pytorch-eager"


ANSWERS = Answers(model="synthetic/ffn@8x16", gpu="H100")


@pytest.fixture
def context(fake_context: Callable[[], Context]) -> Context:
    return fake_context()


def find_answer(context: Context, **changes: Any) -> Answer:
    answer = absent_gpu.find_answer(msgspec.structs.replace(ANSWERS, **changes), context)
    assert answer is not None
    return answer


def provenance_of(answer: Answer) -> Provenance:
    assert answer.provenance is not None
    return answer.provenance


def test_the_answer_has_the_provenance_and_no_rating_counts_as_measured(
    context: Context,
) -> None:
    recorded_runs.make_gpu_run(context.store)
    answer = find_answer(context)
    jsonschema.validate(json.loads(encode(answer)), schemas.generate("run"))
    provenance = provenance_of(answer)
    assert (provenance.age_days, provenance.device) == (20, recorded_runs.GPU_NAME)
    assert answer.evidence == "imported"
    assert '"measured"' not in encode(answer)


def test_the_text_report_names_the_origin_and_the_age(context: Context) -> None:
    recorded_runs.make_gpu_run(context.store)
    answer = find_answer(context)
    text, summary = text_report.render(answer), provenance_of(answer).summary
    assert f"Imported: {summary}" in text.splitlines()[:5]
    for fact in ("20 days ago", recorded_runs.GPU_NAME, "driver 580.65"):
        assert fact in summary
    assert "(measured)" not in text


def test_the_trust_of_an_imported_answer_is_limited(context: Context) -> None:
    recorded_runs.make_gpu_run(context.store)
    answer = find_answer(context)
    recommendation = answer.recommendation
    assert recommendation is not None
    assert recommendation.trust >= absent_gpu.BEST_TRUST
    assert recommendation.trust_reasons[0] == provenance_of(answer).summary


def test_a_run_of_a_forward_pass_does_not_answer_for_generation(context: Context) -> None:
    answers = Answers(model="demo/llama", gpu="H100", task="forward")
    model = parse_model(answers, builders.shipped_catalogue().models)
    recorded_runs.make_gpu_run(context.store, model=model)
    generation = msgspec.structs.replace(answers, task="generate")
    assert absent_gpu.find_answer(answers, context) is not None
    assert absent_gpu.find_answer(generation, context) is None


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
    assert provenance_of(find_answer(context)).run == newest.directory.name


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
    answers = msgspec.structs.replace(ANSWERS, **changes)
    assert absent_gpu.find_answer(answers, context) is None


@pytest.mark.parametrize("text", ["RTX 4090", "4090", "NVIDIA RTX 4090", "geforce rtx 4090"])
def test_a_gpu_name_matches_by_whole_words(text: str) -> None:
    assert absent_gpu.matches_gpu_name("NVIDIA GeForce RTX 4090", text)
    assert not absent_gpu.matches_gpu_name("NVIDIA GeForce RTX 5090 D", text)


def test_a_damaged_run_is_skipped(context: Context) -> None:
    intact = recorded_runs.make_gpu_run(context.store)
    newer = recorded_runs.make_gpu_run(context.store, "20261102-000000-0000")
    context.store.history()
    recorded_runs.damage(newer)
    assert provenance_of(find_answer(context)).run == intact.directory.name
