"""A workflow of `workflows.toml`: requirements, arms, declared facts and their sources."""

from __future__ import annotations

import itertools
from typing import Annotated, Any, Literal, TypeAlias

import msgspec

from advisor.domain.model import InputFormat, input_format_of
from advisor.domain.question import DeviceKind, Dtype, Question, Task, WeightFormat

#: Words of options that texts spell in their own way.
ABBREVIATIONS = {"cuda": "CUDA", "io": "I/O"}


class CitedFact(msgspec.Struct, frozen=True, kw_only=True):
    """A declared fact with its source."""

    value: str | int | bool
    source: Annotated[str, msgspec.Meta(min_length=1)]
    #: Whether the source states it, we infer it, or no source confirms it.
    basis: Literal["stated", "ours", "not confirmed"] = "stated"
    #: Our reason; required unless the source states the fact.
    because: str = ""

    def __post_init__(self) -> None:
        if self.basis != "stated" and not self.because.strip():
            raise ValueError(f"a fact whose basis is {self.basis!r} needs a sentence in `because`")


class DeclaredFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Facts about a workflow that cannot be measured on one machine."""

    #: Lines that a user adds or changes to adopt it.
    lines_changed: CitedFact
    #: Whether the model must be exported first.
    export_step: CitedFact
    #: Number of vendors whose devices it supports.
    vendors: CitedFact
    #: The place in which a built artefact can be used: `process`, `gpu-model`, `vendor`, `any`.
    artefact_scope: CitedFact
    #: What the target needs beside the driver: `pytorch` (with Python), `python`, `libtorch`, or
    #: only a `runtime` of its own.
    target_needs: CitedFact
    #: Behaviour for a shape that was not built: `served`, `recompiles`, `refused`.
    new_shapes: CitedFact
    #: Supported models: `any`, `most`, `listed`.
    architectures: CitedFact
    #: Licence of the stack, by its SPDX name if it has one.
    licence: CitedFact | None = None
    #: Date of the last check of the sources, as 2026-11-21.
    looked_up: str = ""


class CountedLines(msgspec.Struct, frozen=True, kw_only=True):
    """The lines that a user writes to adopt a workflow with its first arm."""

    #: Number of lines that eager PyTorch does not need.
    lines_changed: int
    source: str


class WeightCopies(msgspec.Struct, frozen=True, kw_only=True):
    """Least number of copies of the model's weights in device memory."""

    always: float = 1.0
    #: Further copies for each batch size; an engine built for one size has its own.
    each_batch_size: float = 0.0
    source: str = "the model itself"


class EngineMemory(msgspec.Struct, frozen=True, kw_only=True):
    """An entry of `engine_memory.toml`: the GPU memory that an engine gets."""

    #: Memory that is needed in addition to weights and cache.
    overhead_gib: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    #: Size of the cache, as a multiple of what the largest batch needs.
    cache_factor: Annotated[float, msgspec.Meta(ge=1)]
    least_cache_gib: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    most_share: Annotated[float, msgspec.Meta(gt=0, le=1)] = 1.0
    source: Annotated[str, msgspec.Meta(min_length=1)]


#: Fields of `DeclaredFacts` that differ from those of the workflow.
ChangedFacts: TypeAlias = dict[str, CitedFact]


class DeclaredWhere(msgspec.Struct, frozen=True, kw_only=True):
    """Declared facts that hold for one task, device or form of the model, of all arms or of one."""

    task: Task | None = None
    device: DeviceKind | None = None
    input_format: InputFormat | None = None
    #: Whether the ONNX file takes one batch size alone; null for all models.
    fixed: bool | None = None
    #: Null for all arms that declare no other fact.
    arm: str | None = None
    facts: ChangedFacts


class KnownFault(msgspec.Struct, frozen=True, kw_only=True):
    """A known fault of the stack, by the outcome it causes; it excludes nothing."""

    #: Outcomes that it explains.
    statuses: Annotated[
        tuple[Literal["incorrect", "nondeterministic", "build-failed", "crashed"], ...],
        msgspec.Meta(min_length=1),
    ]
    #: Affected precisions; empty for all.
    dtypes: tuple[Dtype, ...] = ()
    #: Version specifiers of the affected compute capabilities, one of which must match; empty for
    #: all devices.
    compute_capabilities: tuple[str, ...] = ()
    description: Annotated[str, msgspec.Meta(min_length=1)]
    next_step: Annotated[str, msgspec.Meta(min_length=1)]
    source: Annotated[str, msgspec.Meta(min_length=1)]


class DeclaredArm(msgspec.Struct, frozen=True, kw_only=True):
    """One set of options of a workflow; an empty tuple means all that the workflow supports."""

    #: Options for the workflow's module.
    options: dict[str, Any] = {}
    devices: tuple[DeviceKind, ...] = ()
    tasks: tuple[Task, ...] = ()
    dtypes: tuple[Dtype, ...] = ()
    input_formats: tuple[InputFormat, ...] = ()
    #: Devices on which it is measured only if `--workflows` names it, because its build takes long.
    on_request: tuple[DeviceKind, ...] = ()
    #: The arm is measured only where a run has found this: that outputs of another arm of the
    #: workflow vary, or that the model convolves images.
    called_for: Literal["nondeterministic", "convolutions"] | None = None
    #: Format of quantised weights; null for native ones.
    weight_format: WeightFormat | None = None
    #: Arms with the same artefact differ only in how it is fed.
    artefact: str = ""
    #: Environment whose interpreter writes the quantised checkpoint that it loads.
    quantiser: Environment | None = None
    #: Facts that differ from the workflow's.
    declared: ChangedFacts = {}


#: The option whose arm has the id of its workflow.
DEFAULT_OPTION = "default"


class Workflow(msgspec.Struct, frozen=True, kw_only=True):
    """One way to compile and run a PyTorch model."""

    id: str
    title: str
    #: Further names that `--workflows` takes; workflows with the same one are meant together.
    aliases: tuple[str, ...] = ()
    tasks: tuple[Task, ...]
    devices: tuple[DeviceKind, ...]
    dtypes: tuple[Dtype, ...]
    input_formats: tuple[InputFormat, ...]
    environment: Environment
    #: Environments for devices for which the stack has a distribution of its own.
    environment_on: dict[DeviceKind, Environment] = {}
    #: Sets of requirements; the interpreter of `--python` is used if it meets one of them.
    accepts: tuple[tuple[str, ...], ...] = ()
    arms: dict[str, DeclaredArm]
    #: States that eager code runs where the compiled one does not; null where that cannot happen.
    eager_fallback: CitedFact | None = None
    #: Position in the order of builds; fast builds come first.
    build_order: int
    #: Devices on which no other arm may be built meanwhile.
    builds_alone_on: tuple[DeviceKind, ...] = ()
    declared: DeclaredFacts
    #: How the user can install it.
    how_to_get: str
    #: Devices on which it ran, with the month, as `cpu 2026-11`; empty for none.
    verified: tuple[str, ...] = ()
    #: Whether `probes/workflows/` has a module for it.
    has_probe: bool = False
    #: Why it has no module; null if it has one.
    not_measured: CitedFact | None = None
    #: Steps that save the next process from building again.
    deployment_steps: tuple[str, ...] = ()
    #: What it does to PyTorch code in the same process; null for nothing that is known.
    beside_pytorch: CitedFact | None = None
    #: Name of the user's program; workflows that share it differ only in a provider or backend.
    #: Empty for the workflow's id.
    application: str = ""
    #: Null where no probe gives one.
    integration: CountedLines | None = None
    #: Least compute capability, as `8.0`.
    min_compute_capability: str | None = None
    #: States that its server can split a model over several GPUs; null where it cannot.
    tensor_parallel: CitedFact | None = None
    #: The reason why it is known not to work, by device or task.
    refused: dict[str, CitedFact] = {}
    faults: tuple[KnownFault, ...] = ()
    weight_copies: WeightCopies = WeightCopies()
    #: Declared facts that differ by task, device or form; `for_question` applies them.
    declared_where: tuple[DeclaredWhere, ...] = ()
    #: Environment of the program that sends requests to its server; null for one without a server.
    load_generator: Environment | None = None

    def __post_init__(self) -> None:
        of_arms = (each.declared for each in self.arms.values())
        changed = itertools.chain(*of_arms, *(each.facts for each in self.declared_where))
        if unknown := {*changed} - {*DeclaredFacts.__struct_fields__}:
            raise ValueError(f"unknown facts: {', '.join(sorted(unknown))}")

    @property
    def environments(self) -> tuple[Environment, ...]:
        generator = (self.load_generator,) if self.load_generator else ()
        quantisers = (each.quantiser for each in self.arms.values() if each.quantiser)
        return (self.environment, *self.environment_on.values(), *generator, *quantisers)

    def for_question(self, question: Question) -> Workflow:
        device, input_format = question.device, input_format_of(question.model)
        fixed = getattr(question.model, "batch_size", None) is not None
        declared, arms = self.declared, dict(self.arms)
        for case in self.declared_where:
            if case.task not in {None, question.task} or case.device not in {None, device}:
                continue
            if case.input_format not in {None, input_format} or case.fixed not in {None, fixed}:
                continue
            if case.arm is None:
                declared = msgspec.structs.replace(declared, **case.facts)
            else:
                facts = {**arms[case.arm].declared, **case.facts}
                arms[case.arm] = msgspec.structs.replace(arms[case.arm], declared=facts)
        return msgspec.structs.replace(
            self,
            environment=self.environment_on.get(device, self.environment),
            declared=declared,
            arms=arms,
            declared_where=(),
        )

    @property
    def environment_name(self) -> str:
        """The name of its environment, which other workflows may share."""
        return self.environment.name or self.id

    def title_of(self, arm: str) -> str:
        """Return what texts call an arm: the title, and the arm's option in parentheses."""
        option = " ".join(map(_spell, arm.removeprefix(self.id).lstrip("/").split("-")))
        return f"{self.title} ({option})" if option else self.title

    def arm(self, option: str) -> DeclaredArm:
        """Return what is declared of an arm, which an older run may have and the catalogue not."""
        return self.arms.get(option, DeclaredArm())

    def for_arm(self, option: str) -> Workflow:
        declared = msgspec.structs.replace(self.declared, **self.arm(option).declared)
        return msgspec.structs.replace(self, declared=declared)


def _spell(word: str) -> str:
    if word in ABBREVIATIONS:
        return ABBREVIATIONS[word]
    return word.upper() if any(map(str.isdigit, word)) else word


class InstallFootprint(msgspec.Struct, frozen=True, kw_only=True):
    """Disk space and time that an environment took when it was created.

    Packages in the cache of uv are not downloaded again and need no space.
    """

    disk_mib: int
    seconds: int
    #: Machine of the measurement.
    where: str


class Environment(msgspec.Struct, frozen=True, kw_only=True):
    """Environment of a workflow's worker.

    `shared` is the interpreter of `--python`, `own` an environment created for the workflow.
    """

    kind: Literal["shared", "own"]
    requirements: tuple[str, ...] = ()
    #: Workflows with the same name share the environment; the default is the workflow's id.
    name: str = ""
    #: Supported versions of Python.
    python: str = ">=3.10,<3.14"
    #: Build of torch: none, the CPU build, or the build for the machine.
    torch: Literal["none", "cpu", "auto"] = "none"
    #: Required packages that are not installed, because no worker uses them.
    excluded_packages: tuple[str, ...] = ()
    #: Modules whose import is the test of a created environment.
    imports: tuple[str, ...] = ()
    #: Environments that cannot be installed in the same interpreter.
    conflicts: tuple[str, ...] = ()
    licence: str = ""
    footprint: InstallFootprint | None = None

    @property
    def terms(self) -> str:
        """What its creation takes, and its licence."""
        found = self.footprint
        size = (
            f"{found.disk_mib} MiB on disk, created in {found.seconds} s ({found.where})"
            if found
            else "its size is not known yet"
        )
        return f"{size}; licence {self.licence}" if self.licence else size
