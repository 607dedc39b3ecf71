"""Answers are checked against the machine and the catalogue; each invalid one has its error."""

from __future__ import annotations

import contextlib
from typing import Any

import builders
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.ask.devices import choose_gpu
from advisor.ask.resolve import choose_dtype, default_batch_sizes, resolve
from advisor.ask.run_options import RunOptions
from advisor.domain import errors
from advisor.domain.constraints import DEFAULT_PRIORITIES, Constraint
from advisor.domain.machine import Gpu, Machine
from advisor.domain.model import ExportedModel, FactoryModel, Model, OnnxModel
from advisor.domain.question import Question

SHIPPED = builders.shipped_catalogue()
H100 = builders.gpu(index=0, uuid="GPU-aaaa")
H200 = builders.gpu(index=1, uuid="GPU-bbbb", name="NVIDIA H200")


def resolved(machine: Machine | None = None, **run_options: Any) -> Question:
    return resolve(RunOptions(**run_options), machine or builders.machine(), SHIPPED)


def test_the_default_is_the_demo_model_on_the_cpu() -> None:
    asked = resolved()
    assert asked.model == SHIPPED.models.demo
    assert (asked.device, asked.gpu, asked.dtype, asked.task) == ("cpu", None, "float32", "forward")
    assert asked.batch_sizes == SHIPPED.models.cpu_batch_sizes
    assert asked.budget == SHIPPED.presets.budgets[SHIPPED.presets.default_budget]
    preset = SHIPPED.presets.priorities[SHIPPED.presets.default_preset]
    assert asked.priorities == preset.priorities == DEFAULT_PRIORITIES
    assert asked.python == builders.machine().software.executable


def test_on_a_gpu_the_demo_is_a_block_that_keeps_the_gpu_busy() -> None:
    asked = resolved(builders.gpu_machine(H100))
    assert asked.model == SHIPPED.models.demo_gpu
    assert asked.batch_sizes == SHIPPED.models.demo_gpu_batch_sizes
    assert resolved(model="demo/bert").model == SHIPPED.models.demo_gpu
    small = resolved(builders.gpu_machine(H100), model="demo/encoder")
    assert (small.model, small.batch_sizes) == (SHIPPED.models.demo, SHIPPED.models.cpu_batch_sizes)


def test_every_answer_becomes_part_of_the_question() -> None:
    asked = resolved(
        model="synthetic/ffn@8x16",
        dtype="bfloat16",
        batch_sizes="16,1,4,4",
        input_tokens="7",
        output_tokens="9",
        preset="serving",
        require="portability>=2",
        budget="thorough",
        max_build_seconds=12.5,
        workflows=" torch-compile-inductor, onnxruntime-cpu/io-binding ,",
        seed=5,
        offline=True,
        trust_remote_code=True,
        allow_pickle=True,
    )
    assert (asked.dtype, asked.batch_sizes) == ("bfloat16", (1, 4, 16))
    assert (asked.input_tokens, asked.output_tokens) == (7, 9)
    assert asked.priorities == SHIPPED.presets.priorities["serving"].priorities
    assert asked.constraints == (Constraint("portability", ">=", 2),)
    assert (asked.budget, asked.max_build_seconds) == (SHIPPED.presets.budgets["thorough"], 12.5)
    assert asked.workflows == ("torch-compile-inductor", "onnxruntime-cpu/io-binding")
    assert (asked.seed, asked.offline) == (5, True)
    assert (asked.trust_remote_code, asked.allow_pickle) == (True, True)


SERVED: dict[str, Any] = {"model": "demo/llama", "task": "serve", "ttft": "500ms", "itl": "50ms"}


@pytest.mark.parametrize(
    ("run_options", "error", "words"),
    [
        ({"model": "no-such-model"}, errors.UnknownModelError, "no-such-model"),
        ({"gpu": "Voodoo 2"}, errors.UnknownGpuError, "Voodoo 2"),
        ({"batch_sizes": "one"}, errors.OptionValueError, "'one'"),
        ({"batch_sizes": "1,,4"}, errors.OptionValueError, "whole numbers"),
        ({"batch_sizes": "0"}, errors.OptionValueError, "--batch-sizes 0"),
        ({"batch_sizes": "65537"}, errors.OptionValueError, "--batch-sizes 65537"),
        ({"priority": "performance=1"}, errors.OptionValueError, "sum to 1, not 100"),
        ({"preset": "fastest"}, errors.OptionValueError, "fastest"),
        ({"require": "ttft<=200ms"}, errors.OptionValueError, "forward"),
        ({"require": "performance>=C,itl<=50ms"}, errors.OptionValueError, "itl"),
        ({**SERVED, "require": "ttft<=200ms"}, errors.OptionValueError, "serve"),
        ({**SERVED, "require": "accuracy<=1e-3"}, errors.OptionValueError, "serve"),
        ({"budget": "endless"}, errors.OptionValueError, "endless"),
        ({"max_build_seconds": 0.0}, errors.OptionValueError, "--max-build-seconds 0"),
        ({"max_build_seconds": float("nan")}, errors.OptionValueError, "--max-build-seconds"),
        ({"seed": -1}, errors.OptionValueError, "--seed -1"),
        ({"gpus_per_model": 0}, errors.OptionValueError, "--gpus-per-model 0"),
        ({"price_per_hour": float("inf")}, errors.OptionValueError, "--price-per-hour inf"),
        ({**SERVED, "percentile": 100.0}, errors.OptionValueError, "--percentile 100"),
    ],
)
def test_each_invalid_answer_has_its_own_error(
    run_options: dict[str, Any], error: type[errors.UserError], words: str
) -> None:
    with pytest.raises(errors.UserError) as problem:
        resolved(**run_options)
    assert type(problem.value) is error
    assert words in problem.value.what
    assert problem.value.next_step
    assert "\n" not in problem.value.what + problem.value.next_step


numbers = st.integers(-(1 << 70), 1 << 70) | st.integers(-2, 2)
seconds = st.floats() | st.sampled_from([0.0, 1.0])
options: dict[str, st.SearchStrategy[Any]] = {
    "batch_sizes": st.text(max_size=10)
    | st.lists(numbers).map(lambda sizes: ",".join(map(str, sizes))),
    "input_tokens": numbers.map(str),
    "output_tokens": numbers.map(str),
    "gpu": st.text(max_size=5),
    "budget": st.text(max_size=5) | seconds.map(str),
    "max_build_seconds": seconds,
    "workflows": st.text(max_size=20),
    "seed": numbers,
    "requests": numbers,
    "gpus_per_model": numbers,
    "price_per_hour": seconds,
    "max_open_seconds": seconds,
}


@given(
    st.sampled_from(sorted(options)).flatmap(
        lambda name: options[name].map(lambda value: {name: value})
    )
)
def test_every_accepted_answer_survives_encoding(answer: dict[str, Any]) -> None:
    try:
        asked = resolved(**answer)
    except errors.UserError:
        return
    assert msgspec.json.decode(msgspec.json.encode(asked), type=Question) == asked


@pytest.mark.parametrize(
    ("text", "visible_devices", "expected"),
    [
        ("", None, H100),
        ("0", "1", H100),
        ("1", None, H200),
        ("GPU-bbbb", None, H200),
        ("H100", None, H100),
        ("nvidia h200", None, H200),
        ("CPU", None, None),
        ("cuda", None, H100),
        ("cuda:1", None, H200),
        ("cuda:0", "1", H200),
        ("GPU:0", None, H100),
        ("", "1", H200),
        ("", " 1 , 0", H200),
        ("", "GPU-bbbb", H200),
        ("", "GPU-b", H200),
        ("", "1,-1,0", H200),
        ("", "", None),
        ("", "-1,0", None),
        ("", "7", None),
        ("", "NoDevFiles", None),
    ],
)
def test_a_gpu_is_found_by_its_names_and_by_cuda_visible_devices(
    text: str, visible_devices: str | None, expected: Gpu | None
) -> None:
    machine = builders.gpu_machine(H100, H200)
    assert choose_gpu(text, machine, SHIPPED, visible_devices) == expected
    question = resolve(RunOptions(gpu=text), machine, SHIPPED, visible_devices)
    named = (expected.uuid, "cuda") if expected else (None, "cpu")
    assert (question.gpu, question.device) == named


@pytest.mark.parametrize(
    ("gpus", "text", "told"),
    [
        ((H100, H200), "200", "unknown GPU"),
        ((H100, H200), "GPU-", "unknown GPU"),
        ((), "gpu", "gpu means the first GPU, which is not attached"),
        ((), "cuda:2", "cuda:2 means GPU 2"),
        ((H100,), "4090", f"RTX 4090 is not attached .*{H100.name}"),
        ((H100,), "NVIDIA GeForce RTX 4090", f"RTX 4090 is not attached .*{H100.name}"),
        ((H100,), "rtx 4090", f"RTX 4090 is not attached .*{H100.name}"),
    ],
)
def test_a_gpu_that_is_absent_is_refused(gpus: tuple[Gpu, ...], text: str, told: str) -> None:
    machine = builders.gpu_machine(*gpus) if gpus else builders.machine()
    with pytest.raises(errors.UserError, match=told) as problem:
        choose_gpu(text, machine, SHIPPED)
    assert problem.value.exit_code == (2 if told == "unknown GPU" else 3)


def test_an_unknown_gpu_names_an_index_only_where_one_is_attached() -> None:
    for machine, has_index in ((builders.machine(), False), (builders.gpu_machine(H100), True)):
        with pytest.raises(errors.UnknownGpuError) as problem:
            choose_gpu("7", machine, SHIPPED)
        names = problem.value.next_step.removeprefix("use one of ").split(", ")
        assert ("0" in names) is has_index
        assert {"cpu", "H100"} <= {*names}


def test_a_gpu_with_mig_is_rejected_or_skipped() -> None:
    partitioned = builders.replace(H100, mig=True)
    assert choose_gpu("", builders.gpu_machine(partitioned, H200), SHIPPED) == H200
    for text, visible_devices in (("0", None), ("", "0"), ("", "MIG-4711"), ("MIG-4711", None)):
        with pytest.raises(errors.MigEnabledError, match="MIG") as problem:
            choose_gpu(text, builders.gpu_machine(partitioned, H200), SHIPPED, visible_devices)
        assert "--gpu" in problem.value.next_step
        assert problem.value.exit_code == 3
    assert choose_gpu("cpu", builders.gpu_machine(partitioned), SHIPPED, "MIG-4711") is None


def test_a_cpu_build_of_torch_cannot_use_a_gpu() -> None:
    machine = builders.machine(gpus=(H100,))
    assert choose_gpu("", machine, SHIPPED) is None
    with pytest.raises(errors.NoStackError) as problem:
        choose_gpu("0", machine, SHIPPED)
    assert "without CUDA" in problem.value.what
    assert "--python" in problem.value.next_step


@pytest.mark.parametrize(
    ("model", "on_gpu", "expected"),
    [
        ("demo", False, "float32"),
        ("demo", True, "bfloat16"),
        ("synthetic/ffn", True, "bfloat16"),
        ("synthetic/ffn@llama2-7b", True, "float16"),
        ("synthetic/ffn@llama2-7b", False, "float32"),
        ("synthetic/ffn@8x16", True, "bfloat16"),
        ("meta-llama/Llama-2-7b-chat-hf", True, "float16"),
        ("someone/some-model", True, "bfloat16"),
        ("package.module:build", True, "own"),
    ],
)
def test_the_default_dtype_depends_on_model_and_device(
    model: str, on_gpu: bool, expected: str
) -> None:
    machine = builders.gpu_machine() if on_gpu else builders.machine()
    assert resolved(machine, model=model).dtype == expected
    assert resolved(machine, model=model, dtype="float16").dtype == "float16"


@pytest.mark.parametrize(
    "model", [OnnxModel(name="a.onnx"), ExportedModel(name="a.pt2"), FactoryModel(name="a:b")]
)
def test_a_model_with_its_own_inputs_keeps_dtype_and_batch_size(model: Model) -> None:
    assert choose_dtype("auto", model, SHIPPED.models, on_gpu=True) == "own"
    is_file = not isinstance(model, FactoryModel)
    with pytest.raises(errors.OptionValueError) if is_file else contextlib.nullcontext():
        assert choose_dtype("bfloat16", model, SHIPPED.models, on_gpu=True) == "bfloat16"
    assert default_batch_sizes(model, SHIPPED.models, on_gpu=True) == (1,)


@pytest.mark.parametrize(
    ("text", "seconds"), [("7.5 s", 7.5), ("90s", 90.0), ("5min", 300.0), ("1h", 3600.0)]
)
def test_a_duration_is_a_budget_with_the_rounds_of_the_default_one(
    text: str, seconds: float
) -> None:
    budget = resolved(budget=text).budget
    assert budget.measuring_seconds == seconds
    assert resolved(budget=budget.name).budget == budget
    assert budget.most_rounds == SHIPPED.presets.budgets[SHIPPED.presets.default_budget].most_rounds


def test_the_default_arm_is_the_first_one_under_any_name() -> None:
    for each in SHIPPED.workflows:
        if each.arms:
            first, *others = each.arms
            (chosen,) = resolved(workflows=f"{each.id}/default").workflows
            assert chosen == f"{each.id}/{first}"
            assert "default" not in others


@pytest.mark.parametrize(
    ("text", "suggestion"),
    [
        ("torch-compile-indoctor", "torch-compile-inductor"),
        ("torch-compile-ind", "torch-compile-inductor"),
        ("torch-compile-indoctor/max-autotune", "torch-compile-inductor"),
        ("torchcompile", "torch-compile-inductor"),
        ("TorchAO", "torchao"),
        ("aot_inductr", "aotinductor"),
    ],
)
def test_the_error_of_a_misspelt_workflow_suggests_a_close_one(text: str, suggestion: str) -> None:
    with pytest.raises(errors.UnknownWorkflowError) as problem:
        resolved(workflows=text)
    titles = {each.id: each.title for each in SHIPPED.workflows}
    assert problem.value.next_step == f"did you mean {suggestion} ({titles[suggestion]})?"


@pytest.mark.parametrize("workflow", ["onnxruntime-cpu", "aotinductor"])
def test_the_error_of_an_unknown_arm_lists_the_arms_of_its_workflow(workflow: str) -> None:
    with pytest.raises(errors.UnknownWorkflowError) as problem:
        resolved(leave_out=f"{workflow}/no-such-arm")
    known = SHIPPED.by_id[workflow]
    assert known.arms
    assert all(f"{workflow}/{arm}" in problem.value.next_step for arm in known.arms)
    assert "did you mean" not in problem.value.next_step


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("inductor", ("torch-compile-inductor",)),
        ("Inductor/max-autotune", ("torch-compile-inductor/max-autotune",)),
        ("ort", ("onnxruntime-cpu", "onnxruntime-cuda")),
        ("eager,aoti", ("pytorch-eager", "aotinductor")),
        ("trt,tensorrt", ("tensorrt",)),
    ],
)
def test_a_workflow_may_be_named_as_people_call_it(text: str, expected: tuple[str, ...]) -> None:
    assert resolved(workflows=text).workflows == resolved(leave_out=text).leave_out == expected


def test_no_alias_is_the_name_of_a_workflow() -> None:
    names = {each.id for each in SHIPPED.workflows}
    assert not names & {alias for each in SHIPPED.workflows for alias in each.aliases}


def test_a_workflow_that_is_not_measured_is_never_suggested() -> None:
    for each in SHIPPED.workflows:
        if each.not_measured is not None:
            with pytest.raises(errors.UnknownWorkflowError) as problem:
                resolved(workflows=f"{each.id}x")
            assert f"{each.id}?" not in problem.value.next_step


def test_a_model_is_split_over_equal_gpus_that_cuda_sees() -> None:
    gpus = [builders.gpu(index=index, uuid=f"GPU-{index}") for index in range(4)]
    machine = builders.gpu_machine(builders.gpu(index=4, uuid="GPU-4", name="NVIDIA H200"), *gpus)
    split = resolve(RunOptions(gpu="1", gpus_per_model=3, **SERVED), machine, SHIPPED)
    assert split.gpus == ("GPU-1", "GPU-0", "GPU-2")
    assert split.devices_per_model == 3
    seen = resolve(RunOptions(gpus_per_model=2, **SERVED), machine, SHIPPED, "3,4,2")
    assert seen.gpus == ("GPU-3", "GPU-2")
    one = resolve(RunOptions(gpu="1", price_per_hour=2.0, **SERVED), machine, SHIPPED)
    assert (one.gpus, one.price_of_all_devices) == (("GPU-1",), 2.0)
    assert builders.replace(split, price_per_hour=2.0).price_of_all_devices == 6.0


@pytest.mark.parametrize(
    ("machine", "run_options", "error"),
    [
        (builders.gpu_machine(H100, H200), {**SERVED, "gpu": "0"}, errors.GpuNotAttachedError),
        (builders.machine(), SERVED, errors.GpuNotAttachedError),
        (
            builders.gpu_machine(H100, H100),
            {"model": "demo/llama", "task": "generate"},
            errors.TaskError,
        ),
    ],
)
def test_too_few_equal_gpus_and_other_tasks_are_refused(
    machine: Machine, run_options: dict[str, Any], error: type[errors.UserError]
) -> None:
    with pytest.raises(error):
        resolved(machine, gpus_per_model=2, **run_options)
