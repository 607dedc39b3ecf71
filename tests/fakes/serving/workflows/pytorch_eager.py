"""A fake language model: the next token follows from the last one, and every text is certain."""

import json
import os

import numpy as np

from probes import adapter
from probes.adapter import TokenLogprobs
from probes.checking.text_reference import ReferenceRun
from probes.events import Engagement
from probes.subjects import checkpoint

VOCABULARY = 64


def next_token(token):
    return (7 * token + 3) % VOCABULARY


class Subject(adapter.Subject):
    dtype = "float32"
    parameters = 64
    parameter_bytes = 256
    unit = "tokens"

    def __init__(self, request):
        self.request = request
        self.units_per_sample = request.output_tokens
        folder = checkpoint.folder_of(request)
        folder.mkdir(parents=True, exist_ok=True)
        info = checkpoint.CheckpointInfo("Fake", "float32", 64, 256, {}, VOCABULARY, None)
        checkpoint.write_info(folder, info)

    def inputs(self, batch_size, number):
        stream = np.random.default_rng([self.request.seed, batch_size, number])
        shape = (batch_size, self.request.input_tokens)
        return [stream.integers(3, VOCABULARY, size=shape, dtype=np.int64)]

    def reference_runs(self, program, device_inputs):
        return "float64", (reference_run(program(prompts)) for prompts in device_inputs)


def reference_run(tokens):
    """Every token has a certain successor, so the log probabilities are 0 and -50."""
    logprobs = np.full((*tokens.shape, VOCABULARY), -50.0, dtype=np.float32)
    np.put_along_axis(logprobs, tokens[..., None], 0.0, axis=-1)
    ids = np.argsort(-logprobs, axis=-1)[..., :2]
    top = TokenLogprobs(np.take_along_axis(logprobs, ids, axis=-1), ids)
    every = np.broadcast_to(np.arange(VOCABULARY), logprobs.shape)
    return ReferenceRun(tokens, TokenLogprobs(logprobs, every), top, TokenLogprobs(logprobs, every))


class Program:
    def __init__(self, request):
        self.output_tokens = request.output_tokens

    def feed(self, inputs):
        return inputs[0]

    def __call__(self, prompts):
        tokens, last = [], prompts[:, -1]
        for _ in range(self.output_tokens):
            last = next_token(last)
            tokens.append(last)
        return np.stack(tokens, axis=1)

    def collect(self, output):
        return [output]


def versions():
    return {"numpy": np.__version__}


def settings(request):
    return {"threads": str(request.threads)}


open_subject = Subject


def build(subject, inputs, request):
    return Program(request)


def synchronise():
    pass


def engagement(program, device_inputs):
    return Engagement(1.0, "a fake baseline", json.loads(os.environ.get("FACTS", "{}")))


def integration(subject, request):
    return "tokens = model.generate(prompts)\n"
