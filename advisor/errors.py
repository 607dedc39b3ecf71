"""Everything that can go wrong by the user's doing, in one place, so that codes and meanings stay unique.

Each error says in one line what is wrong and in one line what to do next; `cli` alone catches them.
`name` identifies the error in messages and documents; `exit_code` is what scripts see: 1 nothing to
recommend, 2 usage, 3 environment, 4 budget.
"""

from __future__ import annotations

from typing import ClassVar


class UserError(Exception):
    """Something the user can put right."""

    name: ClassVar[str]
    exit_code: ClassVar[int] = 2

    def __init__(self, what: str, next_step: str) -> None:
        super().__init__(what)
        self.what = what
        self.next_step = next_step


class UnknownModelError(UserError):
    """The model is neither shipped, nor a file, nor a directory, nor a name that could be on the hub."""

    name = "unknown-model"


class ModelRefusedError(UserError):
    """The model was found but cannot be opened or used."""

    name = "model-refused"


class RemoteCodeError(UserError):
    """The model brings its own code, which is run only when allowed."""

    name = "remote-code"


class PickledWeightsError(UserError):
    """The weights are pickles, which are read only when allowed."""

    name = "pickled-weights"


class UnknownWorkflowError(UserError):
    """No workflow or arm has this name."""

    name = "unknown-workflow"


class UnknownCriterionError(UserError):
    """No criterion has this name."""

    name = "unknown-criterion"


class UnknownGpuError(UserError):
    """No GPU has this index, UUID or name."""

    name = "unknown-gpu"


class GpuNotAttachedError(UserError):
    """The GPU is known but not in this machine, and there is no evidence for it."""

    name = "gpu-not-attached"
    exit_code = 3


class DividedGpuError(UserError):
    """The GPU is cut into instances, none of which can be measured."""

    name = "gpu-divided"
    exit_code = 3


class UnknownPresetError(UserError):
    """No preset has this name."""

    name = "unknown-preset"


class PriorityError(UserError):
    """The priorities are not three weights that sum to 100, or a constraint is none."""

    name = "priorities"


class SizeError(UserError):
    """A batch size, length, budget or other number is out of range."""

    name = "size"


class TaskError(UserError):
    """The model cannot do the task."""

    name = "task"


class CatalogueError(UserError):
    """A TOML file of the rubric does not fit its schema."""

    name = "catalogue"


class UnknownRunError(UserError):
    """No stored run has this id."""

    name = "unknown-run"


class RunFileError(UserError):
    """A stored run cannot be read."""

    name = "run-file"


class NoRecipeError(UserError):
    """A run has no script for this workflow."""

    name = "no-recipe"


class ExportFileError(UserError):
    """A file of an exported run is damaged, too large or of a newer program, or a run of this id exists."""

    name = "export-file"


class RunIsImportedError(UserError):
    """A run that was made on another machine cannot be worked on, and its code is not run."""

    name = "run-imported"


class RunOfFleetError(UserError):
    """A run that was begun for a fleet, maybe on another machine, goes on with the fleet only."""

    name = "run-of-fleet"


class NotComparableError(UserError):
    """Two runs answer different questions, so that no figure of theirs may be compared."""

    name = "not-comparable"


class VerificationError(UserError):
    """A recipe could not be run, so that nothing can be said about its speed."""

    name = "verification"
    exit_code = 3


class OutputFileError(UserError):
    """A file cannot be written."""

    name = "output-file"


class FormatError(UserError):
    """A report has no such format."""

    name = "format"


class RunIsActiveError(UserError):
    """Another process works on this run."""

    name = "run-active"


class PlatformError(UserError):
    """Runs that were named as other platforms measured something else, or are on the same device."""

    name = "platforms"


class NotWritableError(UserError):
    """A directory that has to be read or written cannot be."""

    name = "not-writable"
    exit_code = 3


class InterpreterError(UserError):
    """The interpreter of `--python` does not run."""

    name = "interpreter"
    exit_code = 3


class UnknownEnvironmentError(UserError):
    """No workflow or environment of its own has this name."""

    name = "unknown-environment"


class EnvironmentInUseError(UserError):
    """A worker runs in the environment that should go."""

    name = "environment-in-use"


class EnvironmentNotMadeError(UserError):
    """An environment cannot be made, or was made and does not work."""

    name = "environment-not-made"
    exit_code = 3


class NoStackError(UserError):
    """No workflow can run: nothing to measure is installed."""

    name = "no-stack"
    exit_code = 3


class NoTerminalError(UserError):
    """The terminal program was asked for without a terminal."""

    name = "no-terminal"


class SettingsError(UserError):
    """The user's file of settings does not fit."""

    name = "settings"


class FleetOrderError(UserError):
    """What a fleet is asked cannot be read, or asks for devices that it does not have."""

    name = "fleet-order"


class NoFleetError(UserError):
    """The extra that a fleet needs is not installed."""

    name = "no-fleet"
    exit_code = 3


class FleetUnreachableError(UserError):
    """No cluster answers."""

    name = "fleet-unreachable"
    exit_code = 3


class DefectError(UserError):
    """The program itself is defective; what happened has been written down."""

    name = "defect"
    exit_code = 1


class NothingViableError(UserError):
    """Probes were made, and none ended with something to recommend."""

    name = "nothing-viable"
    exit_code = 1


class BudgetSpentError(UserError):
    """The budget ended before there was a measurement to decide on."""

    name = "budget-spent"
    exit_code = 4
