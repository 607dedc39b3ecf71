"""ONNX Runtime's TensorRT provider: it builds engines for the parts that it takes and leaves the rest to the CUDA provider."""

from __future__ import annotations

from typing import Any

import tensorrt as trt

from probes.protocol import Request
from probes.stacks import onnx_export, onnxruntime_session, pytorch
from probes.stacks.onnxruntime_session import CUDA, CUDA_OPTIONS, SessionProgram
from probes.subjects.onnx_file import OnnxSubject
from probes.subjects.opening import TorchSubject

settings = onnxruntime_session.settings_of_tensorrt
open_subject = onnxruntime_session.open_subject
engagement = onnxruntime_session.engagement
synchronise = pytorch.synchronise

PROVIDER = "TensorrtExecutionProvider"
#: The provider does not find TensorRT's libraries where its wheel has them:
#: https://github.com/microsoft/onnxruntime/issues/18597
LOADED = "import tensorrt  # loads the libraries that the provider needs"


def versions() -> dict[str, str]:
    """Return the versions of TensorRT, whose import loads its libraries, of the runtime and of what exports for it."""
    return {**onnxruntime_session.versions(), trt.__name__: trt.__version__}


def options(request: Request) -> dict[str, str]:
    """Return the provider's options: engines and tactic timings are kept with the arm, and nowhere else."""
    return {
        "trt_engine_cache_enable": "1",
        "trt_engine_cache_path": request.scratch_directory,
        "trt_timing_cache_enable": "1",
        "trt_timing_cache_path": request.scratch_directory,
        "trt_fp16_enable": "1" if request.dtype == "float16" else "0",
        "trt_bf16_enable": "1" if request.dtype == "bfloat16" else "0",
    }


def build(
    subject: TorchSubject | OnnxSubject, inputs: list[Any], request: Request
) -> SessionProgram:
    """Export for these shapes, as engines are fastest for fixed ones, and open a session that builds them."""
    file = onnx_export.for_shapes(subject, inputs, request)
    session = onnxruntime_session.open_session(
        file, [(PROVIDER, options(request)), (CUDA, CUDA_OPTIONS)], request
    )
    return onnxruntime_session.gpu_program(session, PROVIDER, request)


def integration(request: Request) -> str:
    """Return the lines that load TensorRT, export, open the session and run it."""
    return f"{LOADED}\n{onnxruntime_session.integration(request, PROVIDER)}"
