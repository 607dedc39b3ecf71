"""ONNX Runtime's GPU build 1.31 without CUDA's libraries: sessions use another provider and log it.

TensorRT's libraries exist off the loader's path: its provider is in the session after `import
tensorrt` has loaded them.
"""

import sys

__version__ = "1.31.1"


class SessionOptions:
    def add_session_config_entry(self, key, value):
        pass


class InferenceSession:
    def __init__(self, file, options, providers, enable_fallback):
        assert enable_fallback == 0  # the real one ignores it here
        self.loaded = [
            name
            for name, _ in providers
            if name.startswith("Tensorrt") and "tensorrt" in sys.modules
        ]
        sys.stderr.write(
            "[W:onnxruntime] Failed to create CUDAExecutionProvider. "
            "Require cuDNN 9.* and CUDA 13.*.\n"
        )

    def get_providers(self):
        return [*self.loaded, "CPUExecutionProvider"]


def get_available_providers():
    return ["TensorrtExecutionProvider", "CUDAExecutionProvider", "CPUExecutionProvider"]
