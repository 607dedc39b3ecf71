"""ONNX Runtime on the CPU, fed with host arrays or with IO binding."""

from __future__ import annotations

from probes.stacks import onnxruntime_session
from probes.subjects import by_request

versions = onnxruntime_session.versions
settings = onnxruntime_session.settings
open_subject = by_request.open_subject
build = onnxruntime_session.build
engagement = onnxruntime_session.engagement
nondeterministic_operators = onnxruntime_session.nondeterministic_operators
integration = onnxruntime_session.integration
starts = onnxruntime_session.starts
