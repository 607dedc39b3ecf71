"""`--model`: every form that names a model, and what is said about those that name none."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import builders
import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.domain.question import Exported, Factory, Model, OnnxFile, Synthetic, Transformers
from advisor.errors import (
    ModelRefusedError,
    PickledWeightsError,
    SizeError,
    UnknownModelError,
    UserError,
)
from advisor.question.answers import Answers
from advisor.question.model import parse_model

MODELS = builders.shipped_catalogue().models
TINY_LLAMA = "TinyLlama/TinyLlama-1.1B-Chat-v1.0"


def parse(text: str, **answers: Any) -> Model:
    return parse_model(Answers(model=text, **answers), MODELS)


@pytest.fixture
def here(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """The directory in which relative paths are looked up."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def make_model(directory: pathlib.Path, *weights: str, config: object = None) -> pathlib.Path:
    directory.mkdir()
    (directory / "config.json").write_text(json.dumps(config or {"model_type": "llama"}))
    for name in weights:
        (directory / name).write_bytes(b"weights")
    return directory


def test_the_demo_is_the_one_that_ships() -> None:
    assert parse("demo") == MODELS.demo


@pytest.mark.parametrize("block", ["matmul", "matmul-relu", "ffn", "ffn-multilayer"])
def test_a_synthetic_model_has_the_sizes_of_the_default_family(block: str) -> None:
    family = MODELS.families["tinyllama"]
    layers = family.layers if block == "ffn-multilayer" else 1
    name = f"synthetic/{block}"
    assert parse(name) == Synthetic(
        name=name,
        block=block,  # type: ignore[arg-type]
        hidden=family.hidden,
        intermediate=family.intermediate,
        layers=layers,
    )


@pytest.mark.parametrize("family", MODELS.families)
def test_a_synthetic_model_has_the_sizes_of_the_family_that_is_named(family: str) -> None:
    model = parse(f"synthetic/ffn-multilayer@{family}")
    assert isinstance(model, Synthetic)
    sizes = MODELS.families[family]
    assert (model.hidden, model.intermediate, model.layers) == (
        sizes.hidden,
        sizes.intermediate,
        sizes.layers,
    )


@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        ("synthetic/ffn@8x16", (8, 16, 1)),
        ("synthetic/ffn-multilayer@8x16x3", (8, 16, 3)),
        ("synthetic/ffn-multilayer@8x16", (8, 16, 1)),
        ("synthetic/matmul@131072x524288", (131072, 524288, 1)),
    ],
)
def test_a_synthetic_model_can_have_any_sizes(text: str, sizes: tuple[int, int, int]) -> None:
    model = parse(text)
    assert isinstance(model, Synthetic)
    assert (model.name, (model.hidden, model.intermediate, model.layers)) == (text, sizes)


@pytest.mark.parametrize(
    ("weights_from", "weights"), [("", "random"), ("hub", "hub"), ("/some/where", "/some/where")]
)
def test_a_shipped_configuration_needs_no_network(weights_from: str, weights: str) -> None:
    shipped = MODELS.configurations[TINY_LLAMA].config
    model = parse(TINY_LLAMA, weights_from=weights_from, offline=True)
    assert model == Transformers(
        name=TINY_LLAMA, weights=weights, config=shipped, parameters=1_099_956_224
    )


def test_a_directory_s_weights_are_counted_in_its_files_before_its_configuration(
    here: pathlib.Path,
) -> None:
    sizes = {
        "hidden_size": 8,
        "num_hidden_layers": 1,
        "vocab_size": 10,
        "num_attention_heads": 2,
        "intermediate_size": 16,
    }
    directory = make_model(here / "model", config={"model_type": "llama", **sizes})
    model = parse("model")
    assert isinstance(model, Transformers)
    assert model.parameters == 2 * 10 * 8 + 4 * 8 * 8 + 3 * 8 * 16
    header = json.dumps({"a": {"dtype": "F16", "shape": [3, 5], "data_offsets": [0, 30]}}).encode()
    (directory / "model.safetensors").write_bytes(
        len(header).to_bytes(8, "little") + header + bytes(30)
    )
    model = parse("model")
    assert isinstance(model, Transformers)
    assert model.parameters == 15


def test_another_name_is_one_of_the_hub() -> None:
    assert parse("someone/some-model") == Transformers(name="someone/some-model", weights="random")
    assert parse("someone/some-model", weights_from="hub") == Transformers(
        name="someone/some-model", weights="hub"
    )


def test_a_file_is_named_by_its_whole_path(here: pathlib.Path) -> None:
    """So that a run can be resumed from another directory."""
    for name in ("network.onnx", "network.pt2"):
        (here / name).write_bytes(b"a file")
    assert parse("network.onnx") == OnnxFile(name=str(here / "network.onnx"))
    assert parse("network.pt2") == Exported(name=str(here / "network.pt2"))
    assert parse(str(here / "network.onnx")) == parse("network.onnx")


def test_a_link_to_a_file_keeps_its_name_and_its_neighbours(here: pathlib.Path) -> None:
    """Caches of model hubs link to files whose names are hashes, and an ONNX file looks for its weights beside it."""
    (here / "0123abcd").write_bytes(b"a file")
    (here / "network.onnx").symlink_to("0123abcd")
    assert parse("network.onnx") == OnnxFile(name=str(here / "network.onnx"))


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        ((), "random"),
        (("model.safetensors",), "the directory"),
        (("model.safetensors", "pytorch_model.bin"), "the directory"),
    ],
)
def test_a_directory_brings_its_own_weights_or_gets_random_ones(
    here: pathlib.Path, weights: tuple[str, ...], expected: str
) -> None:
    directory = make_model(here / "model", *weights)
    assert parse("model") == Transformers(
        name=str(directory), weights=expected.replace("the directory", str(directory))
    )


def test_weights_that_are_named_replace_those_of_the_directory(here: pathlib.Path) -> None:
    directory = make_model(here / "model", "model.safetensors")
    assert parse("model", weights_from="random") == Transformers(
        name=str(directory), weights="random"
    )


@pytest.mark.parametrize("pickle", ["pytorch_model.bin", "model.pt", "model.pth"])
def test_pickled_weights_are_read_only_when_allowed(here: pathlib.Path, pickle: str) -> None:
    directory = make_model(here / "model", pickle)
    with pytest.raises(PickledWeightsError) as problem:
        parse("model")
    assert pickle in problem.value.what
    assert "--allow-pickle" in problem.value.next_step
    assert parse("model", allow_pickle=True) == Transformers(
        name=str(directory), weights=str(directory)
    )
    assert parse("model", weights_from="random") == Transformers(
        name=str(directory), weights="random"
    )


def test_a_factory_is_a_function_of_a_module_or_of_a_file(here: pathlib.Path) -> None:
    (here / "mine.py").write_text("def build(): ...")
    assert parse("package.module:build") == Factory(name="package.module:build")
    assert parse("module:build") == Factory(name="module:build")
    assert parse("mine.py:build") == Factory(name=f"{here / 'mine.py'}:build")


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        ("no-such-model", UnknownModelError, "there is no model"),
        ("", UnknownModelError, ""),
        ("synthetic/", UnknownModelError, "no synthetic model"),
        ("synthetic/cube", UnknownModelError, "no synthetic model"),
        ("synthetic/encoder", UnknownModelError, "no synthetic model"),
        ("synthetic/ffn@", UnknownModelError, "no synthetic model"),
        ("synthetic/ffn@huge", UnknownModelError, "no size"),
        ("synthetic/ffn@8", UnknownModelError, "no size"),
        ("synthetic/ffn@8x8x8x8", UnknownModelError, "no size"),
        ("synthetic/ffn@-8x8", UnknownModelError, "no size"),
        ("synthetic/ffn@0x8", SizeError, "out of range"),
        ("synthetic/ffn@8x0", SizeError, "out of range"),
        ("synthetic/ffn-multilayer@8x8x0", SizeError, "out of range"),
        ("synthetic/ffn@131073x8", SizeError, "out of range"),
        (f"synthetic/ffn@{'9' * 40}x8", SizeError, "out of range"),
        (f"synthetic/ffn@{'9' * 5000}x8", UnknownModelError, "no size"),
        ("gone.onnx", UnknownModelError, "there is no file 'gone.onnx'"),
        ("gone.pt2", UnknownModelError, "there is no file 'gone.pt2'"),
        ("gone.py:build", UnknownModelError, "there is no file 'gone.py'"),
        ("module:", UnknownModelError, "no function"),
        ("module:not a name", UnknownModelError, "no function"),
        (":build", UnknownModelError, "neither a module"),
        ("mod-ule:build", UnknownModelError, "neither a module"),
        (".module:build", UnknownModelError, "neither a module"),
        ("x" * 5000, UnknownModelError, "there is no model"),
        ("x" * 5000 + ".onnx", UnknownModelError, "there is no file"),
        ("x" * 5000 + ".py:build", UnknownModelError, "there is no file"),
    ],
)
def test_a_name_that_names_no_model_is_told(
    here: pathlib.Path, text: str, error: type[UserError], words: str
) -> None:
    del here
    with pytest.raises(error) as problem:
        parse(text)
    assert words in problem.value.what
    assert problem.value.next_step


@pytest.mark.parametrize(
    ("text", "meant"),
    [("demmo", "demo"), ("tinyllama/tinyllama-1.1B-chat", TINY_LLAMA), ("synthetic-ffn", "ffn")],
)
def test_a_slip_is_answered_with_what_may_have_been_meant(text: str, meant: str) -> None:
    with pytest.raises(UnknownModelError) as problem:
        parse(text, offline=True)
    assert "did you mean" in problem.value.next_step
    assert meant in problem.value.next_step


def test_a_name_of_the_hub_cannot_be_used_offline() -> None:
    with pytest.raises(UnknownModelError) as problem:
        parse("someone/some-model", offline=True)
    assert "--offline" in problem.value.next_step


def test_a_directory_without_a_configuration_is_no_model(here: pathlib.Path) -> None:
    (here / "empty").mkdir()
    with pytest.raises(UnknownModelError, match=r"config\.json"):
        parse("empty")


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b'"llama"', b'{"hidden_size": 8}', b"\xff\xfe"]
)
def test_a_configuration_that_names_no_kind_of_model_is_refused(
    here: pathlib.Path, content: bytes
) -> None:
    (here / "model").mkdir()
    (here / "model" / "config.json").write_bytes(content)
    with pytest.raises(ModelRefusedError, match=r"config\.json"):
        parse("model")


@given(
    st.text(max_size=60)
    | st.from_regex(r"synthetic/[a-z-]*@\d*x?\d*", fullmatch=True)
    | st.from_regex(r"[\w./-]{1,20}:\w*", fullmatch=True)
)
def test_any_text_is_a_model_or_a_told_error(text: str) -> None:
    error = builders.error_of(lambda: parse(text))
    assert error is None or (
        error.what and error.next_step and "\n" not in error.what + error.next_step
    )
