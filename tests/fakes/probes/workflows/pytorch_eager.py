"""A fake baseline: a matrix product in numpy, or a language model without weights.

A call of the product sleeps for the milliseconds of its options first.
"""

import os
import time

import numpy as np

from probes import adapter
from probes.adapter import Findings, ModelError, TokenLogprobs
from probes.checking.text_reference import ReferenceRun
from probes.events import Engagement, Workload
from probes.protocol import GENERATE, QUICK_REFERENCE
from probes.subjects import checkpoint

VOCABULARY = 64


class Subject(adapter.Subject):
    dtype = "float32"
    parameters = 64
    parameter_bytes = 256

    def __init__(self, request):
        time.sleep(float(os.environ.get("P3_ADVISOR_FAKE_LOAD_SECONDS", "0")))
        self.seed = request.seed
        self.is_quick = bool(request.options.get(QUICK_REFERENCE))
        self.matrix = np.random.default_rng(request.seed).standard_normal((8, 8)).astype("float32")

    def at(self, request):
        if not request.lengths:
            raise ModelError(*adapter.NO_LENGTH)
        return self

    def inputs(self, batch_size, number):
        generator = np.random.default_rng([self.seed, batch_size, number])
        return [generator.standard_normal((batch_size, 8)).astype("float32")]

    def settle_inputs(self, batch_size, input_sets):
        if not self.is_quick:
            time.sleep(float(os.environ.get("P3_ADVISOR_FAKE_INPUTS_SECONDS", "0")))
        return input_sets

    def examine_calls(self, input_sets):
        return Findings()

    def reference(self, input_sets, *, quick=False):
        name = "float32" if quick else "float64"
        if not quick:
            time.sleep(float(os.environ.get("P3_ADVISOR_FAKE_REFERENCE_SECONDS", "0")))
        return name, ([inputs[0].astype(name) @ self.matrix.astype(name)] for inputs in input_sets)

    def workload(self, shape, inputs):
        return Workload(shape, 2 * inputs[0].shape[0] * 64)


class Program:
    def __init__(self, subject, seconds):
        self.subject, self.seconds = subject, seconds

    def feed(self, inputs):
        return inputs[0]

    def __call__(self, device_inputs):
        time.sleep(self.seconds)
        return device_inputs @ self.subject.matrix

    def collect(self, output):
        return [output]


class LanguageModel(Subject):
    """The next token follows from the last one, and every text is certain."""

    unit = "tokens"

    def __init__(self, request):
        super().__init__(request)
        self.request = request
        self.units_per_sample = request.output_tokens
        folder = checkpoint.folder_of(request)
        folder.mkdir(parents=True, exist_ok=True)
        info = checkpoint.CheckpointInfo("Fake", "float32", 64, 256, {}, VOCABULARY, None)
        checkpoint.write_info(folder, info)

    def inputs(self, batch_size, number):
        stream = np.random.default_rng([self.seed, batch_size, number])
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


class Generation(Program):
    def __call__(self, prompts):
        tokens, last = [], prompts[:, -1]
        for _ in range(self.subject.units_per_sample):
            last = (7 * last + 3) % VOCABULARY
            tokens.append(last)
        return np.stack(tokens, axis=1)


def versions():
    return {"numpy": np.__version__}


def settings(request):
    return {"threads": str(request.threads)}


def open_subject(request):
    return (LanguageModel if request.task == GENERATE else Subject)(request)


def build(subject, inputs, request):
    make = Generation if request.task == GENERATE else Program
    return make(subject, request.options.get("milliseconds", 3) / 1000)


def engagement(program, device_inputs):
    return Engagement(1.0, "a fake baseline", {})


def integration(subject, request):
    return "# Each call:\noutput = model(*inputs)\n"
