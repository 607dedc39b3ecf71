"""TensorRT 10 on its bad days: it returns None, and the reason is in the log. `DAY` says which one it is.

The lines are TensorRT's own.
"""

import types

__version__ = "10.16.1"
DAY = "none"
LINES = {
    "out of memory": [
        (2, "Skipping tactic 0x1 due to insufficient memory on requested size of 4294967296 detected for tactic 0x1."),
        (1, "Error Code 10: Internal Error (Could not find any implementation for node MatMul_1.)"),
    ],
    "no implementation": [(1, "Error Code 10: Internal Error (Could not find any implementation for node MatMul_1.)")],
    "another gpu": [
        (
            1,
            "Error Code 6: The engine plan file is generated on an incompatible device, expecting compute 8.9 got compute 9.0.",
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
        pass

    def parse_from_file(self, file):
        return DAY != "unknown operator"

    def get_error(self, number):
        return types.SimpleNamespace(desc=lambda: "No importer registered for op: Sin3D")


class Builder:
    def __init__(self, logger):
        self.logger = logger

    def create_network(self, flags):
        return types.SimpleNamespace(num_inputs=0)

    def create_builder_config(self):
        flags = {BuilderFlag.TF32}
        return types.SimpleNamespace(flags=flags, clear_flag=flags.remove)

    def build_serialized_network(self, network, config):
        if DAY in {"out of memory", "no implementation"}:
            for severity, line in LINES[DAY]:
                self.logger.log(severity, line)
            return None
        return b"engine that rounds" if config.flags else b"engine"


class Runtime:
    def __init__(self, logger):
        self.logger = logger

    def deserialize_cuda_engine(self, plan):
        if DAY == "another gpu":
            for severity, line in LINES[DAY]:
                self.logger.log(severity, line)
            return None
        return f"an {plan.decode()}"
