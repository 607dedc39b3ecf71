"""A causal language model that generates text: prompts, the shared checkpoint, and the reference run in higher precision."""

from __future__ import annotations

import copy
import json
import pathlib
import shutil
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers

from probes.adapter import ModelError, UnsupportedError
from probes.checking import text_correctness
from probes.checking.text_correctness import Run
from probes.protocol import Request
from probes.subjects import checkpoint, transformers_model
from probes.subjects.flops import count_flops
from probes.subjects.opening import MOST_PARAMETERS_IN_FLOAT64
from probes.subjects.transformers_generate import TextGeneration

#: Tokens that a prompt never has: padding, beginning and end of a text in most vocabularies.
FIRST_ORDINARY_TOKEN = 3


class CausalLm:
    """A language model on its device, in the tested precision; see `probes.adapter.Subject`."""

    unit = "tokens"

    def __init__(self, model: Any, request: Request) -> None:
        self.model = model
        self.note = checkpoint.read_note(request)
        self.parameters = self.note.parameters
        self.parameter_bytes = self.note.parameter_bytes
        self.weights = self.note.weights
        self.units_per_sample = request.output_tokens
        self.dtype = str(model.dtype).removeprefix("torch.")
        self.request = request

    def inputs(self, batch_size: int, number: int) -> list[Any]:
        """Return seeded prompts: no two of them begin alike, so that no engine can use one for another."""
        generator = np.random.default_rng([self.request.seed, batch_size, number])
        shape = (batch_size, self.request.input_tokens)
        return [
            generator.integers(
                FIRST_ORDINARY_TOKEN, self.note.vocabulary, size=shape, dtype=np.int64
            )
        ]

    def reference_runs(self, eager: TextGeneration, fed: list[Any]) -> tuple[str, Iterator[Run]]:
        """Name the higher precision and yield what it gives for each input set."""
        dtype = torch.float64 if self.parameters <= MOST_PARAMETERS_IN_FLOAT64 else torch.float32
        return str(dtype).removeprefix("torch."), self._runs_in(dtype, eager, fed)

    def _runs_in(self, dtype: torch.dtype, eager: TextGeneration, fed: list[Any]) -> Iterator[Run]:
        precise = TextGeneration(copy.deepcopy(self.model).to(dtype), self.request)
        batch_size = len(fed[0])
        rows = text_correctness.rows_kept(
            batch_size, self.request.output_tokens, self.note.vocabulary, self.request.input_sets
        )
        for value in fed:
            (tokens,) = precise.collect(precise(value))
            exact, likeliest = precise.score_all(value, tokens, rows)
            yield Run(tokens, exact, likeliest, eager.score(value, tokens, rows))

    def flops(self, inputs: list[Any]) -> int | None:
        """Count the operations of matrix products and attention in one call."""
        program = TextGeneration(self.model, self.request)
        return count_flops(lambda: program(program.feed(inputs)))

    def traffic(self, batch_size: int) -> tuple[int, int | None, int | None]:
        """Return the bytes that a call and a decode step move at the least, and what the cache holds in the end.

        Each pass reads every weight but the table of embeddings, of which it takes a few rows, and
        each step the cache so far.
        """
        table = self.model.get_input_embeddings().weight
        tied = (
            self.model.get_output_embeddings() is None
            or self.model.get_output_embeddings().weight is table
        )
        weights = self.parameter_bytes - (0 if tied else table.nbytes)
        prompt, new = self.request.input_tokens, self.request.output_tokens
        each = self.note.cache_bytes_per_token
        if each is None:
            return weights * new, None, None
        steps = [weights + batch_size * length * each for length in range(prompt + 1, prompt + new)]
        cache = batch_size * (prompt + new) * each
        return weights + sum(steps), sum(steps) // len(steps) if steps else None, cache


def open_causal_lm(request: Request) -> CausalLm:
    """Open the run's checkpoint; the reference worker, which comes first, makes it."""
    if request.subject["kind"] != "transformers":
        message = f"a model of the kind {request.subject['kind']!r} does not generate text"
        raise UnsupportedError(message)
    folder = checkpoint.folder_of(request)
    if not folder.exists():
        create_checkpoint(folder, request)
    model = transformers.AutoModelForCausalLM.from_pretrained(
        folder,
        dtype=getattr(torch, checkpoint.read_note(request).dtype),
        attn_implementation="sdpa",
        use_safetensors=True,
        trust_remote_code=request.trust_remote_code,
    )
    model.eval().requires_grad_(requires_grad=False).to(request.device)
    return CausalLm(model, request)


def create_checkpoint(folder: pathlib.Path, request: Request) -> None:
    """Open the model as the request says and write it, whole or not at all."""
    torch.manual_seed(request.seed)
    subject = request.subject
    config = transformers_model.open_config(subject, request)
    model_class = transformers_model.find_class(config, subject)
    random = subject["weights"] == "random"
    if config.is_encoder_decoder or not getattr(model_class, "can_generate", lambda: False)():
        reason = f"{subject['name']!r} is no causal language model"
        raise ModelError(reason, "leave --task generate out, or name a causal language model")
    # Not in inference mode: what is made there cannot be changed any more.
    with torch.inference_mode(mode=False), torch.no_grad():
        if random:
            dtype = None if request.dtype == "native" else getattr(torch, request.dtype)
            with torch.device(request.device):
                model = model_class._from_config(config, dtype=dtype, attn_implementation="sdpa")  # noqa: SLF001 - the one way that takes any class
            suppress_eos(model)
        else:
            model = transformers_model.open_weights(model_class, config, request)
        beside = folder.with_name(f"{folder.name}.part")
        shutil.rmtree(beside, ignore_errors=True)
        model.save_pretrained(beside)
    write_tokenizer(beside, config)
    write_legacy_keys(beside / "config.json")
    choose_greedily(beside / "generation_config.json")
    checkpoint.write_note(
        beside, describe(model, "seeded random" if random else f"from {subject['weights']}")
    )
    beside.rename(folder)


def suppress_eos(model: Any) -> None:
    """Make the end of a text the unlikeliest choice of a model with random weights: not every engine can be told to ignore it.

    Its logit becomes 0, which among thousands of random ones is never the largest.
    """
    end = model.config.get_text_config().eos_token_id
    head = model.get_output_embeddings()
    for token in end if isinstance(end, list) else [end]:
        if token is not None and head is not None:
            head.weight[token] = 0.0


def describe(model: Any, weights: str) -> checkpoint.CheckpointInfo:
    """Return the checkpoint's note."""
    text = model.config.get_text_config()
    heads = getattr(text, "num_key_value_heads", None) or text.num_attention_heads
    size = getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads
    kinds = set(getattr(text, "layer_types", None) or ["full_attention"])
    parameters = list(model.parameters())
    return checkpoint.CheckpointInfo(
        architecture=type(model).__name__,
        dtype=str(model.dtype).removeprefix("torch."),
        parameters=sum(parameter.numel() for parameter in parameters),
        parameter_bytes=sum(parameter.nbytes for parameter in parameters),
        weights=weights,
        vocabulary=text.vocab_size,
        cache_bytes_per_token=2 * text.num_hidden_layers * heads * size * model.dtype.itemsize
        if kinds == {"full_attention"}
        else None,
    )


def write_tokenizer(folder: pathlib.Path, config: Any) -> None:
    """Write a tokenizer with one word for each token: the prompts are random, and no engine does without one."""
    text = config.get_text_config()
    words = {checkpoint.word_of(token): token for token in range(text.vocab_size)}
    made = Tokenizer(models.WordLevel(words, unk_token=checkpoint.word_of(0)))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    end = text.eos_token_id[0] if isinstance(text.eos_token_id, list) else text.eos_token_id
    special = {"unk_token": checkpoint.word_of(0), "pad_token": checkpoint.word_of(0)}
    special |= {"eos_token": checkpoint.word_of(end)} if end is not None else {}
    transformers.PreTrainedTokenizerFast(tokenizer_object=made, **special).save_pretrained(folder)


def choose_greedily(file: pathlib.Path) -> None:
    """Say outright that nothing is sampled: some engines take their defaults from this file and cannot be told otherwise."""
    config = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    for name in ("temperature", "top_k", "top_p"):
        config.pop(name, None)
    file.write_text(json.dumps({**config, "do_sample": False}, indent=2), encoding="utf-8")


def write_legacy_keys(file: pathlib.Path) -> None:
    """Write the rotary settings and the precision also under the names that readers older than transformers 5 look for."""
    config = json.loads(file.read_text(encoding="utf-8"))
    rotary = config.get("rope_parameters") or {}
    if "rope_theta" in rotary:
        config.setdefault("rope_theta", rotary["rope_theta"])
    if rotary.get("rope_type", "default") != "default":
        config.setdefault(
            "rope_scaling", {name: value for name, value in rotary.items() if name != "rope_theta"}
        )
    if "dtype" in config:
        config.setdefault("torch_dtype", config["dtype"])
    file.write_text(json.dumps(config, indent=2), encoding="utf-8")
