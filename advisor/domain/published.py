"""Advice that others have published, and their figures: what measurements are compared with."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from advisor.domain.question import Task


class Guideline(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A piece of published advice: for which questions it speaks, and what it names."""

    id: Annotated[str, msgspec.Meta(min_length=1)]
    says: Annotated[str, msgspec.Meta(min_length=1)]
    workflows: tuple[str, ...]
    tasks: tuple[Task, ...]
    devices: tuple[Literal["cpu", "cuda"], ...]
    #: The one of the three Ps that has to weigh at least `at_least` percent; none for advice that
    #: holds for any weights.
    criterion: Literal["performance", "productivity", "portability"] | None = None
    at_least: Annotated[float, msgspec.Meta(ge=0, le=100)] = 0.0
    basis: Literal["paper", "handbook"]
    source: Annotated[str, msgspec.Meta(min_length=1)]


class TreeNode(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One question of the handbook's decision tree; `yes` and `no` name a node or, with a leading `=`, a leaf."""

    asks: Annotated[str, msgspec.Meta(min_length=1)]
    #: What decides it; `open` where nothing that is asked tells.
    fact: Literal["on-nvidia", "portability-leads", "generates", "performance-leads", "open"]
    yes: str
    no: str


class TreeLeaf(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where the decision tree can end."""

    says: Annotated[str, msgspec.Meta(min_length=1)]
    workflows: tuple[str, ...]


class Tree(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`tree.toml`."""

    source: str = ""
    first: str = ""
    #: Weight in percent from which on one of the three Ps leads.
    leads_from: Annotated[float, msgspec.Meta(ge=0, le=100)] = 50.0
    node: dict[str, TreeNode] = {}
    leaf: dict[str, TreeLeaf] = {}


class PublishedFigure(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A figure of the paper, with everything that is needed to compare it with a measurement."""

    gpu: str
    #: Name of the paper's software environment.
    stack: str
    model: str
    workflow: str
    fact: Literal["speedup", "tokens_per_second", "peak_memory_gib", "compile_seconds"]
    #: Batch sizes it holds for.
    batch_sizes: Annotated[
        tuple[Annotated[int, msgspec.Meta(ge=1)], ...], msgspec.Meta(min_length=1)
    ]
    low: Annotated[float, msgspec.Meta(gt=0)]
    high: Annotated[float, msgspec.Meta(gt=0)]
    section: Annotated[str, msgspec.Meta(min_length=1)]
    #: Why a measurement made today may differ; empty where no cause is known.
    differs_because: str = ""


class PublishedFailure(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A workflow that the paper could not run for a model, and why."""

    model: str
    workflow: str
    reason: Annotated[str, msgspec.Meta(min_length=1)]
    section: Annotated[str, msgspec.Meta(min_length=1)]


class Published(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`published.toml`."""

    source: str = ""
    #: Year and month of each software environment; of two figures of a workflow the newer
    #: environment's counts.
    stacks: dict[str, str] = {}
    figure: tuple[PublishedFigure, ...] = ()
    failure: tuple[PublishedFailure, ...] = ()
