"""TensorRT 10 when it fails: it returns None, and the reason is in the log.

`BEHAVIOUR` chooses the failure; the log lines are TensorRT's own. Free dimensions are read from the
ONNX file, and the plan holds the shapes of the profiles.
"""

import json
import pathlib
import types

import onnx

__version__ = "10.16.1"
BEHAVIOUR = "none"
LINES = {
    "out of memory": [
        (
            2,
            (
                "Skipping tactic 0x1 due to insufficient memory on requested size of 4294967296 "
                "detected for tactic 0x1."
            ),
        ),
        (1, "Error Code 10: Internal Error (Could not find any implementation for node MatMul_1.)"),
    ],
    "no implementation": [
        (1, "Error Code 10: Internal Error (Could not find any implementation for node MatMul_1.)")
    ],
    "another gpu": [
        (
            1,
            (
                "Error Code 6: The engine plan file is generated on an incompatible device, "
                "expecting compute 8.9 got compute 9.0."
            ),
        )
    ],
}


class ILogger:
    Severity = types.SimpleNamespace(INTERNAL_ERROR=0, ERROR=1, WARNING=2, INFO=3)


class NetworkDefinitionCreationFlag:
    STRONGLY_TYPED = 1


class BuilderFlag:
    TF32 = "TF32"


class OnnxParser:
    num_errors = 1

    def __init__(self, network, logger):
        self.network = network

    def parse_from_file(self, file):
        inputs = (
            onnx.load(file, load_external_data=False).graph.input
            if pathlib.Path(file).exists()
            else []
        )
        for value in inputs:
            shape = tuple(
                -1 if size.dim_param else size.dim_value
                for size in value.type.tensor_type.shape.dim
            )
            self.network.inputs.append(types.SimpleNamespace(name=value.name, shape=shape))
        return BEHAVIOUR != "unknown operator"

    def get_error(self, number):
        return types.SimpleNamespace(desc=lambda: "No importer registered for op: Sin3D")


class Network:
    def __init__(self):
        self.inputs = []

    @property
    def num_inputs(self):
        return len(self.inputs)

    def get_input(self, index):
        return self.inputs[index]


class Profile:
    def __init__(self):
        self.shapes = {}

    def set_shape(self, name, low, best, high):
        self.shapes[name] = (low, best, high)


class Config:
    def __init__(self):
        self.profiles = []
        self.flags = {BuilderFlag.TF32}

    def clear_flag(self, flag):
        self.flags.remove(flag)

    def add_optimization_profile(self, profile):
        self.profiles.append(profile.shapes)


class Builder:
    def __init__(self, logger):
        self.logger = logger

    def create_network(self, flags):
        return Network()

    def create_builder_config(self):
        return Config()

    def create_optimization_profile(self):
        return Profile()

    def build_serialized_network(self, network, config):
        if BEHAVIOUR in {"out of memory", "no implementation"}:
            for severity, line in LINES[BEHAVIOUR]:
                self.logger.log(severity, line)
            return None
        assert not config.flags, "float32 products would be rounded"
        return json.dumps(config.profiles).encode()


class Runtime:
    def __init__(self, logger):
        self.logger = logger

    def deserialize_cuda_engine(self, plan):
        if BEHAVIOUR == "another gpu":
            for severity, line in LINES[BEHAVIOUR]:
                self.logger.log(severity, line)
            return None
        return "an engine"
