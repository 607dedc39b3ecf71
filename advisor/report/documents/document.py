"""Define the JSON document of a run (`--json`, `show --json`); its keys are a public interface."""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec

from advisor.domain.accuracy import LossClass
from advisor.domain.machine import Cpu, Gpu, Interpreter, Machine, QuietCheck, describe_gpus
from advisor.domain.measurement import VisitCounts
from advisor.domain.portability import Portability
from advisor.domain.provenance import Provenance
from advisor.domain.question import Question, WeightFormat
from advisor.domain.recommendation import Recommendation
from advisor.domain.results import (
    HostSpeed,
    RaceResult,
    StoppedBuild,
    SustainedCheck,
    VerdictKind,
)
from advisor.domain.serving import ServingResults
from advisor.domain.survey import Survey
from advisor.domain.worker_events import Peaks
from advisor.errors import UserError
from advisor.report.documents.workflow_entry import WorkflowEntry

SCHEMA: Final = "p3-advisor/run/1"
#: The run id in an answer from published figures, which has no stored run.
PUBLISHED = "published"


class MachineEntry(msgspec.Struct, frozen=True, kw_only=True):
    """The machine that the run was made on."""

    gpu: tuple[Gpu, ...]
    gpu_problem: str | None
    cpu: Cpu
    kernel: str
    software: Interpreter

    @classmethod
    def of(cls, machine: Machine) -> MachineEntry:
        return cls(
            gpu=machine.gpus,
            gpu_problem=machine.gpu_problem,
            cpu=machine.cpu,
            kernel=machine.kernel,
            software=machine.software,
        )

    def as_machine(self) -> Machine:
        """Return the machine; environments and container images are not known."""
        return Machine(
            gpus=self.gpu,
            gpu_problem=self.gpu_problem,
            cpu=self.cpu,
            kernel=self.kernel,
            software=self.software,
        )


class TradeOff(msgspec.Struct, frozen=True, kw_only=True):
    """Speed, accuracy and memory of a ranked arm, in a run with quantised arms or a metric."""

    arm: str
    #: Format of its quantised weights; null for a native arm.
    weights: WeightFormat | None
    speedup: float
    #: Largest relative error, or divergence of text.
    error: float | None
    cosine: float | None
    loss_class: LossClass | None
    weight_bytes: int | None
    #: Its weights' bytes over those of the native arms.
    weight_share: float | None
    #: Whether no other arm is at least as fast, as exact and as small, and better in one of them.
    on_front: bool = False


class RaceEntry(msgspec.Struct, frozen=True, kw_only=True):
    """The races of all batch sizes: the weakest verdict and the largest noise floor."""

    verdict: VerdictKind
    noise_floor: float | None
    rounds: int
    discarded: int
    #: All visits, and those that count although the machine was busy or throttled.
    visits: VisitCounts | None = None
    #: Repetitions of the leaders in fresh processes.
    repeats: int = 0
    sustained: SustainedCheck | None = None
    peaks: Peaks | None = None
    #: How fast the host was and how much that changed; null in documents of earlier versions.
    host: HostSpeed | None = None
    by_batch_size: tuple[RaceResult, ...]


class MeasuredInputs(msgspec.Struct, frozen=True, kw_only=True):
    """What the inputs of a forward pass are like."""

    #: Inputs with the values of the example in every call; the model takes no random ones.
    fixed: int
    #: Whether `input_tokens` is the size of a dimension; null where the kind of the model decides.
    has_length: bool | None
    #: Whether the inputs have a batch dimension. Without one, batch size 1 stands for a call with
    #: the shapes that the examples or the file give, and a sample is such a call. Null for
    #: generated text and in documents of earlier versions.
    has_batch: bool | None = None
    #: Shapes of the tensors that a PyTorch module takes, without the batch; empty for other models,
    #: for generated text and in documents of earlier versions.
    shapes: tuple[tuple[int, ...], ...] = ()


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """Why there is no recommendation."""

    name: str
    what: str
    next_step: str

    @classmethod
    def of(cls, error: UserError | None) -> Problem | None:
        """Return the problem that an error states; None for none."""
        if error is None:
            return None
        return cls(name=error.name, what=error.what, next_step=error.next_step)


class RunDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A run: the question, the machine, every workflow, the races and the recommendation."""

    schema: Literal["p3-advisor/run/1"]
    run_id: str
    created: str
    advisor_version: str
    rubric: str
    finished: Annotated[
        bool, msgspec.Meta(description="whether the run has measured everything that it planned")
    ]
    in_progress: Annotated[
        bool,
        msgspec.Meta(
            description="whether a process still measures the run; an unfinished run that is not in"
            " progress was stopped"
        ),
    ] = False
    #: Whether the rest of an unfinished run can be executed; false where the model or the baseline
    #: fails again until the model or its environment changes. Null for a finished run, and in
    #: documents of early versions.
    resumable: bool | None = None
    #: True for a run that was made on another machine.
    imported: bool = False
    question: Question
    machine: MachineEntry
    workflows: tuple[WorkflowEntry, ...]
    race: RaceEntry | None
    recommendation: Recommendation | None
    problem: Problem | None
    #: The models of the survey that each workflow passes; empty without `--survey`.
    surveys: tuple[Survey, ...] = ()
    #: Over every platform with evidence for this model; null with a single platform.
    portability: Portability | None = None
    #: The origin of an answer that uses a run made on another machine.
    provenance: Provenance | None = None
    #: The load of the machine before the measurement; null if it was not checked.
    load_check: QuietCheck | None = None
    #: What the servers sustained under load; null for tasks other than `serve`.
    serving: ServingResults | None = None
    #: Accuracy against speed and memory; empty without quantised arms and a metric.
    trade_off: tuple[TradeOff, ...] = ()
    #: Arms whose builds were ended or left out for time; empty in documents of earlier versions.
    stopped_builds: tuple[StoppedBuild, ...] = ()
    #: Null for an answer without a measurement.
    inputs: MeasuredInputs | None = None
    #: The command that prints this answer; null for a stored run.
    rerun_command: str | None = msgspec.field(name="again", default=None)

    @property
    def titles(self) -> dict[str, str]:
        """What texts call each arm; its id in documents of earlier versions."""
        return {entry.arm: entry.title or entry.arm for entry in self.workflows}

    @property
    def device_name(self) -> str:
        """The name of the device that the arms were measured on."""
        gpu = next((gpu for gpu in self.machine.gpu if gpu.uuid == self.question.gpu), None)
        if gpu is None:
            return self.question.gpu or self.machine.cpu.model
        return describe_gpus(gpu.name, self.question.devices_per_model)


def encode(document: msgspec.Struct) -> str:
    """Return any document as indented JSON with a final line break."""
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n"
