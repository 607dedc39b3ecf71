"""The catalogue: workflows, criteria, models, GPUs and presets, each fact with its source."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from advisor.domain.accuracy import AccuracyRules
from advisor.domain.constraints import Priorities
from advisor.domain.model import SyntheticModel
from advisor.domain.question import Budget, DeviceKind, Dtype, Question
from advisor.domain.rubric import Guideline, Rubric
from advisor.domain.serving import ServingRules
from advisor.domain.workflow import EngineMemory, Workflow
from probes.outcome import Phase


class Preset(msgspec.Struct, frozen=True, kw_only=True):
    """Priorities for a kind of deployment."""

    title: str
    priorities: Priorities


class ShippedConfiguration(msgspec.Struct, frozen=True, kw_only=True):
    """A model configuration shipped as data, so that it is available without a network."""

    dtype: Dtype
    source: str
    config: dict[str, Any]


class FeedForwardSizes(msgspec.Struct, frozen=True, kw_only=True):
    """Feed-forward sizes of a language model; the paper gives them to its synthetic models."""

    hidden: int
    intermediate: int
    layers: int
    dtype: Dtype
    source: str


class Models(msgspec.Struct, frozen=True, kw_only=True):
    """Models that a question can name without a file of its own."""

    demo: SyntheticModel
    #: Small language models among the configurations; the first is the default for text generation.
    demo_language_models: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
    cpu_batch_sizes: tuple[int, ...]
    #: What `demo` is on a GPU, and its batch sizes: large enough that the GPU is measured and not
    #: the host.
    demo_gpu: SyntheticModel
    demo_gpu_batch_sizes: tuple[int, ...]
    batch_sizes: tuple[int, ...]
    families: dict[str, FeedForwardSizes]
    configurations: dict[str, ShippedConfiguration]
    #: Model types of transformers that are layers of attention and a gated feed-forward block, each
    #: with its source.
    gated_decoders: dict[str, str]

    @property
    def demo_language_model(self) -> str:
        return self.demo_language_models[0]


class KnownGpu(msgspec.Struct, frozen=True, kw_only=True):
    """A GPU that a question can name although it is not attached."""

    source: str
    #: Date of the last check of the source, as 2026-11-21.
    looked_up: str


class VisitQualityLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of the machine's conditions beyond which a visit is discarded."""

    #: Largest share of steal time, and of time that threads wait for a processor.
    most_stolen_share: float
    most_queued_share: float
    #: Largest time for which cgroups throttle the worker.
    most_throttled_seconds: float
    #: Smallest SM clock, as a share of the GPU's default clock.
    least_clock_share: float
    #: How many times its fastest time in the worker a fixed piece of host work may take next to
    #: the calls of a visit.
    most_host_slowdown: float
    #: Largest number of retries of a visit, and largest share of an arm's visits that may be
    #: discarded.
    retries: int
    most_discarded_share: float
    source: str


class BuildPresets(msgspec.Struct, frozen=True, kw_only=True):
    """How many builds run side by side, and when they make room for races."""

    #: Most builds that run at the same time; each has at least one processor.
    most_at_once: Annotated[int, msgspec.Meta(ge=1)]
    #: Seconds that a run takes at least before its first builds, and to check and time them.
    first_build_seconds: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    #: Builds that are expected to take at most this long come first and give an early answer.
    early_seconds: Annotated[float, msgspec.Meta(ge=0)]
    #: Seconds of the run by which builds are quick: on a GPU the first race waits for these.
    quick_seconds: Annotated[float, msgspec.Meta(ge=0)]
    #: Seconds until the first race waits for no further early build, and of builds between races.
    first_race_seconds: Annotated[float, msgspec.Meta(ge=0)]
    race_interval_seconds: Annotated[float, msgspec.Meta(ge=0)]
    #: Seconds for which a due race waits for nearly built arms, and that an import takes.
    nearly_built_seconds: Annotated[float, msgspec.Meta(ge=0)]
    import_seconds: Annotated[float, msgspec.Meta(ge=0)]
    #: Fewest processors of each build with which builds side by side end sooner than one by one.
    processors_of_a_build: Annotated[int, msgspec.Meta(ge=1)]
    #: Factors on the limit of a build and on its expected seconds, beyond which it is hopeless or
    #: may hang; on the seconds of a call, for the limit; and on the least seconds of a run.
    hopeless_factor: Annotated[float, msgspec.Meta(ge=1)]
    hung_factor: Annotated[float, msgspec.Meta(ge=1)]
    call_factor: Annotated[float, msgspec.Meta(ge=1)]
    sufficient_factor: Annotated[float, msgspec.Meta(ge=1)]
    #: The factor by which the gain of an arm over another one may exceed that of all kept runs.
    gain_margin: Annotated[float, msgspec.Meta(ge=1)]
    source: str


class SiblingGain(msgspec.Struct, frozen=True, kw_only=True):
    """How much faster than another arm of its workflow an arm was at most, and in how many runs."""

    largest: Annotated[float, msgspec.Meta(gt=0)]
    runs: Annotated[int, msgspec.Meta(ge=1)]


class EarlierRuns(msgspec.Struct, frozen=True, kw_only=True):
    """What an arm took and brought in the kept runs, by which builds are ordered and left out."""

    #: Median seconds of a cold build of all shapes.
    build_seconds: Annotated[float, msgspec.Meta(ge=0)]
    #: Largest speed-up at any shape; null for servers.
    largest_speedup: Annotated[float, msgspec.Meta(gt=0)] | None = None
    #: Largest lead over the fastest arm of other workflows in a run; null if there was no other.
    largest_lead: Annotated[float, msgspec.Meta(gt=0)] | None = None
    #: How much faster it was than each other arm of its workflow.
    gains: dict[str, SiblingGain] = {}


class QuietLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of other work within which a machine is quiet, and how it is observed."""

    #: Largest shares of the usable processors that other processes and the hypervisor may take.
    most_busy_share: float
    most_stolen_share: float
    #: Largest share of the time for which other processes may keep the GPU busy.
    most_gpu_busy_share: float
    #: Seconds of one observation, and of one while the run waits.
    sample_seconds: float
    waiting_sample_seconds: float
    source: str


class NoisePrior(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of the differences between equal processes before a run measures them."""

    #: Standard deviation of the logarithm of one process's speed.
    process_deviation: Annotated[float, msgspec.Meta(gt=0)]
    #: Number of measured differences that it counts as.
    weight: Annotated[float, msgspec.Meta(gt=0)]
    #: Share by which the ratios of typical and of the fastest calls may differ.
    fastest_margin: Annotated[float, msgspec.Meta(ge=0)]
    source: str


class StartWay(msgspec.Struct, frozen=True, kw_only=True):
    """A way to start a workflow in a new process."""

    title: str
    #: The other devices on which the shipped file can be used, and the source.
    loads_on: str
    source: str


class Presets(msgspec.Struct, frozen=True, kw_only=True):
    """Named priorities and budgets, the deadlines of phases and the limits for visits."""

    default_preset: str
    default_budget: str
    priorities: dict[str, Preset]
    budgets: dict[str, Budget]
    #: Wall time of the calls of a visit, and the least one of a warm-up on each kind of device.
    visit_seconds: Annotated[float, msgspec.Meta(gt=0)]
    warmup_seconds: dict[DeviceKind, Annotated[float, msgspec.Meta(ge=0)]]
    #: Seconds after which a worker that is still in a phase is killed.
    deadlines: dict[Phase, Annotated[float, msgspec.Meta(gt=0)]]
    visit_limits: VisitQualityLimits
    builds: BuildPresets
    noise: NoisePrior
    quiet: QuietLimits


class OtherPrecision(msgspec.Struct, frozen=True):
    """Lines for another precision, and the devices that are made for it."""

    title: str
    lines: str
    source: str
    #: The least compute capability of a GPU.
    compute_capability: float
    #: The kernel's names of processor instructions, one of which is enough.
    cpu_flags: frozenset[str] = frozenset()


class BreakCause(msgspec.Struct, frozen=True):
    """Why the graph of `torch.compile` breaks; lines, a change of the model, or both mend it."""

    #: What Dynamo's reason has in it.
    words: str
    cause: str
    source: str
    lines: str = ""
    advice: str = ""


class Improvements(msgspec.Struct, frozen=True):
    """Content of `improvements.toml`."""

    workflows: tuple[str, ...]
    precision: dict[str, OtherPrecision]
    graph_break: dict[str, BreakCause]

    def find_cause(self, reason: str) -> BreakCause | None:
        """Return why Dynamo broke a graph, or captured none; None if its reason is not known."""
        return next((each for each in self.graph_break.values() if each.words in reason), None)


class Catalogue(msgspec.Struct, frozen=True, kw_only=True):
    """All data of `rubric/`."""

    workflows: tuple[Workflow, ...]
    rubric: Rubric
    models: Models
    presets: Presets
    gpus: dict[str, KnownGpu]
    guidelines: tuple[Guideline, ...]
    #: What kept runs measured, by device and arm.
    earlier_runs: dict[str, dict[str, EarlierRuns]]
    accuracy: AccuracyRules
    serving: ServingRules
    #: GPU memory of engines, by workflow.
    engine_memory: dict[str, EngineMemory]
    #: Ways to start faster, by name.
    starts: dict[str, StartWay]
    improvements: Improvements

    @property
    def by_id(self) -> dict[str, Workflow]:
        return {workflow.id: workflow for workflow in self.workflows}

    def for_question(self, question: Question) -> Catalogue:
        return msgspec.structs.replace(
            self, workflows=tuple(workflow.for_question(question) for workflow in self.workflows)
        )
