"""The plan of a run: the arms, the excluded workflows, and settings of the workers."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NamedTuple

import msgspec

from advisor.domain.question import Dtype, WeightFormat

#: `not-covered`: p3-advisor has no probe for the workflow.
ExclusionStatus = Literal["unsupported", "not-installed", "excluded", "not-covered"]
#: Eager PyTorch: the baseline where the model is a module; `Plan.baseline` is that of a run.
EAGER = "pytorch-eager"
#: The baseline of servers, where it runs.
SERVING_BASELINE = "transformers-serve"
#: The workflow that a reader expects beside any other.
PLAIN_COMPILE = "torch-compile-inductor"
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
    #: Points that it scores above eager if it is as fast as it ever was in the kept runs on this
    #: kind of device; null where that is not known, or where it would fail a constraint.
    possible_points: float | None = None
    #: Whether no other arm may be built meanwhile.
    builds_alone: bool = False
    #: Format of its quantised weights; null for a native arm.
    weight_format: WeightFormat | None = None
    #: What it shares with other arms of its workflow that run the same build; empty for nothing.
    artefact: str = ""
    #: What was found of the model that calls for it; null for arms of every model.
    called_for: str | None = None
    #: Whether PyTorch's eager code may run instead of the compiled one.
    eager_fallback: bool
    #: Precisions that it supports; empty if none has to be refused.
    dtypes: tuple[Dtype, ...] = ()
    #: Extras that its environment and its recipe require, by distribution.
    extras: dict[str, tuple[str, ...]] = {}

    @property
    def name(self) -> ArmName:
        return ArmName(self.workflow, self.option)

    def is_built_within(self, seconds: float) -> bool:
        """Return whether the build is known to take no longer."""
        return self.expected_build_seconds is not None and self.expected_build_seconds <= seconds


class Excluded(msgspec.Struct, frozen=True):
    """A workflow, or one arm of a measured workflow, that is not measured, with the reason."""

    workflow: str
    status: ExclusionStatus
    reason: str
    fix: str | None = None
    #: The option of the arm; empty where no arm of the workflow is measured.
    option: str = ""

    @property
    def name(self) -> ArmName:
        return ArmName(self.workflow, self.option)


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Arms in build order, the first of which is the baseline, and excluded workflows."""

    arms: Annotated[tuple[Arm, ...], msgspec.Meta(min_length=1)]
    excluded: tuple[Excluded, ...]

    def __post_init__(self) -> None:
        if len({each.id for each in self.arms}) != len(self.arms):
            raise ValueError("an arm is named twice")

    @property
    def baseline(self) -> Arm:
        return self.arms[0]

    @property
    def distinct(self) -> tuple[Arm, ...]:
        return tuple(each for each in self.arms if each.duplicate_of is None)

    @property
    def duplicate(self) -> str:
        """The arm that duplicates the baseline; empty without one."""
        return next((each.id for each in self.arms if each.duplicate_of), "")


def probe_file(workflow: str) -> str:
    """Return the name of the workflow's module in `probes/workflows`."""
    return workflow.replace("-", "_") + ".py"


def arm_directory_name(arm: str) -> str:
    return arm.replace("/", "+")
