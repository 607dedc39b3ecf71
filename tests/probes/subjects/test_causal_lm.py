"""Language models of every architecture generate text and have a reference and a known traffic."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import pathlib
import types
from typing import Any

import pytest
import workers
from lazy import causal_lm, lazy, pytorch_eager, torch, transformers_generate

from probes import protocol
from probes.adapter import ModelError, UnsupportedError

workflow = lazy("probes.workflows.torch_compile_inductor_static_cache")

pytestmark = [pytest.mark.stack, pytest.mark.filterwarnings("ignore")]
BATCH, PROMPT, NEW = 2, 5, 4
TINY = {
    "vocab_size": 50,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
}
GROUPED = {**TINY, "num_key_value_heads": 2, "head_dim": 8}
EXPERTS = {**GROUPED, "num_local_experts": 4, "num_experts_per_tok": 1}
#: By architecture: the configuration, the precision of the reference, and the bytes of the cache of
#: a token, 2 layers with keys and values in float32.
MODELS: dict[str, tuple[dict[str, Any], str, int | None]] = {
    "GPTNeoXForCausalLM": ({"model_type": "gpt_neox", **TINY}, "float64", 2 * 2 * 32 * 4),
    "Gemma2ForCausalLM": (
        {"model_type": "gemma2", **GROUPED, "sliding_window": 4},
        "float64",
        None,
    ),
    "BloomForCausalLM": (
        {"model_type": "bloom", "vocab_size": 50, "hidden_size": 32, "n_layer": 2, "n_head": 4},
        "float64",
        2 * 2 * 32 * 4,
    ),
    "FalconForCausalLM": ({"model_type": "falcon", **TINY}, "float64", 2 * 2 * 8 * 4),
    "MixtralForCausalLM": ({"model_type": "mixtral", **EXPERTS}, "float32", 2 * 2 * 16 * 4),
    "MambaForCausalLM": (
        {
            "model_type": "mamba",
            "vocab_size": 50,
            "hidden_size": 32,
            "state_size": 4,
            "num_hidden_layers": 2,
        },
        "float64",
        None,
    ),
    # The number of the end-of-text token is that of the full vocabulary.
    "GPT2LMHeadModel": (
        {
            "model_type": "gpt2",
            "vocab_size": 50,
            "n_embd": 32,
            "n_layer": 2,
            "n_head": 4,
            "eos_token_id": 50256,
        },
        "float64",
        2 * 2 * 32 * 4,
    ),
}


def write_request(config: dict[str, Any], directory: pathlib.Path) -> protocol.Request:
    """Write the configuration, and return the request for random weights of it."""
    return workers.subject_request(
        workers.random_weights(config, directory),
        directory,
        task=protocol.GENERATE,
        input_tokens=PROMPT,
        output_tokens=NEW,
    )


@pytest.mark.parametrize("architecture", MODELS)
def test_a_language_model_generates_and_has_a_reference(
    architecture: str, tmp_path: pathlib.Path
) -> None:
    config, precision, cache = MODELS[architecture]
    request = write_request({**config, "architectures": [architecture]}, tmp_path)
    with torch.inference_mode():
        subject = causal_lm.open_causal_lm(request)
        program = transformers_generate.TextGeneration(subject.model, request)
        prompts = program.feed(subject.inputs(BATCH, 0))
        (tokens,) = program.collect(program(prompts))
        name, runs = subject.reference_runs(program, [prompts])
        (run,) = runs
        subject.request.options[protocol.QUICK_REFERENCE] = True
        assert subject.reference_runs(program, [prompts])[0] == "float32"
    assert tokens.shape == run.tokens.shape == (BATCH, NEW)
    assert name == precision
    assert subject.info.cache_bytes_per_token == cache
    moved, step, _ = subject.memory_traffic(BATCH)
    assert moved > 0
    assert (step is None) == (cache is None)


def test_experts_that_a_token_does_not_use_are_not_counted_as_read(tmp_path: pathlib.Path) -> None:
    config = {"model_type": "mixtral", **EXPERTS, "architectures": ["MixtralForCausalLM"]}
    with torch.inference_mode():
        subject = causal_lm.open_causal_lm(write_request(config, tmp_path))
    # Each expert has three matrices.
    expert = 3 * 32 * 64 * 4
    layers, idle_experts = 2, 3
    table = 50 * 32 * 4
    cache = 2 * 2 * 16 * 4
    weights = subject.parameter_bytes - table - layers * idle_experts * expert
    _, step, _ = subject.memory_traffic(1)
    lengths = range(PROMPT + 1, PROMPT + NEW)
    assert step == weights + cache * sum(lengths) // len(lengths)


@pytest.mark.parametrize("options", [{}, {"loop": "compiled"}], ids=["default", "loop"])
@pytest.mark.parametrize("architecture", ["GPTNeoXForCausalLM", "MixtralForCausalLM"])
def test_a_cache_of_fixed_size_does_not_change_the_text(
    architecture: str,
    options: dict[str, str],
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The cache is tested here; compiling takes half a minute.
    monkeypatch.setattr("torch.compile", lambda call, **_: call)
    config, _, _ = MODELS[architecture]
    request = write_request({**config, "architectures": [architecture]}, tmp_path)
    texts = []
    for adapter, asked in ((pytorch_eager, {}), (workflow, options)):
        changed = dataclasses.replace(request, options=asked)
        with torch.no_grad():
            subject = adapter.open_subject(changed)
            inputs = subject.inputs(BATCH, 0)
            program = adapter.build(subject, inputs, changed)
            (tokens,) = program.collect(program(program.feed(inputs)))
        texts.append(tokens)
    assert texts[0].shape == (BATCH, NEW)
    assert (texts[0] == texts[1]).all()


def test_a_model_that_needs_an_image_is_refused(tmp_path: pathlib.Path) -> None:
    config = {"model_type": "llava", "architectures": ["LlavaForConditionalGeneration"]}
    with pytest.raises(ModelError):
        causal_lm.open_causal_lm(write_request(config, tmp_path))


def test_a_model_is_called_with_its_own_keyword_and_unsupported_without_one() -> None:
    present, earlier, without = (
        types.SimpleNamespace(forward=forward)
        for forward in (
            lambda input_ids, cache=None: (input_ids, cache),
            lambda input_ids, past_key_values=None: (input_ids, past_key_values),
            lambda input_ids: input_ids,
        )
    )
    assert transformers_generate.cache_keyword(present) == "cache"
    assert transformers_generate.cache_keyword(earlier) == "past_key_values"
    with pytest.raises(UnsupportedError):
        transformers_generate.cache_keyword(without)


@pytest.mark.parametrize(
    ("version", "keyword"),
    [
        ("5.0.0", "past_key_values"),
        ("5.23.1", "past_key_values"),
        ("5.24.0", "cache"),
        ("5.24.0.dev0", "cache"),
        ("6.0.0", "cache"),
        (None, "cache"),
    ],
)
def test_the_lines_that_are_handed_out_fit_the_installed_release(
    version: str | None, keyword: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def find_version(name: str) -> str:
        if version is None:
            raise importlib.metadata.PackageNotFoundError(name)
        return version

    monkeypatch.setattr(importlib.metadata, "version", find_version)
    assert transformers_generate.installed_keyword() == keyword


@pytest.mark.parametrize(
    ("output", "found"),
    [({"cache": 1}, 1), ({"past_key_values": 2}, 2), ({"cache": None, "logits": 3}, None)],
)
def test_the_cache_of_an_output_is_found_by_either_name(output: dict[str, Any], found: Any) -> None:
    assert transformers_generate.cache_of(types.SimpleNamespace(**output)) == found
