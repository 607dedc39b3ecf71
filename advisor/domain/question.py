"""What the user wants to know."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec

Dtype = Literal["native", "float32", "float16", "bfloat16"]
Task = Literal["forward", "generate"]
Weights = Annotated[
    str, msgspec.Meta(description="`random`, `hub`, or a directory with safetensors")
]

PILLARS = ("performance", "productivity", "portability")
FURTHER_CRITERIA = ("input_flexibility", "architecture_support")
CRITERIA = PILLARS + FURTHER_CRITERIA


class Synthetic(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    tag_field="kind",
    tag="synthetic",
):
    """One of the paper's synthetic blocks, or the demonstration encoder, by its sizes."""

    name: str
    block: Literal["matmul", "matmul-relu", "ffn", "ffn-multilayer", "encoder"]
    hidden: Annotated[int, msgspec.Meta(ge=1, le=131072)]
    intermediate: Annotated[int, msgspec.Meta(ge=1, le=524288)]
    layers: Annotated[int, msgspec.Meta(ge=1, le=1024)] = 1
    heads: Annotated[int, msgspec.Meta(ge=1, le=1024)] = 1


class Transformers(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    tag_field="kind",
    tag="transformers",
):
    """A model of the transformers library: a shipped configuration, a local directory or a name on the hub."""

    name: str
    weights: Weights
    config: dict[str, Any] | None = None
    #: Its weights at the least, where a file or the configuration tells before the model is opened.
    parameters: int | None = None


class Factory(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    tag_field="kind",
    tag="factory",
):
    """The user's own function: `package.module:factory` or `file.py:factory`."""

    name: str


class Exported(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    tag_field="kind",
    tag="exported",
):
    """A file written by `torch.export.save`."""

    name: str


class OnnxFile(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    tag_field="kind",
    tag="onnx",
):
    """An ONNX file."""

    name: str


Model = Synthetic | Transformers | Factory | Exported | OnnxFile


class Priorities(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How much each criterion weighs, in percent.

    The three Ps sum to 100 and share what the two further criteria leave of the score.
    """

    performance: float
    productivity: float
    portability: float
    input_flexibility: float = 10.0
    architecture_support: float = 10.0

    def shares(self) -> dict[str, float]:
        """Return each criterion's share of the score; they sum to 1."""
        further = {name: getattr(self, name) / 100 for name in FURTHER_CRITERIA}
        left = 1 - sum(further.values())
        return {**{name: getattr(self, name) / 100 * left for name in PILLARS}, **further}

    def weigh(self, tiers: Mapping[str, int]) -> float:
        """Return the score: the weighted mean of the tiers, between 1 and 3."""
        return sum(share * tiers[name] for name, share in self.shares().items())

    def with_weight(self, pillar: str, weight: float) -> Priorities:
        """Return these priorities with one of the three Ps at `weight` and the other two sharing the rest in their proportion."""
        others = [name for name in PILLARS if name != pillar]
        total = sum(getattr(self, name) for name in others)
        portions = {
            name: getattr(self, name) / total if total else 1 / len(others) for name in others
        }
        rest = {name: (100 - weight) * portion for name, portion in portions.items()}
        return msgspec.structs.replace(self, **{pillar: weight}, **rest)


class Constraint(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A criterion's tier that a workflow must reach to be recommended; it filters and never bends a score."""

    criterion: str
    at_least: Annotated[int, msgspec.Meta(ge=1, le=3)]


class Budget(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long the measurement may take, builds not counted."""

    name: str
    measuring_seconds: Annotated[float, msgspec.Meta(gt=0)]
    most_rounds: Annotated[int, msgspec.Meta(ge=4)]
    #: How often the arms that lead are repeated in fresh processes.
    repeats: Annotated[int, msgspec.Meta(ge=0)] = 0
    #: Seconds of calling the best two without a pause, in all; 0 for none.
    sustained_seconds: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    #: Whether batch sizes that were not built are tried.
    new_shapes: bool = False


class Question(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything the user decides; the answer depends on this, the machine, the rubric and what is measured."""

    model: Model
    task: Task
    device: Literal["cpu", "cuda"]
    #: UUID of the GPU that is measured; None on the CPU.
    gpu: str | None
    dtype: Dtype
    batch_sizes: tuple[Annotated[int, msgspec.Meta(ge=1, le=65536)], ...]
    input_tokens: Annotated[int, msgspec.Meta(ge=1, le=1 << 20)]
    output_tokens: Annotated[int, msgspec.Meta(ge=1, le=1 << 20)]
    priorities: Priorities
    constraints: tuple[Constraint, ...]
    budget: Budget
    max_build_seconds: Annotated[float, msgspec.Meta(gt=0)]
    #: Arms or workflows to which the plan is limited; empty for all.
    workflows: tuple[str, ...]
    seed: Annotated[int, msgspec.Meta(ge=0)]
    python: str
    trust_remote_code: bool = False
    allow_pickle: bool = False
    offline: bool = False
    #: Requests that a build has to pay for itself, if the user knows them.
    requests: Annotated[int, msgspec.Meta(ge=1)] | None = None
    #: Price of the device per hour, in whatever currency the user counts.
    price_per_hour: Annotated[float, msgspec.Meta(gt=0)] | None = None
    #: Whether every workflow is tried on the panel of small models.
    survey: bool = False
    #: Minutes for all builds together, if they are limited.
    build_minutes: Annotated[float, msgspec.Meta(gt=0)] | None = None
