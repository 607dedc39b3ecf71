"""The plan of a run: the arms, the excluded workflows, and settings of the workers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import msgspec

from advisor.domain.accuracy import AccuracyRules
from advisor.domain.machine import Machine
from advisor.domain.question import Dtype, Numerics, Question, WeightFormat
from advisor.domain.workflow import EngineMemory

#: `not-covered`: p3-advisor has no probe for the workflow.
ExclusionStatus = Literal["unsupported", "not-installed", "excluded", "not-covered"]


#: Arm that all speed-ups are relative to.
BASELINE = "pytorch-eager"
#: The same for servers, where it runs.
SERVING_BASELINE = "transformers-serve"
#: Name of the process that makes weights, inputs and reference outputs; it is not timed.
REFERENCE = "reference"


#: Names of the processes that run the snippet of an arm and that of the baseline.
SNIPPET, BASELINE_SNIPPET = "snippet", "snippet-of-baseline"


class ArmName(NamedTuple):
    """An arm, or with an empty option all arms of a workflow, as users write it: `iree/tuned`."""

    workflow: str
    option: str = ""

    @classmethod
    def parse(cls, text: str) -> ArmName:
        workflow, _, option = text.partition("/")
        return cls(workflow, option)

    def __str__(self) -> str:
        return f"{self.workflow}/{self.option}" if self.option else self.workflow


class Arm(msgspec.Struct, frozen=True, kw_only=True):
    """A workflow with one set of options; arms are built, measured and ranked."""

    id: str
    workflow: str
    option: str
    options: dict[str, Any]
    #: The arm that this one duplicates to give the noise floor; null for other arms.
    duplicate_of: str | None = None
    #: Interpreter of its own environment; empty for the question's interpreter.
    python: str = ""
    #: Interpreter that writes the quantised checkpoint it loads; empty for an arm without one.
    quantiser: str = ""
    #: Seconds that its cold build took in earlier runs; null if none is known.
    expected_build_seconds: float | None = None
    #: Its largest speed-up in the kept runs on this kind of device; null if none is known.
    largest_speedup: float | None = None
    #: Whether no other arm may be built meanwhile.
    builds_alone: bool = False
    #: Format of its quantised weights; null for a native arm.
    weights: WeightFormat | None = None
    #: What it shares with other arms of its workflow that run the same build; empty for nothing.
    artefact: str = ""
    #: Whether PyTorch's eager code may run instead of the compiled one.
    eager_fallback: bool
    #: Precisions that it supports; empty if none has to be refused.
    dtypes: tuple[Dtype, ...] = ()
    #: Extras that its environment and its recipe require, by distribution.
    extras: dict[str, tuple[str, ...]] = {}

    @property
    def name(self) -> ArmName:
        return ArmName(self.workflow, self.option)

    @property
    def numerics(self) -> Numerics:
        """Whether it computes in the question's dtype or with quantised weights."""
        return "native" if self.weights is None else "quantised"


class Excluded(msgspec.Struct, frozen=True, kw_only=True):
    """A workflow, or one arm of a measured workflow, that is not measured, with the reason."""

    #: The id of the workflow or of the arm.
    workflow: str
    status: ExclusionStatus
    reason: str
    fix: str | None


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Arms in build order, of which the first is the baseline, and excluded workflows."""

    arms: tuple[Arm, ...]
    excluded: tuple[Excluded, ...]

    def __post_init__(self) -> None:
        if len({arm.id for arm in self.arms}) != len(self.arms):
            message = "an arm is named twice"
            raise ValueError(message)

    @property
    def baseline(self) -> Arm:
        """The arm that all others are compared with."""
        return self.arms[0]


def arm_directory_name(arm: str) -> str:
    """Return the name of the arm's directory."""
    return arm.replace("/", "+")


#: Variables with the number of threads, so that all libraries use the same number.
THREAD_COUNTS = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "NPROC",
    "TVM_NUM_THREADS",
)
#: Without it JAX reserves three quarters of the GPU's memory, which other resident workers need.
MEMORY_ON_DEMAND = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
#: Rules of accuracy that workers do not use.
UNUSED_RULES = {"source", "quantised", "losses"}
#: Wall time of one timed block of calls.
BLOCK_SECONDS = 0.05


def thread_count(machine: Machine) -> int:
    """Return the number of threads of each arm on the CPU: the physical cores."""
    return machine.cpu.physical_cores


def worker_task(question: Question) -> str:
    """Return the task as workers know it: the texts of a server are generated like any other."""
    return "generate" if question.task == "serve" else question.task


def measured_fields(
    question: Question,
    arm: Arm,
    threads: int,
    accuracy: AccuracyRules,
    engine_memory: Mapping[str, EngineMemory],
) -> dict[str, Any]:
    """Return the fields of a worker's request that decide what it measures, as JSON values.

    The names and their order are those of `probes.protocol.Request`. `engine_memory` is by
    workflow.
    """
    return {
        "arm": arm.id,
        "options": arm.options,
        "subject": msgspec.to_builtins(question.model),
        "dtype": question.dtype,
        "device": question.device,
        "batch_sizes": list(question.batch_sizes),
        "input_tokens": question.input_tokens,
        "seed": question.seed,
        "threads": threads,
        "trust_remote_code": question.trust_remote_code,
        "allow_pickle": question.allow_pickle,
        "block_seconds": BLOCK_SECONDS,
        "accuracy": accuracy_thresholds(
            accuracy.with_tolerance(question.accuracy)
            if arm.numerics == "native"
            else accuracy.for_quantised_weights()
        ),
        "task": worker_task(question),
        "output_tokens": question.output_tokens,
        "lengths": [
            list(question.pair_of(each)) for each in question.lengths if len(question.lengths) > 1
        ],
        "engine_memory": _memory_of(engine_memory.get(arm.workflow)),
    }


def _memory_of(memory: EngineMemory | None) -> dict[str, Any]:
    """Return the memory that an engine gets, without its source; empty for no engine."""
    values = msgspec.structs.asdict(memory) if memory else {}
    return {name: value for name, value in values.items() if name != "source"}


def accuracy_thresholds(rules: AccuracyRules) -> dict[str, Any]:
    """Return the thresholds that workers use, as JSON values."""
    values: dict[str, Any] = msgspec.to_builtins(rules)
    return {name: value for name, value in values.items() if name not in UNUSED_RULES}
