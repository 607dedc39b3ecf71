"""A fake baseline: a matrix product in numpy.

A call sleeps for the milliseconds of its options first.
"""

import os
import time

import numpy as np

from probes import adapter
from probes.adapter import Findings, ModelError
from probes.events import Engagement, Workload
from probes.protocol import QUICK_REFERENCE


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


def versions():
    return {"numpy": np.__version__}


def settings(request):
    return {"threads": str(request.threads)}


open_subject = Subject


def build(subject, inputs, request):
    return Program(subject, request.options.get("milliseconds", 3) / 1000)


def synchronise():
    pass


def engagement(program, device_inputs):
    return Engagement(1.0, "a fake baseline", {})


def integration(subject, request):
    return "# Each call:\noutput = model(*inputs)\n"
