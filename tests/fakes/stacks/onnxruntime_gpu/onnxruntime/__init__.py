"""ONNX Runtime's GPU build 1.31 where CUDA's libraries are missing: the session has another provider, and only the log says so."""

import sys
import types

__version__ = "1.31.1"


class SessionOptions:
    def add_session_config_entry(self, key, value):
        pass


class InferenceSession:
    def __init__(self, file, options, providers, enable_fallback):
        assert enable_fallback == 0  # which changes nothing
        sys.stderr.write("[W:onnxruntime] Failed to create CUDAExecutionProvider. Require cuDNN 9.* and CUDA 13.*.\n")

    def get_providers(self):
        return ["CPUExecutionProvider"]


def get_available_providers():
    return ["CUDAExecutionProvider", "CPUExecutionProvider"]


def register_execution_provider_library(name, path):
    pass


def get_ep_devices():
    return [types.SimpleNamespace(ep_name="CPUExecutionProvider")]
