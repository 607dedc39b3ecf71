"""Texts for the losses of a trained language model: its own, or those of the user's file."""

from __future__ import annotations

import copy
import json
import math
import pathlib
from typing import Any

import numpy as np
import torch
import transformers

from probes import arrays
from probes.adapter import ModelError
from probes.checking import long_text
from probes.protocol import FIRST_ORDINARY_TOKEN, Request
from probes.subjects.causal_lm import CausalLm

#: Sequences that are sampled or scored at once.
ROWS_AT_ONCE = 32


def write_long_text(subject: CausalLm, request: Request) -> None:
    length = request.input_tokens + request.output_tokens
    # Whole sets of the largest batch that have the wanted number of tokens.
    rows = max(request.batch_sizes)
    count = math.ceil(request.long_text["tokens"] / (rows * request.output_tokens)) * rows
    data = request.long_text["data"]
    sequences = (read_sequences if data else sample)(subject, length, count, request)
    source = "the file of --data" if data else "sampled from the model"
    precise = copy.deepcopy(subject.model).to(torch.float32)
    text = long_text.make_long_text(
        source,
        sequences,
        request,
        lambda rows: logprobs(precise, rows, request),
        lambda rows: logprobs(subject.model, rows, request),
    )
    arrays.save(long_text.file_of(request), text)


def logprobs(model: Any, rows: Any, request: Request) -> Any:
    """Map `(rows, input + output tokens) int64` to `(rows, output tokens, vocabulary) float32`."""
    tokens = torch.from_numpy(rows).to(request.device)
    output = model(input_ids=tokens, use_cache=False, logits_to_keep=request.output_tokens + 1)
    return torch.log_softmax(output.logits[:, :-1].float(), dim=-1).cpu().numpy()


def sample(subject: CausalLm, length: int, count: int, request: Request) -> Any:
    """Return `(count, length) int64`; texts begin with the model's first token or a random one."""
    begin = getattr(subject.model.config.get_text_config(), "bos_token_id", None)
    generator = np.random.default_rng([request.seed, length])
    high = subject.info.vocabulary
    first = generator.integers(min(FIRST_ORDINARY_TOKEN, high - 1), high, size=(count, 1))
    if begin is not None:
        first[:] = begin
    torch.manual_seed(request.seed)
    config = transformers.GenerationConfig(
        do_sample=True,
        top_k=0,
        pad_token_id=0,
        eos_token_id=None,
        max_new_tokens=length - 1,
        min_new_tokens=length - 1,
    )
    subject.model.generation_config = config
    written = []
    for start in range(0, count, ROWS_AT_ONCE):
        rows = torch.from_numpy(first[start : start + ROWS_AT_ONCE]).to(request.device)
        tokens = subject.model.generate(
            rows, generation_config=config, attention_mask=torch.ones_like(rows)
        )
        written.append(tokens.cpu().numpy())
    return np.concatenate(written)


def read_sequences(subject: CausalLm, length: int, count: int, request: Request) -> Any:
    """Return at most `count` windows of the texts of a JSON Lines file, `(windows, length) int64`.

    The texts are joined. Raise `ModelError` for a file that is not understood, has tokens of
    another vocabulary, or is too short for one batch.
    """
    file = request.long_text["data"]
    stream: list[int] = []
    tokenizer: Any = None
    for number, line in enumerate(pathlib.Path(file).read_text(encoding="utf-8").splitlines(), 1):
        if len(stream) >= length * count:
            break
        record = parse_line(line, number, file)
        if "tokens" in record:
            stream += record["tokens"]
        elif record:
            tokenizer = tokenizer or open_tokenizer(request)
            text = record.get("prompt", "") + record.get("continuation", "")
            stream += tokenizer(text)["input_ids"]
    windows = min(len(stream) // length, count)
    if windows < max(request.batch_sizes):
        reason = f"{file!r} has {len(stream)} tokens, fewer than one batch needs"
        raise ModelError(reason, f"add texts until there are {length * count} tokens")
    if (largest := max(stream)) >= subject.info.vocabulary:
        reason = f"{file!r} has the token {largest}, of {subject.info.vocabulary} of the model"
        raise ModelError(reason, "write tokens of the tokenizer of this model")
    return np.array(stream[: windows * length], dtype=np.int64).reshape(windows, length)


def parse_line(line: str, number: int, file: str) -> dict[str, Any]:
    """Return an object with `prompt`, `continuation` or `tokens`; empty for an empty line."""
    if not line.strip():
        return {}
    try:
        record = json.loads(line)
    except ValueError:
        record = None
    fields = record if isinstance(record, dict) else {"tokens": None}
    texts = [fields.get(name, "") for name in ("prompt", "continuation")]
    tokens: Any = fields.get("tokens", [])
    has_texts = all(isinstance(each, str) for each in texts) and isinstance(tokens, list)
    if not has_texts or not all(isinstance(each, int) and each >= 0 for each in tokens):
        reason = f"line {number} of {file!r} is not an object with texts"
        raise ModelError(reason, 'write {"prompt": "...", "continuation": "..."} on each line')
    return fields


def open_tokenizer(request: Request) -> Any:
    """Return the tokenizer next to the model's weights; raise `ModelError` without one."""
    subject = request.subject
    source = subject["name"] if subject["weights"] == "hub" else subject["weights"]
    try:
        return transformers.AutoTokenizer.from_pretrained(
            source, trust_remote_code=request.trust_remote_code
        )
    except (OSError, ValueError) as problem:
        reason = f"{source!r} has no tokenizer: {str(problem).splitlines()[0]}"
        raise ModelError(reason, 'write {"tokens": [...]} on each line of --data') from problem
