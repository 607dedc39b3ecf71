"""Open the subject that fits a request's task and kind of model."""

from __future__ import annotations

import contextlib
import dataclasses
import pathlib
import random
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch

from probes import protocol
from probes.facts import TRAINING_MODE
from probes.protocol import Request
from probes.subjects import adjustments, exported, factory, loaded_model, synthetic
from probes.subjects.loaded_model import LoadedModel
from probes.subjects.torch_subject import TorchSubject

if TYPE_CHECKING:
    from probes.subjects.onnx_file import OnnxSubject

__all__ = ["Model", "TorchSubject", "open_subject", "open_torch_subject"]

#: What a forward pass is measured of.
Model: TypeAlias = "TorchSubject | OnnxSubject"
#: Weights of this size are drawn in less than half a second. The operators that PyTorch imports for
#: tensors without values take more than one.
MAX_DRAWN_BYTES = 64 << 20


def _create_of_transformers(request: Request) -> LoadedModel:
    from probes.subjects import transformers_model  # noqa: PLC0415 - imports transformers, which takes a second

    return transformers_model.create(request)


OPENERS = {
    "synthetic": synthetic.create,
    "transformers": _create_of_transformers,
    "factory": factory.create,
    "exported": exported.create,
}


def open_subject(request: Request) -> Any:
    """Return an ONNX file unchanged, a language model, or a module with its inputs."""
    if request.subject["kind"] == "onnx":
        from probes.subjects.onnx_file import OnnxSubject  # noqa: PLC0415 - imports onnxruntime, which other models do not need

        return OnnxSubject(request)
    if request.task == protocol.GENERATE:
        from probes.subjects.causal_lm import open_causal_lm  # noqa: PLC0415 - imports transformers, which takes seconds

        return open_causal_lm(request)
    return open_torch_subject(request)


def create_ahead(request: Request) -> None:
    """Create a user's model, or import the code of another one; the weights follow."""
    kind = request.subject["kind"]
    if kind == "transformers":
        from probes.subjects import transformers_model  # noqa: PLC0415 - imports transformers, which takes a second

        config = transformers_model.open_config(request.subject, request)
        transformers_model.find_class(config, request.subject)
    elif kind == "factory" and request.task == protocol.FORWARD:
        _created.append(_create(kind, request))


#: The model that `create_ahead` has created.
_created: list[LoadedModel] = []


def open_torch_subject(request: Request) -> TorchSubject:
    """Open the request's model with the weights that the reference worker has saved."""
    kind = request.subject["kind"]
    weights = pathlib.Path(request.shared_directory) / "weights.pt"
    # Random weights that are replaced at once are not drawn: billions of them take minutes. Models
    # of other kinds have buffers that are not among the shared weights.
    is_drawn = (
        kind != "synthetic" or not weights.exists() or weights.stat().st_size <= MAX_DRAWN_BYTES
    )
    with contextlib.nullcontext() if is_drawn else torch.device("meta"):
        model = _created.pop() if _created else _create(kind, request)
    # On the host: on the device, the weights would be there twice for a moment and raise its peak
    # memory.
    if model.shares_weights:
        loaded_model.share(model.module, weights)
    model.module.to(request.device)
    return TorchSubject(model, request)


def _create(kind: str, request: Request) -> LoadedModel:
    # A user's code may draw weights and structures from them; all workers get the same.
    torch.manual_seed(request.seed)
    random.seed(request.seed)
    np.random.seed(request.seed % 2**32)  # noqa: NPY002 - the generator of the user's code
    adjusted: dict[str, str] = {}
    with adjustments.watch_settings(adjusted):
        model = OPENERS[kind](request)
    model.adjusted.update(adjusted)
    # `requires_grad` stays as users leave it: it decides how compilers fold matrix products.
    try:
        model.module.eval()
    except NotImplementedError:
        # An exported program has its mode built in.
        model.adjusted.pop(TRAINING_MODE, None)
        model = dataclasses.replace(model, fixed_mode=True)
    return model
