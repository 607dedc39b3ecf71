"""The task of each model, what its files say, lengths and their mix, and the load of servers."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import builders
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.ask import model_files
from advisor.ask.resolve import resolve
from advisor.ask.run_options import RunOptions
from advisor.ask.task import choose_lengths, parse_load, suggest_task
from advisor.domain.errors import OptionValueError, TaskError, UserError
from advisor.domain.model import ExportedModel, Model, TransformersModel
from advisor.domain.question import Lengths, Question, Task
from probes.shape import Shape

SHIPPED = builders.shipped_catalogue()


def resolved(**run_options: str | int) -> Question:
    return resolve(msgspec.convert(run_options, RunOptions), builders.machine(), SHIPPED)


def test_the_default_model_of_generation_is_the_demo_language_model() -> None:
    asked = resolved(task="generate")
    assert isinstance(asked.model, TransformersModel)
    assert asked.task == "generate"
    assert (asked.model.name, asked.model.weights) == ("demo/llama", "random")
    assert asked.batch_sizes == SHIPPED.models.cpu_batch_sizes
    assert (asked.input_tokens, asked.output_tokens) == (32, 32)
    assert set(SHIPPED.models.demo_language_models) <= set(SHIPPED.models.configurations)


@pytest.mark.parametrize("model", ["synthetic/ffn", "package.module:factory"])
def test_a_model_that_is_no_language_model_cannot_generate(model: str) -> None:
    with pytest.raises(TaskError, match="cannot generate") as refused:
        resolved(task="generate", model=model)
    assert "demo/llama" in refused.value.next_step


@pytest.mark.parametrize(
    ("config", "task"),
    [
        ('{"architectures": ["GPT2LMHeadModel"]}', "generate"),
        ('{"architectures": ["BertForMaskedLM"]}', "forward"),
        ('{"architectures": "Llama"}', "forward"),
        ("[1]", "forward"),
        ("not JSON", "forward"),
    ],
)
def test_generation_is_suggested_for_a_causal_language_model(
    tmp_path: pathlib.Path, config: str, task: str
) -> None:
    (tmp_path / "config.json").write_text(config)
    assert suggest_task(str(tmp_path), SHIPPED.models) == task


@pytest.mark.parametrize(
    ("model", "task"),
    [("demo/gpt2", "generate"), ("demo", "forward"), ("gone/away", "forward"), ("a\0b", "forward")],
)
def test_the_suggestion_uses_shipped_configurations_and_local_files(model: str, task: str) -> None:
    assert suggest_task(model, SHIPPED.models) == task


@pytest.mark.parametrize(
    ("workflows", "task"),
    [
        ("", "generate"),
        ("torch-compile-inductor", "generate"),
        ("vllm,torch-compile-inductor", "generate"),
        ("onnxruntime-cpu", "forward"),
        ("onnxruntime-cpu,torch-compile-inductor", "forward"),
        ("openvino/dynamic", "forward"),
    ],
)
def test_the_task_of_a_language_model_suits_the_named_workflows(workflows: str, task: str) -> None:
    assert resolved(model="demo/llama", workflows=workflows).task == task


def test_workflows_without_a_common_task_are_refused_by_name() -> None:
    with pytest.raises(TaskError, match="onnxruntime-cpu") as refused:
        resolved(model="demo/llama", workflows="onnxruntime-cpu,vllm")
    assert "vllm" in refused.value.what
    assert "--task forward" in refused.value.next_step
    forced = resolved(model="demo/llama", workflows="onnxruntime-cpu,vllm", task="forward")
    assert forced.task == "forward"


MODEL = TransformersModel(
    name="demo/llama", weights="random", config={"max_position_embeddings": 2048}
)


def serve(**changes: Any) -> RunOptions:
    return RunOptions(**{"task": "serve", "ttft": "500ms", "itl": "0.05s", **changes})


def test_limits_and_lengths_become_values_of_the_question_or_have_defaults() -> None:
    load = builders.known(
        parse_load(serve(lengths="rag", percentile=99, rate=2.5), "serve", MODEL, SHIPPED)
    )
    assert (load.ttft_seconds, load.itl_seconds, load.share, load.rate) == (0.5, 0.05, 0.99, 2.5)
    assert load.lengths == SHIPPED.serving.mixes["rag"].requests
    load = builders.known(parse_load(serve(), "serve", MODEL, SHIPPED))
    assert (load.name, load.share, load.rate) == ("chat", 0.95, None)


def test_lengths_can_come_from_a_file(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "mine.jsonl"
    file.write_text(
        '{"input_tokens": 5, "output_tokens": 7}\n\n{"input_tokens": 9, "output_tokens": 2}\n'
    )
    load = builders.known(parse_load(serve(lengths=str(file)), "serve", MODEL, SHIPPED))
    assert load.name == "mine.jsonl"
    assert [(each.input_tokens, each.output_tokens) for each in load.lengths] == [(5, 7), (9, 2)]
    assert load.most_tokens == 12


@pytest.mark.parametrize(
    ("run_options", "task", "error"),
    [
        (RunOptions(task="serve"), "serve", TaskError),
        (serve(itl=""), "serve", TaskError),
        (serve(ttft=""), "serve", TaskError),
        (RunOptions(ttft="500ms"), "generate", TaskError),
        (RunOptions(percentile=99.0), "forward", TaskError),
        (RunOptions(rate=5.0), "generate", TaskError),
        (serve(sandbox=True), "serve", TaskError),
        (serve(percentile=20.0), "serve", OptionValueError),
        (serve(ttft="soon"), "serve", OptionValueError),
        (serve(lengths="no-such-mix"), "serve", OptionValueError),
        (serve(lengths="/dev/null"), "serve", OptionValueError),
    ],
)
def test_what_does_not_fit_is_refused(
    run_options: RunOptions, task: str, error: type[UserError]
) -> None:
    with pytest.raises(error):
        parse_load(run_options, task, MODEL, SHIPPED)


@pytest.mark.parametrize(
    "line",
    [
        '{"input_tokens": 0, "output_tokens": 7}',
        '{"input_tokens": 1}',
        '{"input_tokens": 2, "output_tokens": 1}',
        '{"input_tokens": 2048, "output_tokens": 2}',
        "word",
        "[" * 100_000,
    ],
)
def test_lengths_that_no_request_has_are_refused(tmp_path: pathlib.Path, line: str) -> None:
    file = tmp_path / "lengths.jsonl"
    file.write_text(f"{line}\n")
    with pytest.raises(OptionValueError):
        parse_load(serve(lengths=str(file)), "serve", MODEL, SHIPPED)


def test_every_named_mix_has_a_source_and_a_reason_where_it_is_not_confirmed() -> None:
    for mix in SHIPPED.serving.mixes.values():
        assert mix.source.startswith("https://")
        assert mix.basis == "stated" or mix.because


def choose(
    inputs: str,
    outputs: str,
    mix: str = "",
    *,
    model: Model = builders.DEMO,
    task: Task = "generate",
) -> tuple[Lengths, ...]:
    run_options = RunOptions(input_tokens=inputs, output_tokens=outputs, length_mix=mix)
    return choose_lengths(run_options, model, task)


def shares(*texts: str) -> dict[tuple[int, int], float]:
    return {(each.input_tokens, each.output_tokens): each.share for each in choose(*texts)}


def test_shapes_have_the_lengths_only_where_there_are_several() -> None:
    one = builders.question(lengths=choose("512", "16"), batch_sizes=(1, 4))
    assert one.shapes == (Shape(1), Shape(4))
    assert one.shape_weights == {Shape(1): 1, Shape(4): 1}
    lengths = choose("32,512", "16", "32:3,512:1")
    several = builders.question(lengths=lengths, batch_sizes=(1, 4), task="generate")
    shares = ((32, 1.5), (512, 0.5))
    expected = {Shape(size, tokens, 16): share for tokens, share in shares for size in (1, 4)}
    assert several.shape_weights == expected
    assert (several.input_tokens, several.output_tokens) == (512, 16)
    forward = builders.question(lengths=lengths, batch_sizes=(1,))
    assert forward.shapes == (Shape(1, 32), Shape(1, 512))


@pytest.mark.parametrize(
    ("mix", "expected"),
    [
        ("", {(32, 16): 0.25, (32, 128): 0.25, (512, 16): 0.25, (512, 128): 0.25}),
        ("32:70,512:30", {(32, 16): 0.35, (32, 128): 0.35, (512, 16): 0.15, (512, 128): 0.15}),
        ("32/16:3,512/128:1", {(32, 16): 0.75, (32, 128): 0, (512, 16): 0, (512, 128): 0.25}),
        ("32/16:2,512:2", {(32, 16): 0.5, (32, 128): 0, (512, 16): 0.25, (512, 128): 0.25}),
        ("512:5%", {(32, 16): 0, (32, 128): 0, (512, 16): 0.5, (512, 128): 0.5}),
    ],
)
def test_two_lists_form_every_pair_and_a_mix_names_inputs_or_pairs(
    mix: str, expected: dict[tuple[int, int], float]
) -> None:
    assert shares("512, 32", "128,16", mix) == pytest.approx(expected)


@given(st.lists(st.integers(1, 1000), min_size=3, max_size=3), st.integers(1, 50))
def test_scaling_a_mix_changes_nothing(weights: list[int], factor: int) -> None:
    one, two = (
        shares("1,2,3", "4", ",".join(f"{n}:{each * by}" for n, each in enumerate(weights, 1)))
        for by in (1, factor)
    )
    assert one == pytest.approx(two)
    assert sum(one.values()) == pytest.approx(1)


@pytest.mark.parametrize(
    "texts",
    [
        ("1", "0"),
        ("1", f"{1 << 21}"),
        ("8", "1", "8:100"),
        ("8,16", "1", "32:100"),
        ("8,16", "1", "8:50,8:50"),
        ("8,16", "1", "8:50,8/1:50"),
        ("8,16", "1", "8:0"),
        ("8,16", "1", "8:nan"),
        ("8,16", "1", "8"),
    ],
)
def test_invalid_lengths_and_mixes_are_user_errors(texts: tuple[str, ...]) -> None:
    problem = builders.known(builders.error_of(lambda: choose(*texts)))
    assert (problem.name, problem.exit_code) == ("option-value", 2)
    assert problem.next_step


def test_several_lengths_are_refused_where_figures_do_not_depend_on_them() -> None:
    for refused in (
        builders.error_of(lambda: choose("8,16", "4", task="serve")),
        builders.error_of(lambda: choose("8,16", "4", model=ExportedModel(name="model.pt2"))),
        builders.error_of(lambda: choose("8", "4,16", task="forward")),
    ):
        assert builders.known(refused).name == "option-value"


def write_tensors(file: pathlib.Path, **shapes: list[int]) -> None:
    tensors = {
        name: {"dtype": "F16", "shape": shape, "data_offsets": [0, 0]}
        for name, shape in shapes.items()
    }
    header = json.dumps({"__metadata__": {"format": "pt"}, **tensors}).encode()
    file.write_bytes(len(header).to_bytes(8, "little") + header)


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"model_type": "gpt2", "n_embd": 8},
        {"model_type": "llama", "hidden_size": "8"},
        {"model_type": []},
    ],
)
def test_other_configurations_have_no_count(config: dict[str, Any]) -> None:
    assert model_files.count_in_config(config, SHIPPED.models.gated_decoders) is None


def test_only_the_named_model_types_are_counted() -> None:
    config = {**SHIPPED.models.configurations["demo/llama"].config, "model_type": "another"}
    assert model_files.count_in_config(config, {"llama"}) is None
    assert model_files.count_in_config(config, {"another"}) is not None


def test_weights_are_counted_in_the_headers_of_all_files(tmp_path: pathlib.Path) -> None:
    write_tensors(tmp_path / "model-00001-of-00002.safetensors", one=[3, 5], two=[7])
    write_tensors(tmp_path / "model-00002-of-00002.safetensors", three=[2, 2, 2], scalar=[])
    assert model_files.count_in_files(tmp_path) == 15 + 7 + 8 + 1


@pytest.mark.parametrize(
    "content", [b"", b"weights", b"\xff" * 8 + b"{}", b"\x02" + b"\0" * 7 + b"[]"]
)
def test_a_broken_file_gives_no_count(content: bytes, tmp_path: pathlib.Path) -> None:
    assert model_files.count_in_files(tmp_path) is None, "there is no file yet"
    (tmp_path / "model.safetensors").write_bytes(content)
    assert model_files.count_in_files(tmp_path) is None
