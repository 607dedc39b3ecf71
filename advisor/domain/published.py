"""Published advice and figures, with which measurements are compared."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from advisor.domain.question import Dtype, Question, Task


class Guideline(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Published advice: the questions it applies to and the workflows it recommends."""

    id: Annotated[str, msgspec.Meta(min_length=1)]
    says: Annotated[str, msgspec.Meta(min_length=1)]
    workflows: tuple[str, ...]
    tasks: tuple[Task, ...]
    devices: tuple[Literal["cpu", "cuda"], ...]
    #: The criterion that must have a weight of at least `at_least` percent; null for advice that
    #: holds for any weights.
    criterion: Literal["performance", "productivity", "portability"] | None = None
    at_least: Annotated[float, msgspec.Meta(ge=0, le=100)] = 0.0
    basis: Literal["paper", "handbook"]
    source: Annotated[str, msgspec.Meta(min_length=1)]


class TreeNode(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One question of the handbook's decision tree.

    `yes` and `no` name a node or, with a leading `=`, a leaf.
    """

    asks: Annotated[str, msgspec.Meta(min_length=1)]
    #: The fact that answers it. `open`, of earlier versions, has no answer.
    fact: Literal[
        "on-nvidia",
        "portability-leads",
        "generates",
        "performance-leads",
        "compile-suffices",
        "serves-users",
        "open",
    ]
    yes: str
    no: str


class TreeLeaf(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One recommendation of the decision tree."""

    says: Annotated[str, msgspec.Meta(min_length=1)]
    workflows: tuple[str, ...]


class DecisionTree(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`tree.toml`: the handbook's decision tree."""

    source: str = ""
    #: Name of the root node.
    first: str = ""
    #: Weight in percent from which a criterion leads.
    leads_from: Annotated[float, msgspec.Meta(ge=0, le=100)] = 50.0
    node: dict[str, TreeNode] = {}
    leaf: dict[str, TreeLeaf] = {}


class PublishedFigure(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A figure of the paper, with its conditions."""

    gpu: str
    #: Name of the paper's software environment.
    stack: str
    model: str
    workflow: str
    fact: Literal["speedup", "tokens_per_second", "peak_memory_gib", "compile_seconds"]
    #: Batch sizes that the figure holds for.
    batch_sizes: Annotated[
        tuple[Annotated[int, msgspec.Meta(ge=1)], ...], msgspec.Meta(min_length=1)
    ]
    low: Annotated[float, msgspec.Meta(gt=0)]
    high: Annotated[float, msgspec.Meta(gt=0)]
    section: Annotated[str, msgspec.Meta(min_length=1)]
    #: Why a measurement today may differ; empty if no cause is known.
    differs_because: str = ""


class PublishedFailure(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A workflow that failed for a model in the paper, with the reason."""

    model: str
    workflow: str
    reason: Annotated[str, msgspec.Meta(min_length=1)]
    section: Annotated[str, msgspec.Meta(min_length=1)]


class PublishedConditions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the paper ran a model with, for all of its figures."""

    task: Task
    dtype: Dtype
    input_tokens: Annotated[int, msgspec.Meta(ge=1)]
    #: Null for the task `forward`.
    output_tokens: Annotated[int, msgspec.Meta(ge=1)] | None = None
    section: Annotated[str, msgspec.Meta(min_length=1)]

    def differences(self, question: Question) -> tuple[str, ...]:
        """Return each condition that the question does not share, with both values."""
        pairs = [
            (f"the task {self.task}", question.task, self.task == question.task),
            (self.dtype, question.dtype, question.dtype in {self.dtype, "native"}),
            (
                f"{self.input_tokens} input tokens",
                question.input_tokens,
                self.input_tokens == question.input_tokens,
            ),
            (
                f"{self.output_tokens} output tokens",
                question.output_tokens,
                self.output_tokens in {None, question.output_tokens},
            ),
        ]
        return tuple(f"{here} (asked: {asked})" for here, asked, is_same in pairs if not is_same)


class PublishedData(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`published.toml`: figures and failures of the paper."""

    source: str = ""
    #: Year and month of each software environment. Of two figures of a workflow the one with the
    #: newer environment counts.
    stacks: dict[str, str] = {}
    #: By model; figures of a model without an entry are compared by model only.
    conditions: dict[str, PublishedConditions] = {}
    figure: tuple[PublishedFigure, ...] = ()
    failure: tuple[PublishedFailure, ...] = ()

    def differences(self, question: Question) -> tuple[str, ...]:
        """Return the conditions of the model's figures that the question does not share."""
        conditions = self.conditions.get(question.model.name)
        return conditions.differences(question) if conditions else ()
