"""Open the model of a worker, or refuse one that its arm does not support."""

from __future__ import annotations

from typing import Any

from probes import protocol
from probes.adapter import Subject, UnsupportedError
from probes.runtime.channel import Channel
from probes.runtime.failures import FailureError
from probes.wire import events
from probes.wire.outcome import Failure

#: Kinds of models that are not cast.
FIXED_PRECISION = {"exported", "onnx"}


def load_subject(workflow: Any, request: protocol.Request, channel: Channel) -> Subject:
    channel.start_phase("load")
    if request.task not in getattr(workflow, "TASKS", (protocol.FORWARD,)):
        message = f"this release of p3-advisor does not measure it for the task {request.task}"
        raise UnsupportedError(message)
    with channel.stopwatch() as seconds:
        subject: Subject = workflow.open_subject(request)
    refuse_unsupported_dtype(subject, request)
    channel.send(
        events.Loaded(
            seconds(),
            subject.parameters,
            subject.parameter_bytes,
            subject.weights,
            subject.unit,
            subject.units_per_sample,
            getattr(subject, "adjusted", {}),
        )
    )
    return subject


def refuse_unsupported_dtype(subject: Subject, request: protocol.Request) -> None:
    """Raise `FailureError` if the arm does not support the model's own precision.

    The advisor knows it only for a model that is cast. The catalogue describes no other precisions
    than `PRECISIONS`.
    """
    own = getattr(subject, "dtype", None)
    supported = request.supported_dtypes
    if request.dtype != protocol.NATIVE or own not in protocol.PRECISIONS:
        return
    if not supported or own in supported:
        return
    reason = (
        f"it does not support {own}, the model's own precision, on {request.device}, "
        f"only {', '.join(supported)}"
    )
    fix = (
        f"export the model in {supported[0]}"
        if request.subject["kind"] in FIXED_PRECISION
        else f"measure the model in another precision: --dtype {supported[0]}"
    )
    raise FailureError(Failure("unsupported", "load", reason, fix))
