"""The kinds of models that a user can ask about."""

from __future__ import annotations

import pathlib
from typing import Annotated, Any, Literal

import msgspec

from advisor.domain.text import truncate_middle

#: Characters of a name in a sentence.
MAX_SHORT_NAME = 60
#: Fields of a model that may name a local file.
FILES = ("name", "weights", "inputs")

Weights = Annotated[
    str, msgspec.Meta(description="`random`, `hub`, or a directory with safetensors")
]

GivenInputs = Annotated[
    str, msgspec.Meta(description="an .npz file or `file.py:function`; empty for its own inputs")
]


class _Model(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind"):
    """A model, by its kind."""


class SyntheticModel(_Model, frozen=True, kw_only=True, tag="synthetic"):
    """A synthetic block of the paper or the demonstration encoder, by its sizes."""

    name: str
    block: Literal["matmul", "matmul-relu", "ffn", "ffn-multilayer", "encoder"]
    hidden: Annotated[int, msgspec.Meta(ge=1, le=131072)]
    intermediate: Annotated[int, msgspec.Meta(ge=1, le=524288)]
    layers: Annotated[int, msgspec.Meta(ge=1, le=1024)] = 1
    heads: Annotated[int, msgspec.Meta(ge=1, le=1024)] = 1


class TransformersModel(_Model, frozen=True, kw_only=True, tag="transformers"):
    """A transformers model: a shipped configuration, a local directory or a name on the hub."""

    name: str
    weights: Weights
    config: dict[str, Any] | None = None
    #: Least number of parameters, if a file or the configuration gives it; else null.
    parameters: int | None = None


class FactoryModel(_Model, frozen=True, kw_only=True, tag="factory"):
    """A function of the user: `package.module:factory` or `file.py:factory`."""

    name: str
    inputs: GivenInputs = ""
    #: Whether the file is our copy of a module in the memory of the user's program.
    is_copy: bool = False


class ExportedModel(_Model, frozen=True, kw_only=True, tag="exported"):
    """A file written by `torch.export.save`."""

    name: str
    inputs: GivenInputs = ""
    #: Whether the file is our copy of a program in the memory of the user's program.
    is_copy: bool = False


class OnnxModel(_Model, frozen=True, kw_only=True, tag="onnx"):
    """An ONNX file."""

    name: str
    inputs: GivenInputs = ""
    #: The only batch size that it takes; null for a free one.
    batch_size: int | None = None


Model = SyntheticModel | TransformersModel | FactoryModel | ExportedModel | OnnxModel
#: Form in which a workflow takes a model: a PyTorch module or an ONNX file.
InputFormat = Literal["torch", "onnx"]


def input_format_of(model: Model) -> InputFormat:
    """Return the form in which the user has the model; an exported program is a module."""
    return "onnx" if isinstance(model, OnnxModel) else "torch"


def without_directories(model: Model) -> Model:
    """Return the model as an exported run has it; two checkouts have it in different places."""
    paths = {each: pathlib.PurePosixPath(getattr(model, each, "")) for each in FILES}
    names = {each: path.name for each, path in paths.items() if path.is_absolute()}
    return msgspec.structs.replace(model, **names)


def short_name(model: Model) -> str:
    """Return the name without a local directory, and without the middle of a long one."""
    return truncate_middle(without_directories(model).name, MAX_SHORT_NAME)


def has_random_weights(model: Model) -> bool:
    return isinstance(model, SyntheticModel) or (
        isinstance(model, TransformersModel) and model.weights == "random"
    )
