"""Define the errors that a user can correct; `advisor.cli` catches them.

Each error has one line that says what is wrong and one line with the next step. `name` identifies
the error in messages and documents. `exit_code` is 1 for no recommendation, 2 for usage, 3 for the
environment, 4 for an answer that the figures do not give. All errors are in one module, so that
they can be listed; it is therefore longer than others.
"""

from __future__ import annotations

from typing import ClassVar


class UserError(Exception):
    """An error that the user can correct."""

    name: ClassVar[str]
    exit_code: ClassVar[int] = 2

    def __init__(self, what: str, next_step: str) -> None:
        super().__init__(what)
        self.what = what
        self.next_step = next_step


class UnknownModelError(UserError):
    """The model is neither in the catalogue, nor a file, a directory or a possible hub name."""

    name = "unknown-model"


class ModelRefusedError(UserError):
    """The model was found but cannot be loaded or used."""

    name = "model-refused"


class ModelCallError(UserError):
    """The model was loaded but raises an error when it is called with its inputs."""

    name = "model-failed"


class PickledWeightsError(UserError):
    """The weights are pickles, which are loaded only with `--allow-pickle`."""

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
    """The GPU is in the catalogue but not attached, and no evidence for it is stored."""

    name = "gpu-not-attached"
    exit_code = 3


class MigEnabledError(UserError):
    """The GPU is partitioned into MIG instances, which cannot be measured."""

    name = "gpu-divided"
    exit_code = 3


class UnknownPresetError(UserError):
    """No preset has this name."""

    name = "unknown-preset"


class PriorityError(UserError):
    """The priorities are not three weights that sum to 100, or a constraint is invalid."""

    name = "priorities"


class SizeError(UserError):
    """A batch size, length, budget or other number is out of range."""

    name = "size"


class SweepError(UserError):
    """A sweep of lengths does not fit its mix, its model or its task."""

    name = "sweep"


class SweepUnfinishedError(UserError):
    """A length of the mix is not measured, so the mix has no answer yet."""

    name = "sweep-unfinished"
    exit_code = 4


class WeightFormatError(UserError):
    """No such format of quantised weights."""

    name = "weight-format"


class LossFileError(UserError):
    """The file of texts, or that of the user's metric, cannot be used."""

    name = "loss-file"


class TaskError(UserError):
    """The model cannot do the task."""

    name = "task"


class CatalogueError(UserError):
    """A TOML file of the rubric is invalid."""

    name = "catalogue"


class DateError(UserError):
    """A date is not written as 2026-11-21."""

    name = "date"


class UnknownRunError(UserError):
    """No stored run has this id."""

    name = "unknown-run"


class RunFileError(UserError):
    """A stored run cannot be read."""

    name = "run-file"


class NewerVersionError(RunFileError):
    """A run, an export or an answer was written by a newer version of p3-advisor."""

    name = "newer-version"
    exit_code = 3


class NoRecipeError(UserError):
    """A run has no recipe for this workflow."""

    name = "no-recipe"


class ExportFileError(UserError):
    """An exported run is damaged, too large, from a newer version, or already stored."""

    name = "export-file"


class RunIsImportedError(UserError):
    """The run was imported from another machine, so it is neither continued nor executed."""

    name = "run-imported"


class RunOfFleetError(UserError):
    """The run belongs to a fleet and can be resumed only with the fleet."""

    name = "run-of-fleet"


class NotComparableError(UserError):
    """Two runs answer different questions, so their figures are not compared."""

    name = "not-comparable"


class UndecidedError(UserError):
    """The figures of two runs cannot exclude a regression."""

    name = "undecided"
    exit_code = 4


class VerificationError(UserError):
    """A recipe cannot be run, so its outputs and its speed could not be checked."""

    name = "verification"
    exit_code = 3


class OutputFileError(UserError):
    """A file cannot be written."""

    name = "output-file"


class FormatError(UserError):
    """A report has no such format."""

    name = "format"


class RunIsActiveError(UserError):
    """Another process executes this run."""

    name = "run-active"


class RunNotControllableError(UserError):
    """The run belongs to another user, or its directory cannot be written."""

    name = "run-not-controllable"


class PlatformError(UserError):
    """The runs of `--platforms` have another question, or two of them are from the same device."""

    name = "platforms"


class NotWritableError(UserError):
    """A required directory cannot be read or written."""

    name = "not-writable"
    exit_code = 3


class InterpreterError(UserError):
    """The interpreter of `--python` does not run."""

    name = "interpreter"
    exit_code = 3


class UnknownEnvironmentError(UserError):
    """No environment, and no workflow with its own environment, has this name."""

    name = "unknown-environment"


class RequirementError(UserError):
    """A package to add to an environment is not named as pip requires."""

    name = "requirement-invalid"


class EnvironmentInUseError(UserError):
    """A worker runs in the environment that should be removed."""

    name = "environment-in-use"


class EnvironmentNotUsableError(UserError):
    """An environment cannot be created, or was created and does not work."""

    name = "environment-not-made"
    exit_code = 3


class SandboxError(UserError):
    """This system cannot confine the workers of `--sandbox`."""

    name = "sandbox"
    exit_code = 3


class NoStackError(UserError):
    """No workflow can run, because its packages are not installed."""

    name = "no-stack"
    exit_code = 3


class NoTerminalError(UserError):
    """The terminal program was started without a terminal."""

    name = "no-terminal"


class SettingsError(UserError):
    """The user's settings file is invalid."""

    name = "settings"


class FleetRequestError(UserError):
    """The request to a fleet is invalid, or names devices that the fleet does not have."""

    name = "fleet-order"


class NoFleetError(UserError):
    """The extra `fleet` is not installed."""

    name = "no-fleet"
    exit_code = 3


class NoExportError(UserError):
    """The extra `export` is not installed, or the export has no place to go to."""

    name = "no-export"
    exit_code = 3


class FleetUnreachableError(UserError):
    """The cluster does not respond."""

    name = "fleet-unreachable"
    exit_code = 3


class DefectError(UserError):
    """A defect of the program; a report of it is stored."""

    name = "defect"
    exit_code = 1


class NothingViableError(UserError):
    """Nothing was measured, or every measured arm fails a constraint."""

    name = "nothing-viable"
    exit_code = 1


class MachineUnfitError(UserError):
    """The machine was too busy or too unsteady for the measurements to decide."""

    name = "machine-unfit"
    exit_code = 4


class BudgetSpentError(UserError):
    """The budget ended before the first measurement that a decision needs."""

    name = "budget-spent"
    exit_code = 4


def exit_code_of(name: str) -> int:
    """Return the exit code of the error with this name; 1 for an unknown one."""
    kinds = [*UserError.__subclasses__(), *RunFileError.__subclasses__()]
    return next((kind.exit_code for kind in kinds if kind.name == name), 1)
