"""What is known before anything is measured: workflows, criteria, models, presets; each fact with its source."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from advisor.domain.question import Budget, Dtype, Priorities, Synthetic, Task

Basis = Literal["paper", "ours"]
Tier = Annotated[int, msgspec.Meta(ge=1, le=3)]


class Sourced(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A declared fact and where it can be looked up."""

    value: str | int | bool
    source: Annotated[str, msgspec.Meta(min_length=1)]


class Environment(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where a workflow's worker runs.

    `shared` is the interpreter of `--python`, `own` an environment made for the workflow alone, `container` an image.
    """

    kind: Literal["shared", "own", "container"]
    requirements: tuple[str, ...] = ()


class Declared(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Facts about a workflow that no probe of one machine can show."""

    #: Lines that a user adds or changes to adopt it.
    lines_changed: Sourced
    #: Whether the model has to be exported first.
    export_step: Sourced
    #: Vendors whose devices it reaches, counted.
    vendors: Sourced
    #: How far a built artefact travels: `process`, `gpu-model`, `vendor`, `any`.
    artefact_scope: Sourced
    #: What happens for a shape that was not built: `served`, `recompiles`, `refused`.
    new_shapes: Sourced
    #: Which models it takes: `any`, `most`, `listed`.
    architectures: Sourced


class Workflow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One way to compile and run a PyTorch model."""

    id: str
    title: str
    tasks: tuple[Task, ...]
    devices: tuple[Literal["cpu", "cuda"], ...]
    dtypes: tuple[Dtype, ...]
    takes: tuple[Literal["torch", "onnx"], ...]
    environment: Environment
    #: Options by arm; the arm `default` goes by the workflow's id alone.
    arms: dict[str, dict[str, Any]]
    #: Place in the order of builds: cheap ones first.
    build_order: int
    declared: Declared
    #: What the user can do to get it where it does not run.
    how_to_get: str
    #: Where it was really run: `cpu 2026-11`, ...; empty for never.
    verified: tuple[str, ...] = ()
    #: True once `probes/workflows/` has a module for it.
    has_probe: bool = False
    #: Lowest compute capability, as `8.0`.
    min_compute_capability: str | None = None
    #: Why it is known not to work here, by device; each with a source.
    refused: dict[str, Sourced] = {}


class Condition(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A fact compared with a threshold; exactly one comparison is given."""

    fact: str
    at_least: float | None = None
    at_most: float | None = None
    is_one_of: tuple[str | int | bool, ...] | None = None


class TierRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All conditions of a tier; none for the tier that is left over."""

    tier: Tier
    all: tuple[Condition, ...]
    basis: Basis
    source: Annotated[str, msgspec.Meta(min_length=1)]
    why: Annotated[str, msgspec.Meta(min_length=1)]


class Fact(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A fact that rules may use; the vocabulary is closed."""

    unit: str
    evidence: Literal["measured", "declared"]
    meaning: str


class Criterion(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One of the paper's five criteria, with its tiers from best to least."""

    id: str
    title: str
    question: str
    tiers: tuple[TierRule, ...]


class Rubric(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The criteria, the facts they rest on, and the margins of the decision."""

    name: str
    minimum_engaged_share: Annotated[float, msgspec.Meta(ge=0, le=1)]
    facts: dict[str, Fact]
    criteria: tuple[Criterion, ...]


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
    #: Small language models among the configurations, the first of which is the demonstration of text generation.
    demo_language_models: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
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
    #: How often a visit is made again, and the share of an arm's visits that may be discarded at all.
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


class Guideline(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A piece of published advice: for which questions it speaks, and what it names."""

    id: Annotated[str, msgspec.Meta(min_length=1)]
    says: Annotated[str, msgspec.Meta(min_length=1)]
    workflows: tuple[str, ...]
    tasks: tuple[Task, ...]
    devices: tuple[Literal["cpu", "cuda"], ...]
    #: The one of the three Ps that has to weigh at least `at_least` percent; none for advice that holds for any weights.
    criterion: Literal["performance", "productivity", "portability"] | None = None
    at_least: Annotated[float, msgspec.Meta(ge=0, le=100)] = 0.0
    basis: Literal["paper", "handbook"]
    source: Annotated[str, msgspec.Meta(min_length=1)]


class PublishedFigure(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A figure of the paper, with everything that is needed to compare it with a measurement."""

    gpu: str
    #: Name of the paper's software environment.
    stack: str
    model: str
    workflow: str
    fact: Literal["speedup", "tokens_per_second", "peak_memory_gib", "compile_seconds"]
    #: Batch sizes it holds for.
    batch_sizes: Annotated[tuple[Annotated[int, msgspec.Meta(ge=1)], ...], msgspec.Meta(min_length=1)]
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
    #: Year and month of each software environment; of two figures of a workflow the newer environment's counts.
    stacks: dict[str, str] = {}
    figure: tuple[PublishedFigure, ...] = ()
    failure: tuple[PublishedFailure, ...] = ()


class Catalogue(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that `rubric/` holds."""

    workflows: tuple[Workflow, ...]
    rubric: Rubric
    models: Models
    presets: Presets
    gpus: dict[str, KnownGpu]
    guidelines: tuple[Guideline, ...] = ()
    published: Published = Published()
