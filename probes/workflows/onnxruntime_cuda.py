"""ONNX Runtime's CUDA provider, fed from the host or with tensors bound on the GPU."""

from __future__ import annotations

import functools

from probes.adapter import Request
from probes.stacks import onnxruntime_session
from probes.stacks.onnxruntime_session import CUDA, CUDA_OPTIONS
from probes.subjects import by_request

versions = onnxruntime_session.versions
open_subject = by_request.open_subject
build = functools.partial(onnxruntime_session.build, providers=[(CUDA, CUDA_OPTIONS)], free="batch")
engagement = onnxruntime_session.engagement
nondeterministic_operators = onnxruntime_session.nondeterministic_operators
integration = functools.partial(onnxruntime_session.integration, provider=CUDA)
starts = functools.partial(onnxruntime_session.starts, provider=CUDA)


def settings(request: Request) -> dict[str, str]:
    return {**onnxruntime_session.settings(request), **CUDA_OPTIONS}
