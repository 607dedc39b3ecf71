"""What is known before anything is measured: workflows, criteria, models, GPUs, presets; each fact with its source."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from advisor.domain.published import Guideline, Published, Tree
from advisor.domain.question import (
    Budget,
    Dtype,
    Factory,
    Model,
    Priorities,
    Synthetic,
    Transformers,
)
from advisor.domain.rubric import Rubric
from advisor.domain.workflow import Workflow


class Preset(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Priorities for a kind of deployment."""

    title: str
    priorities: Priorities


class ShippedConfiguration(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A model configuration that ships as data, so that it is probed without a network."""

    dtype: Dtype
    source: str
    config: dict[str, Any]


class Family(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The feed-forward sizes of a language model, which the paper gives its synthetic models."""

    hidden: int
    intermediate: int
    layers: int
    dtype: Dtype
    source: str


class Models(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The models that can be named without bringing one."""

    demo: Synthetic
    #: Small language models among the configurations, the first of which is the demonstration of
    #: text generation; runs made before there were any have none.
    demo_language_models: tuple[str, ...] = ()
    demo_batch_sizes: tuple[int, ...]
    batch_sizes: tuple[int, ...]
    families: dict[str, Family]
    configurations: dict[str, ShippedConfiguration]

    @property
    def demo_language_model(self) -> str:
        """The language model that is taken where none is named."""
        return self.demo_language_models[0]


class KnownGpu(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A GPU that can be asked about without being attached."""

    compute_capability: str
    memory_gib: float
    source: str
    #: Day on which the sources were last read, as 2026-11-21.
    looked_up: str = ""


class Deadlines(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Seconds a worker may stay in a phase before it is ended."""

    start: float
    import_: float = msgspec.field(name="import")
    load: float
    correctness: float
    warmup: float
    visit: float
    sustain: float
    diagnose: float
    done: float


class GuardRules(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When a visit does not count because the machine was not fit; fixed before anything is measured."""

    most_stolen_share: float
    most_queued_share: float
    most_throttled_seconds: float
    #: Of the GPU's default clock.
    least_clock_share: float
    #: How often a visit is made again, and the share of an arm's visits that may be discarded at
    #: all.
    retries: int
    most_discarded_share: float
    source: str


class Presets(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Named answers: priorities, budgets, deadlines."""

    default_preset: str
    default_budget: str
    priorities: dict[str, Preset]
    budgets: dict[str, Budget]
    deadlines: Deadlines
    guard: GuardRules


class PanelModel(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A small model of the survey; it has a configuration of transformers or a factory, one of the two."""

    id: Annotated[str, msgspec.Meta(pattern="^[a-z0-9-]+$")]
    family: Annotated[str, msgspec.Meta(min_length=1)]
    config: dict[str, Any] | None = None
    factory: str | None = None

    def as_subject(self) -> Model:
        """Return the model as a question names one."""
        if self.config is not None:
            return Transformers(name=self.id, weights="random", config=self.config)
        return Factory(name=self.factory or "")


class Panel(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`panel.toml`: the models that a survey compiles, and which shares of them mean what."""

    source: Annotated[str, msgspec.Meta(min_length=1)] = "none"
    batch_size: Annotated[int, msgspec.Meta(ge=1)] = 1
    input_tokens: Annotated[int, msgspec.Meta(ge=1)] = 1
    build_seconds: Annotated[float, msgspec.Meta(gt=0)] = 300.0
    any_from: Annotated[float, msgspec.Meta(gt=0, le=1)] = 1.0
    most_from: Annotated[float, msgspec.Meta(gt=0, le=1)] = 0.6
    model: tuple[PanelModel, ...] = ()


class Catalogue(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that `rubric/` holds."""

    workflows: tuple[Workflow, ...]
    rubric: Rubric
    models: Models
    presets: Presets
    gpus: dict[str, KnownGpu]
    guidelines: tuple[Guideline, ...] = ()
    published: Published = Published()
    panel: Panel = Panel()
    tree: Tree = Tree()

    def on(self, device: Literal["cpu", "cuda"]) -> Catalogue:
        """Return the catalogue with the environments that the workflows have on this device."""
        return msgspec.structs.replace(
            self, workflows=tuple(workflow.on(device) for workflow in self.workflows)
        )
