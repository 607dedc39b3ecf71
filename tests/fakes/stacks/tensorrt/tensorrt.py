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
MEMORY = (
    "Skipping tactic 0x1 due to insufficient memory on requested size of 4294967296 "
    "detected for tactic 0x1."
)
NONE = "Error Code 10: Internal Error (Could not find any implementation for node MatMul_1.)"
DEVICE = (
    "Error Code 6: The engine plan file is generated on an incompatible device, "
    "expecting compute 8.9 got compute 9.0."
)
#: By behaviour, the severities and texts of the lines.
LINES = {
    "out of memory": [(2, MEMORY), (1, NONE)],
    "no implementation": [(1, NONE)],
    "another gpu": [(1, DEVICE)],
}


def fail(logger):
    """Write the reason to the log, and return nothing else."""
    for severity, line in LINES[BEHAVIOUR]:
        logger.log(severity, line)


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
        if pathlib.Path(file).exists():
            for value in onnx.load(file, load_external_data=False).graph.input:
                sizes = value.type.tensor_type.shape.dim
                shape = tuple(-1 if each.dim_param else each.dim_value for each in sizes)
                self.network.inputs.append(types.SimpleNamespace(name=value.name, shape=shape))
        return BEHAVIOUR != "unknown operator"

    def get_error(self, number):
        return types.SimpleNamespace(desc=lambda: "No importer registered for op: Sin3D")


class Network:
    def __init__(self):
        self.inputs = []
        self.get_input = self.inputs.__getitem__

    @property
    def num_inputs(self):
        return len(self.inputs)


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
            return fail(self.logger)
        assert not config.flags, "float32 products would be rounded"
        return json.dumps(config.profiles).encode()


class Runtime:
    def __init__(self, logger):
        self.logger = logger

    def deserialize_cuda_engine(self, plan):
        return fail(self.logger) if BEHAVIOUR == "another gpu" else "an engine"
