"""A causal language model that generates text, with its prompts and its reference."""

from __future__ import annotations

import copy
import json
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers

from probes.adapter import ModelError
from probes.checking.text_reference import ReferenceRun, rows_with_logprobs
from probes.events import Workload
from probes.files import replace_when_complete
from probes.protocol import FIRST_ORDINARY_TOKEN, QUICK_REFERENCE, Request
from probes.shape import Shape
from probes.subjects import checkpoint, transformers_model
from probes.subjects.outputs import count_flops
from probes.subjects.torch_subject import MAX_FLOAT64_PARAMETERS
from probes.subjects.transformers_generate import TextGeneration, cache_of

#: Part of the names of the experts' weights, and names of their number in configurations.
EXPERTS = ".experts."
EXPERT_COUNTS = ("num_local_experts", "num_experts", "n_routed_experts")


class CausalLm(checkpoint.EngineSubject):
    """A language model on its device, in the tested precision; see `probes.adapter.Subject`."""

    def __init__(self, model: Any, request: Request) -> None:
        super().__init__(request)
        self.model = model

    def at(self, request: Request) -> CausalLm:
        changed = copy.copy(self)
        changed.request = request
        return changed

    def inputs(self, batch_size: int, number: int) -> list[Any]:
        """Return prompts without a common prefix, so that an engine's prefix cache is of no use."""
        # Prompts of several lengths share none either.
        own_length = [self.request.input_tokens] if self.request.lengths else []
        generator = np.random.default_rng([self.request.seed, batch_size, number, *own_length])
        shape, high = (batch_size, self.request.input_tokens), self.info.vocabulary
        return [generator.integers(FIRST_ORDINARY_TOKEN, high, size=shape, dtype=np.int64)]

    def reference_runs(
        self, eager: TextGeneration, device_inputs: list[Any]
    ) -> tuple[str, Iterator[ReferenceRun]]:
        """Return the name of the higher precision, and an iterator over its run of each input."""
        precise = self._precise_generation(device_inputs[0])
        rows = rows_with_logprobs(
            len(device_inputs[0]),
            self.request.output_tokens,
            self.info.vocabulary,
            self.request.input_sets,
        )

        def run(prompts: Any) -> ReferenceRun:
            (tokens,) = precise.collect(precise(prompts))
            exact, top_tokens = precise.score_all(prompts, tokens, rows)
            return ReferenceRun(tokens, exact, top_tokens, eager.score(prompts, tokens, rows))

        return str(precise.model.dtype).removeprefix("torch."), map(run, device_inputs)

    def _precise_generation(self, prompts: torch.Tensor) -> TextGeneration:
        """Open the reference in float64; in float32 if that is too large or has no kernels."""
        is_quick = QUICK_REFERENCE in self.request.options
        if self.parameters <= MAX_FLOAT64_PARAMETERS and not is_quick:
            precise = TextGeneration(copy.deepcopy(self.model).to(torch.float64), self.request)
            try:
                precise.first_token(prompts)
            except RuntimeError as problem:
                if isinstance(problem, torch.OutOfMemoryError):
                    raise
            else:
                return precise
        return TextGeneration(copy.deepcopy(self.model).to(torch.float32), self.request)

    def workload(self, shape: Shape, inputs: list[Any]) -> Workload:
        program = TextGeneration(self.model, self.request)
        flops = count_flops(lambda: program(program.feed(inputs)))
        return Workload(shape, flops, *self.memory_traffic(shape.batch_size))

    def memory_traffic(self, batch_size: int) -> tuple[int, int | None, int | None]:
        """Return lower bounds of the bytes moved by a call and a decode step, and the cache's size.

        Each pass reads every weight except the embedding table, of which it reads a few rows, and
        the experts that a token does not use. Each step also reads the cache so far. The cache's
        size is that at the end of a call. Both last values are None if the size of a token in the
        cache is unknown.
        """
        table = self.model.get_input_embeddings().weight
        head = self.model.get_output_embeddings()
        tied = head is None or head.weight is table
        weights = self.parameter_bytes - (0 if tied else table.nbytes) - idle_bytes(self.model)
        prompt, new = self.request.input_tokens, self.request.output_tokens
        per_token = self.info.cache_bytes_per_token
        if per_token is None:
            return weights * new, None, None
        lengths = range(prompt + 1, prompt + new)
        steps = [weights + batch_size * length * per_token for length in lengths]
        cache = batch_size * (prompt + new) * per_token
        return weights + sum(steps), sum(steps) // len(steps) if steps else None, cache


def idle_bytes(model: Any) -> int:
    """Return the bytes of the experts that one token does not use; 0 without experts."""
    text = model.config.get_text_config()
    counts = (getattr(text, name, None) for name in EXPERT_COUNTS)
    count, used = next(filter(None, counts), None), getattr(text, "num_experts_per_tok", None)
    if not count or not used:
        return 0
    experts = sum(weight.nbytes for name, weight in model.named_parameters() if EXPERTS in name)
    return int(experts * (count - used) // count)


def open_causal_lm(request: Request) -> CausalLm:
    """Open the run's checkpoint, which the reference worker creates first."""
    folder = checkpoint.folder_of(request)
    if not folder.exists():
        create_checkpoint(folder, request)
    model = transformers.AutoModelForCausalLM.from_pretrained(
        folder,
        dtype=getattr(torch, checkpoint.read_info(request).dtype),
        use_safetensors=True,
        trust_remote_code=request.trust_remote_code,
    )
    model.eval().to(request.device)
    return CausalLm(model, request)


def create_checkpoint(folder: pathlib.Path, request: Request) -> None:
    torch.manual_seed(request.seed)
    subject = request.subject
    config = transformers_model.open_config(subject, request)
    model_class = transformers_model.find_class(config, subject)
    is_known = (
        type(config) in transformers.MODEL_FOR_CAUSAL_LM_MAPPING
        or getattr(model_class, "_auto_class", None) == "AutoModelForCausalLM"
    )
    if config.is_encoder_decoder or not is_known or not model_class.can_generate():
        reason = f"{subject['name']!r} is not a causal language model"
        raise ModelError(reason, "leave --task generate out, or name a causal language model")
    with replace_when_complete(folder) as partial:
        model, missing = transformers_model.make_model(model_class, config, request)
        if subject["weights"] == "random":
            suppress_eos(model)
        model.save_pretrained(partial)
        write_tokenizer(partial, config)
        rewrite_json(partial / "config.json", with_legacy_keys)
        # Some engines take their only settings from this file: greedy decoding.
        sampling = ("temperature", "top_k", "top_p")
        rewrite_json(
            partial / "generation_config.json",
            lambda fields: {
                **{name: value for name, value in fields.items() if name not in sampling},
                "do_sample": False,
            },
        )
        adjusted = transformers_model.describe_missing(missing)
        checkpoint.write_info(partial, checkpoint_info(model, adjusted))


def suppress_eos(model: Any) -> None:
    """Make the logit of the end 0, which is never the largest: some engines stop at it."""
    eos = getattr(model.config.get_text_config(), "eos_token_id", None)
    head = model.get_output_embeddings()
    for token in eos if isinstance(eos, list) else [eos]:
        # Configurations of small models often keep the number of the large model's token.
        if token is not None and head is not None and token < len(head.weight):
            head.weight[token] = 0.0


def checkpoint_info(model: Any, adjusted: dict[str, str]) -> checkpoint.CheckpointInfo:
    text = model.config.get_text_config()
    parameters = list(model.parameters())
    return checkpoint.CheckpointInfo(
        architecture=type(model).__name__,
        dtype=str(model.dtype).removeprefix("torch."),
        parameters=sum(parameter.numel() for parameter in parameters),
        parameter_bytes=sum(parameter.nbytes for parameter in parameters),
        adjusted=adjusted,
        vocabulary=text.vocab_size,
        cache_bytes_per_token=measure_cache(model),
    )


def measure_cache(model: Any) -> int | None:
    """Return a token's bytes; None if not all layers grow by it, as with sliding windows."""
    types = getattr(model.config.get_text_config(), "layer_types", None) or ["full_attention"]
    output = model(input_ids=torch.zeros((1, 1), dtype=torch.int64, device=model.device))
    layers = getattr(cache_of(output), "layers", ())
    parts = [getattr(layer, name, None) for layer in layers for name in ("keys", "values")]
    tensors = [part for part in parts if isinstance(part, torch.Tensor)]
    grows = {*types} == {"full_attention"} and len(tensors) == len(parts) > 0
    return sum(tensor.nbytes for tensor in tensors) if grows else None


def write_tokenizer(folder: pathlib.Path, config: Any) -> None:
    """Write a tokenizer with one word for each token; some engines do not start without one."""
    text = config.get_text_config()
    words = {checkpoint.token_word(token): token for token in range(text.vocab_size)}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token=checkpoint.token_word(0)))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    eos = getattr(text, "eos_token_id", None)
    eos = eos[0] if isinstance(eos, list) else eos
    special = {"unk_token": checkpoint.token_word(0), "pad_token": checkpoint.token_word(0)}
    if eos is not None and eos < text.vocab_size:
        special["eos_token"] = checkpoint.token_word(eos)
    transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special).save_pretrained(
        folder
    )


def rewrite_json(file: pathlib.Path, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    fields = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    file.write_text(json.dumps(change(fields), indent=2), encoding="utf-8")


def with_legacy_keys(config: dict[str, Any]) -> dict[str, Any]:
    """Add the rotary settings and the precision under the names that transformers 4 reads."""
    rotary = config.get("rope_parameters") or {}
    if "rope_theta" in rotary:
        config.setdefault("rope_theta", rotary["rope_theta"])
    if rotary.get("rope_type", "default") != "default":
        config.setdefault(
            "rope_scaling", {name: value for name, value in rotary.items() if name != "rope_theta"}
        )
    if "dtype" in config:
        config.setdefault("torch_dtype", config["dtype"])
    return config
