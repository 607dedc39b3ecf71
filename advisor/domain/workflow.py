"""A workflow as `workflows.toml` has it: what it takes and reaches, what it needs, and who says so."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from advisor.domain.question import Dtype, Task


class CitedFact(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A declared fact and where it can be looked up."""

    value: str | int | bool
    source: Annotated[str, msgspec.Meta(min_length=1)]
    #: Whether the source says so, we read it so, or none was found.
    basis: Literal["stated", "ours", "not confirmed"] = "stated"
    #: Why we read it so; wanted where the source does not state it.
    because: str = ""

    def __post_init__(self) -> None:
        """Refuse a reading of ours that gives no reason."""
        if self.basis != "stated" and not self.because.strip():
            message = f"a fact whose basis is {self.basis!r} needs a sentence in `because`"
            raise ValueError(message)


class InstallFootprint(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What an environment took where it was made; what uv has in its cache is neither downloaded nor stored again."""

    disk_mib: int
    seconds: int
    where: str


class Environment(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where a workflow's worker runs.

    `shared` is the interpreter of `--python`, `own` an environment made for the workflow alone,
    `container` an image.
    """

    kind: Literal["shared", "own", "container"]
    requirements: tuple[str, ...] = ()
    #: Workflows that name the same environment share it; by default it has the workflow's id.
    name: str = ""
    #: Versions of Python it can be made with.
    python: str = ">=3.10,<3.14"
    #: Which build of torch it takes: none of it, the CPU's, or the one that fits the machine.
    torch: Literal["none", "cpu", "auto"] = "none"
    #: Packages that others ask for and that are not installed: nothing here needs them, and a build
    #: that fits may be hard to have.
    leaves_out: tuple[str, ...] = ()
    #: Modules that have to import before it counts as made.
    imports: tuple[str, ...] = ()
    #: Environments that it cannot be installed together with.
    conflicts: tuple[str, ...] = ()
    licence: str = ""
    seen: InstallFootprint | None = None
    #: What a container is started from.
    image: str = ""


class Declared(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Facts about a workflow that no probe of one machine can show."""

    #: Lines that a user adds or changes to adopt it.
    lines_changed: CitedFact
    #: Whether the model has to be exported first.
    export_step: CitedFact
    #: Vendors whose devices it reaches, counted.
    vendors: CitedFact
    #: How far a built artefact travels: `process`, `gpu-model`, `vendor`, `any`.
    artefact_scope: CitedFact
    #: What happens for a shape that was not built: `served`, `recompiles`, `refused`.
    new_shapes: CitedFact
    #: Which models it takes: `any`, `most`, `listed`.
    architectures: CitedFact
    #: Of what is installed, by its SPDX name where it has one.
    licence: CitedFact | None = None
    #: Day on which the sources were last read, as 2026-11-21.
    looked_up: str = ""


class Integration(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The lines that a user writes to take a workflow up, with its first set of options; the script handed out is an `said.Recipe`."""

    #: Those that eager PyTorch does not have.
    lines_changed: int
    source: str


class WeightCopies(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How many times a workflow holds the model's weights in the device's memory, at the least."""

    always: float = 1.0
    #: Beside that, for each batch size: engines and packages built for one size hold their own.
    each_batch_size: float = 0.0
    source: str = "the model itself"


class ArmDeclared(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is declared otherwise for one arm of a workflow than for the workflow."""

    lines_changed: CitedFact | None = None
    export_step: CitedFact | None = None
    vendors: CitedFact | None = None
    artefact_scope: CitedFact | None = None
    new_shapes: CitedFact | None = None
    architectures: CitedFact | None = None


class KnownFault(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A fault of the stack that is known beyond this machine, by the outcome it leads to; nothing is left out because of it."""

    #: Outcomes that it accounts for.
    statuses: Annotated[
        tuple[Literal["incorrect", "build-failed", "crashed"], ...], msgspec.Meta(min_length=1)
    ]
    #: Precisions it is limited to; empty for all.
    dtypes: tuple[Dtype, ...] = ()
    #: Version specifiers of the compute capabilities it is limited to, of which one must hold;
    #: empty for every device.
    compute_capabilities: tuple[str, ...] = ()
    what: Annotated[str, msgspec.Meta(min_length=1)]
    next_step: Annotated[str, msgspec.Meta(min_length=1)]
    source: Annotated[str, msgspec.Meta(min_length=1)]


class Workflow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One way to compile and run a PyTorch model."""

    id: str
    title: str
    tasks: tuple[Task, ...]
    devices: tuple[Literal["cpu", "cuda"], ...]
    dtypes: tuple[Dtype, ...]
    takes: tuple[Literal["torch", "onnx"], ...]
    environment: Environment
    #: Environments that stand in for it on devices for which the stack is a distribution of its
    #: own.
    environment_on: dict[Literal["cpu", "cuda"], Environment] = {}
    #: Sets of requirements: where the interpreter of `--python` meets one, the user has the stack
    #: already and no environment need be made.
    accepts: tuple[tuple[str, ...], ...] = ()
    #: Options by arm; the arm `default` goes by the workflow's id alone.
    arms: dict[str, dict[str, Any]]
    #: Devices that an arm is for, where they are not all of the workflow's.
    arm_devices: dict[str, tuple[Literal["cpu", "cuda"], ...]] = {}
    #: Tasks that an arm is for, where they are not all of the workflow's.
    arm_tasks: dict[str, tuple[Task, ...]] = {}
    #: Place in the order of builds: cheap ones first.
    build_order: int
    declared: Declared
    #: What the user can do to get it where it does not run.
    how_to_get: str
    #: Where it was really run: `cpu 2026-11`, ...; empty for never.
    verified: tuple[str, ...] = ()
    #: True once `probes/workflows/` has a module for it.
    has_probe: bool = False
    #: What to keep of a build, so that the next process does not build again.
    keep: tuple[str, ...] = ()
    #: What is one program for the user on several devices: workflows that share it differ in a
    #: provider or backend; empty for its own id.
    application: str = ""
    #: Null where no probe gives one. Its name in files is that of the first version.
    integration: Integration | None = msgspec.field(name="recipe", default=None)
    #: Lowest compute capability, as `8.0`.
    min_compute_capability: str | None = None
    #: Version specifiers of compute capabilities of which one must hold, for stacks that run on
    #: some generations only.
    compute_capabilities: tuple[str, ...] = ()
    #: Why it is known not to work, by device or task; each with a source.
    refused: dict[str, CitedFact] = {}
    faults: tuple[KnownFault, ...] = ()
    weight_copies: WeightCopies = WeightCopies()
    #: Where an arm differs from what is declared for the workflow.
    arm_declared: dict[str, ArmDeclared] = {}
    #: GPUs that it can build for without having one: `sm_89`, ...
    builds_for: tuple[str, ...] = ()
    #: Containers that hold it too, in the order in which they are tried.
    containers: tuple[Environment, ...] = ()

    @property
    def environments(self) -> tuple[Environment, ...]:
        """Every environment that it has on some device."""
        return (self.environment, *self.environment_on.values())

    def on(self, device: Literal["cpu", "cuda"]) -> Workflow:
        """Return the workflow with the environment that it has on this device."""
        return msgspec.structs.replace(
            self, environment=self.environment_on.get(device, self.environment)
        )

    def as_arm(self, option: str) -> Workflow:
        """Return the workflow with what is declared for this one of its arms."""
        otherwise = msgspec.structs.asdict(self.arm_declared.get(option, ArmDeclared()))
        changes = {name: fact for name, fact in otherwise.items() if fact is not None}
        return msgspec.structs.replace(
            self, declared=msgspec.structs.replace(self.declared, **changes)
        )
