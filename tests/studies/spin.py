"""A workflow that multiplies small matrices `repeats` times, so 103 is 3 % more work than 100."""

import numpy as np

from probes.wire.events import Engagement


class Subject:
    dtype = "float32"
    parameters = parameter_bytes = 0
    weights = "seeded random"
    unit = "samples"
    units_per_sample = 1

    def __init__(self, request):
        self.seed = request.seed
        self.matrix = (
            np.random.default_rng(request.seed).standard_normal((24, 24)).astype("float32")
        )

    def inputs(self, batch_size, number):
        return [
            np.random.default_rng([self.seed, batch_size, number])
            .standard_normal((24, 24))
            .astype("float32")
        ]

    def reference(self, input_sets):
        return "float64", (
            [inputs[0].astype("float64") @ self.matrix.astype("float64")] for inputs in input_sets
        )

    def flops(self, inputs):
        return None


class Program:
    def __init__(self, subject, repeats):
        self.matrix, self.repeats = subject.matrix, repeats

    def feed(self, inputs):
        return inputs[0]

    def __call__(self, device_inputs):
        output = None
        for _ in range(self.repeats):
            output = device_inputs @ self.matrix
        return output

    def collect(self, output):
        return [output]


def versions():
    return {"numpy": np.__version__}


def settings(request):
    return {"threads": str(request.threads)}


open_subject = Subject


def build(subject, inputs, request):
    return Program(subject, request.options["repeats"])


def synchronise():
    pass


def engagement(program, device_inputs):
    return Engagement(1.0, "the program multiplies matrices", {})


def integration(request):
    return "pass\n"
