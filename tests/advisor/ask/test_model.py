"""`--model`: every valid form, and the errors of invalid ones."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import builders
import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.ask.model import HUB_FORM, parse_model
from advisor.ask.run_options import RunOptions
from advisor.domain import errors, model

MODELS = builders.shipped_catalogue().models
TINY_LLAMA = "TinyLlama/TinyLlama-1.1B-Chat-v1.0"


def parse(text: str, **run_options: Any) -> model.Model:
    return parse_model(RunOptions(model=text, **run_options), MODELS)


def make_model(directory: pathlib.Path, *weights: str, config: object = None) -> pathlib.Path:
    directory.mkdir()
    (directory / "config.json").write_text(json.dumps(config or {"model_type": "llama"}))
    for name in weights:
        (directory / name).write_bytes(b"weights")
    return directory


@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        ("synthetic/ffn@8x16", (8, 16, 1)),
        ("synthetic/ffn-multilayer@8x16x3", (8, 16, 3)),
        ("synthetic/matmul@131072x524288", (131072, 524288, 1)),
        *(
            (f"synthetic/ffn-multilayer@{name}", (each.hidden, each.intermediate, each.layers))
            for name, each in MODELS.families.items()
        ),
    ],
)
def test_a_synthetic_model_has_explicit_sizes_or_those_of_a_family(
    text: str, sizes: tuple[int, int, int]
) -> None:
    parsed = parse(text)
    assert isinstance(parsed, model.SyntheticModel)
    assert (parsed.name, (parsed.hidden, parsed.intermediate, parsed.layers)) == (text, sizes)


@pytest.mark.parametrize(("weights_from", "weights"), [("", "random"), ("hub", "hub")])
def test_a_shipped_configuration_needs_no_network(weights_from: str, weights: str) -> None:
    shipped = MODELS.configurations[TINY_LLAMA].config
    parsed = parse(TINY_LLAMA, weights_from=weights_from, offline=True)
    assert parsed == model.TransformersModel(
        name=TINY_LLAMA, weights=weights, config=shipped, parameters=1_099_956_224
    )


def test_weights_are_counted_in_files_before_the_configuration(here: pathlib.Path) -> None:
    sizes = {
        "hidden_size": 8,
        "num_hidden_layers": 1,
        "vocab_size": 10,
        "num_attention_heads": 2,
        "intermediate_size": 16,
        "head_dim": 6,
        "tie_word_embeddings": True,
    }
    directory = make_model(here / "model", config={"model_type": "llama", **sizes})
    parsed = parse("model")
    assert isinstance(parsed, model.TransformersModel)
    assert parsed.parameters == 10 * 8 + 4 * 8 * (2 * 6) + 3 * 8 * 16
    header = json.dumps({"a": {"dtype": "F16", "shape": [3, 5], "data_offsets": [0, 30]}}).encode()
    (directory / "model.safetensors").write_bytes(
        len(header).to_bytes(8, "little") + header + bytes(30)
    )
    parsed = parse("model")
    assert isinstance(parsed, model.TransformersModel)
    assert parsed.parameters == 15


@pytest.mark.parametrize(("weights_from", "weights"), [("", "random"), ("hub", "hub")])
def test_any_other_name_is_a_hub_name(weights_from: str, weights: str) -> None:
    found = parse("someone/some-model", weights_from=weights_from)
    assert found == model.TransformersModel(name="someone/some-model", weights=weights)


def test_a_file_is_named_by_its_absolute_path(here: pathlib.Path) -> None:
    """A run can then be resumed from another directory."""
    (here / "network.pt2").write_bytes(b"a file")
    # Hub caches link to files named by hashes; an ONNX file has its weights next to it.
    (here / "0123abcd").write_bytes(b"a file")
    (here / "network.onnx").symlink_to("0123abcd")
    assert parse("network.onnx") == model.OnnxModel(name=str(here / "network.onnx"))
    assert parse("network.pt2") == model.ExportedModel(name=str(here / "network.pt2"))
    assert parse(str(here / "network.onnx")) == parse("network.onnx")


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        ((), "random"),
        (("model.safetensors",), "the directory"),
        (("model.safetensors", "pytorch_model.bin"), "the directory"),
    ],
)
def test_a_directory_without_weights_gets_random_ones(
    here: pathlib.Path, weights: tuple[str, ...], expected: str
) -> None:
    directory = make_model(here / "model", *weights)
    assert parse("model") == model.TransformersModel(
        name=str(directory), weights=expected.replace("the directory", str(directory))
    )


def test_a_directory_of_weights_is_named_by_its_absolute_path(here: pathlib.Path) -> None:
    (here / "weights").mkdir()
    for name in (TINY_LLAMA, "someone/some-model"):
        parsed = parse(name, weights_from="weights")
        assert isinstance(parsed, model.TransformersModel)
        assert parsed.weights == str(here / "weights")


@pytest.mark.parametrize(
    ("text", "weights_from"),
    [(TINY_LLAMA, "missing"), ("someone/some-model", "x" * 5000), ("demo", "hub")],
)
def test_weights_that_cannot_be_used_are_refused(text: str, weights_from: str) -> None:
    with pytest.raises(errors.ModelRefusedError) as problem:
        parse(text, weights_from=weights_from)
    assert "--weights-from" in problem.value.what


@pytest.mark.parametrize("pickle", ["pytorch_model.bin", "model.pt", "model.pth"])
def test_pickled_weights_need_allow_pickle(here: pathlib.Path, pickle: str) -> None:
    directory = make_model(here / "model", pickle)
    with pytest.raises(errors.PickledWeightsError) as problem:
        parse("model")
    assert pickle in problem.value.what
    assert "--allow-pickle" in problem.value.next_step
    assert parse("model", allow_pickle=True) == model.TransformersModel(
        name=str(directory), weights=str(directory)
    )
    assert parse("model", weights_from="random") == model.TransformersModel(
        name=str(directory), weights="random"
    )


def test_a_factory_is_a_function_of_a_module_or_file(here: pathlib.Path) -> None:
    (here / "mine.py").write_text("def build(): ...")
    assert parse("package.module:build") == model.FactoryModel(name="package.module:build")
    assert parse("module:build") == model.FactoryModel(name="module:build")
    assert parse("mine.py:build") == model.FactoryModel(name=f"{here / 'mine.py'}:build")


@pytest.mark.parametrize(
    ("text", "error", "step"),
    [
        ("mine:build", errors.UnknownModelError, "did you mean mine.py:build?"),
        ("mine", errors.UnknownModelError, "did you mean mine.py:build?"),
        ("mine.py", errors.UnknownModelError, "write it after a colon: mine.py:build"),
        ("empty.py", errors.UnknownModelError, "write it after a colon: empty.py:build"),
        ("mine.py:buld", errors.OptionValueError, "did you mean build?"),
        ("mine.py:other", errors.OptionValueError, "use one of build"),
        ("net.onx", errors.UnknownModelError, f"did you mean net.onnx? Otherwise, {HUB_FORM}"),
    ],
)
def test_a_file_in_this_directory_is_offered_with_its_functions(
    text: str, error: type[errors.UserError], step: str, here: pathlib.Path
) -> None:
    (here / "mine.py").write_text("def build(): return 1, 2\nclass Net: ...\n")
    for name in ("empty.py", "net.onnx"):
        (here / name).touch()
    with pytest.raises(error) as refusal:
        parse(text)
    assert refusal.value.next_step == step
    assert refusal.value.exit_code == 2


def test_what_likely_makes_a_model_is_offered_before_its_helpers(here: pathlib.Path) -> None:
    (here / "models.py").write_text(
        "import torch\n"
        "class Settings: ...\n"
        "class Block(torch.nn.Module):\n    def __init__(self, width): ...\n"
        "class Net(torch.nn.Module):\n    def forward(self, x): ...\n"
        "def net_inputs(): return 1, 2\n"
        "def _load(): return Net(), 1\n"
        "def scale(x): return x\n"
        "def net(*, width=8): return Net(width)\n"
        "def main(): print(net())\n"
        "def build(width=8):\n    model = Net(width)\n    return model, (torch.ones(4, 8),)\n"
    )
    with pytest.raises(errors.UnknownModelError) as refusal:
        parse("models.py")
    offered = refusal.value.next_step.partition("colon: ")[2].split(" or ")
    assert offered == ["models.py:build", "models.py:net", "models.py:main"]
    with pytest.raises(errors.OptionValueError, match="arguments x"):
        parse("models.py:scale")
    with pytest.raises(errors.OptionValueError, match="is a class"):
        parse("models.py:Net")
    assert isinstance(parse("models.py:Net", inputs="models.py:main"), model.FactoryModel)


@pytest.mark.parametrize(
    "source",
    [
        "from elsewhere import build",
        "from elsewhere import *",
        "import functools\nbuild = functools.partial(print)",
        "if True:\n    def build(): ...",
        "try:\n    from a import b as build\nexcept ImportError:\n    pass",
    ],
)
def test_a_factory_may_be_imported_or_assigned(source: str, here: pathlib.Path) -> None:
    (here / "mine.py").write_text(source)
    assert isinstance(parse("mine.py:build"), model.FactoryModel)


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        ("no-such-model", errors.UnknownModelError, "unknown model"),
        ("", errors.UnknownModelError, ""),
        ("/no/such/folder", errors.UnknownModelError, "neither a file nor a directory"),
        ("demo/bret", errors.UnknownModelError, "unknown model"),
        ("synthetic/cube", errors.UnknownModelError, "not a synthetic model"),
        ("synthetic/encoder", errors.UnknownModelError, "not a synthetic model"),
        ("synthetic/ffn@", errors.UnknownModelError, "not a synthetic model"),
        ("synthetic/ffn@-8x8", errors.UnknownModelError, "not a valid size"),
        ("synthetic/ffn@0x8", errors.OptionValueError, "out of range"),
        ("synthetic/ffn-multilayer@8x8x0", errors.OptionValueError, "out of range"),
        ("synthetic/ffn@131073x8", errors.OptionValueError, "out of range"),
        (f"synthetic/ffn@{'9' * 5000}x8", errors.UnknownModelError, "not a valid size"),
        ("gone.onnx", errors.UnknownModelError, "file 'gone.onnx' does not exist"),
        ("gone.py:build", errors.UnknownModelError, "file 'gone.py' does not exist"),
        ("module:not a name", errors.UnknownModelError, "name of a function"),
        ("mod-ule:build", errors.UnknownModelError, "neither a module name"),
        (".module:build", errors.UnknownModelError, "neither a module name"),
        ("x" * 5000, errors.UnknownModelError, "unknown model"),
        ("x" * 5000 + ".onnx", errors.UnknownModelError, "does not exist"),
        ("whole.pth", errors.UnknownModelError, "neither a .pt2 nor an .onnx file"),
    ],
)
def test_an_invalid_name_is_an_error(
    here: pathlib.Path, text: str, error: type[errors.UserError], words: str
) -> None:
    (here / "whole.pth").touch()
    with pytest.raises(error) as problem:
        parse(text)
    assert words in problem.value.what
    assert problem.value.next_step
    assert "smaller" not in problem.value.next_step, "it may be too small"


@pytest.mark.parametrize(
    ("text", "offline", "step"),
    [
        *((text, False, "OWNER/NAME") for text in ("bert-base-uncased", "gpt2", "demmo")),
        ("someone/some-model", True, "--offline"),
        ("demmo", True, "did you mean demo"),
        ("tinyllama/tinyllama-1.1B-chat", True, f"did you mean {TINY_LLAMA}"),
        ("synthetic-ffn", True, "did you mean synthetic/ffn"),
    ],
)
def test_the_error_of_a_name_suggests_a_close_one_or_states_the_form_of_hub_names(
    text: str, *, offline: bool, step: str
) -> None:
    with pytest.raises(errors.UnknownModelError) as problem:
        parse(text, offline=offline)
    assert step in problem.value.next_step


@pytest.mark.parametrize(
    "content", [None, b"", b"{", b"[]", b'"llama"', b'{"hidden_size": 8}', b"\xff\xfe"]
)
def test_a_directory_without_a_configuration_or_its_model_type_is_an_error(
    here: pathlib.Path, content: bytes | None
) -> None:
    (here / "model").mkdir()
    if content is not None:
        (here / "model" / "config.json").write_bytes(content)
    refusal = errors.UnknownModelError if content is None else errors.ModelRefusedError
    with pytest.raises(refusal, match=r"config\.json"):
        parse("model")


@pytest.mark.parametrize("name", ["model.onnx", "model.pt2", "model"])
def test_a_pointer_of_git_lfs_is_an_error(here: pathlib.Path, name: str) -> None:
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"
    if name == "model":
        (make_model(here / name, "model.safetensors") / "model.safetensors").write_bytes(pointer)
    else:
        (here / name).write_bytes(pointer)
    with pytest.raises(errors.ModelRefusedError) as problem:
        parse(name)
    assert "git lfs pull" in problem.value.next_step


@given(
    st.text(max_size=60)
    | st.from_regex(r"synthetic/[a-z-]*@\d*x?\d*", fullmatch=True)
    | st.from_regex(r"[\w./-]{1,20}:\w*", fullmatch=True)
)
def test_any_text_is_a_model_or_a_one_line_error(text: str) -> None:
    error = builders.error_of(lambda: parse(text))
    assert error is None or (
        error.what and error.next_step and "\n" not in error.what + error.next_step
    )
