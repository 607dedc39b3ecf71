"""ONNX Runtime's TensorRT provider, which leaves what TensorRT cannot run to the CUDA provider."""

from __future__ import annotations

import os
from typing import Any

import tensorrt as trt

from probes.adapter import Request
from probes.stacks import onnxruntime_session
from probes.stacks.onnxruntime_session import CUDA, CUDA_OPTIONS, IMPORTS
from probes.stacks.pytorch import TorchProgram
from probes.subjects import by_request
from probes.subjects.by_request import Model

open_subject = by_request.open_subject
engagement = onnxruntime_session.engagement
nondeterministic_operators = onnxruntime_session.nondeterministic_operators

PROVIDER = "TensorrtExecutionProvider"
#: The provider does not find the libraries in TensorRT's wheel:
#: https://github.com/microsoft/onnxruntime/issues/18597
IMPORT_LINES = "import os\nimport tensorrt  # loads the libraries that the provider needs\n"

WITHOUT_TF32 = 'os.environ["NVIDIA_TF32_OVERRIDE"] = "0"\n'


def versions() -> dict[str, str]:
    return {**onnxruntime_session.versions(), trt.__name__: trt.__version__}


def settings(request: Request) -> dict[str, str]:
    """Switch TF32 off for all of NVIDIA's libraries: the provider has no option for it."""
    os.environ["NVIDIA_TF32_OVERRIDE"] = "0"
    return {**onnxruntime_session.settings(request), "NVIDIA_TF32_OVERRIDE": "0"}


def options(request: Request) -> dict[str, str]:
    return {
        "trt_engine_cache_enable": "1",
        "trt_engine_cache_path": request.scratch_directory,
        "trt_timing_cache_enable": "1",
        "trt_timing_cache_path": request.scratch_directory,
        "trt_fp16_enable": "1" if request.dtype == "float16" else "0",
        "trt_bf16_enable": "1" if request.dtype == "bfloat16" else "0",
    }


def build(subject: Model, inputs: list[Any], request: Request) -> TorchProgram:
    """Export for these shapes, because engines are fastest for fixed ones, and open a session."""
    providers = [(PROVIDER, options(request)), (CUDA, CUDA_OPTIONS)]
    return onnxruntime_session.build(subject, inputs, request, providers=providers)


def integration(subject: Any, request: Request) -> str:
    lines = onnxruntime_session.integration(subject, request, PROVIDER)
    return f"{IMPORT_LINES}{lines.replace(IMPORTS, IMPORTS + WITHOUT_TF32, 1)}"
