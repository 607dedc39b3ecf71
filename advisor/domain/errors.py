"""Define the errors that a user can correct; `advisor.cli` catches them.

Each error has one line that says what is wrong and one line with the next step. `exit_code` is 1
for no recommendation, 2 for usage, 3 for the environment, 4 for an answer that the figures do not
give. All errors are in one module, so that they can be listed.
"""

from __future__ import annotations

import contextlib
import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar

from probes.outcome import Failure


class UserError(Exception):
    """An error that the user can correct."""

    #: Identifies the error in documents: the words of the class.
    name: ClassVar[str]
    exit_code: ClassVar[int]

    def __init_subclass__(cls, *, exit_code: int = 2) -> None:
        cls.name = re.sub(r"(?<=[a-z])(?=[A-Z])", "-", cls.__name__.removesuffix("Error")).lower()
        cls.exit_code = exit_code

    def __init__(self, what: str, next_step: str, reason: str = "") -> None:
        super().__init__(what)
        self.what, self.next_step = what, next_step
        #: What a failed process reports, or `what`.
        self.reason = reason or what


@contextlib.contextmanager
def reported_as(
    kind: type[UserError],
    what: str,
    next_step: str,
    caught: type[Exception] | tuple[type[Exception], ...] = OSError,
) -> Iterator[None]:
    """Raise an error of the user, with the reason, for a `caught` one of the block."""
    try:
        yield
    except caught as problem:
        reason = getattr(problem, "strerror", None) or problem
        raise kind(f"{what}: {reason}", next_step) from problem


#: Characters that do not tell names apart.
SEPARATORS = str.maketrans("", "", "-_.")
#: Share of equal characters of names that are spelled almost alike.
CLOSE = 0.6


def choose_among(name: str, known: Iterable[str], shown: Mapping[str, str] = {}) -> str:
    """Return a next step: the known name that is spelled most like `name`, else all of them.

    `shown` is what stands for a spelling, which need not be one of the known names.
    """
    names, wanted = list(known), _plain(name)
    likeness = {
        each: difflib.SequenceMatcher(None, wanted, _plain(each)).ratio()
        for each in (*names, *shown)
    }
    beginnings = [each for each in likeness if wanted and _plain(each).startswith(wanted)]
    close = beginnings or [each for each, share in likeness.items() if share >= CLOSE]
    if not close:
        return f"use one of {', '.join(names)}"
    best = max(close, key=likeness.__getitem__)
    return f"did you mean {shown.get(best, best)}?"


def _plain(name: str) -> str:
    return name.lower().translate(SEPARATORS)


class CommandLineError(UserError):
    """A command has no such option or argument, or cannot run in this place."""


class UnknownModelError(UserError):
    """The model is neither in the catalogue, nor a file, a directory or a possible hub name."""


class ModelRefusedError(UserError):
    """The model was found but cannot be loaded or used."""


class ModelCallError(UserError):
    """The model was loaded but raises an error when it is called with its inputs."""


class PickledWeightsError(UserError):
    """The weights are pickles, which are loaded only with `--allow-pickle`."""


class UnknownWorkflowError(UserError):
    """No workflow or arm has this name."""


class UnknownCriterionError(UserError):
    """No criterion has this name."""


class UnknownGpuError(UserError):
    """No GPU has this index, UUID or name."""


class GpuNotAttachedError(UserError, exit_code=3):
    """The GPU is in the catalogue but not attached, and no evidence for it is stored."""


class MigEnabledError(UserError, exit_code=3):
    """The GPU is partitioned into MIG instances, which cannot be measured."""


class OptionValueError(UserError):
    """The value of an option cannot be read, is out of range, or names a file that is no use."""


class TaskError(UserError):
    """The model cannot do the task."""


class CatalogueError(UserError):
    """A TOML file of the catalogue is invalid."""


class UnknownRunError(UserError):
    """No stored run has this id."""


class RunFileError(UserError):
    """A stored run cannot be read."""


class NewerVersionError(RunFileError, exit_code=3):
    """A run, an export or an answer was written by a newer version of p3-advisor."""


class NoRecipeError(UserError):
    """A run has no recipe for this workflow."""


class ExportFileError(UserError):
    """An exported run is damaged, too large or already stored."""


class ForeignRunError(UserError):
    """The run was imported or lies outside the store, so nothing that it names is executed."""


class BuildsAreGoneError(UserError):
    """The builds that are needed to measure a finished run again were removed."""


class VerificationError(UserError, exit_code=3):
    """A snippet cannot be run, so its outputs and its speed could not be checked."""


class OutputFileError(UserError):
    """A file cannot be written."""


class RunIsActiveError(UserError):
    """Another process executes this run."""


class RunNotControllableError(UserError):
    """The run belongs to another user, or its directory cannot be written."""


class PlatformError(UserError):
    """Runs on other platforms have another question, or two of them are from the same device."""


class NotWritableError(UserError, exit_code=3):
    """A required directory cannot be read or written."""


class InterpreterError(UserError, exit_code=3):
    """The interpreter of `--python` does not run."""


class UnknownEnvironmentError(UserError):
    """No environment, and no workflow with its own environment, has this name."""


class EnvironmentInUseError(UserError):
    """A worker runs in the environment that should be removed."""


class EnvironmentNotUsableError(UserError, exit_code=3):
    """An environment cannot be created, or was created and does not work."""


class SandboxError(UserError, exit_code=3):
    """This system cannot confine the workers of `--sandbox`."""


class NoStackError(UserError, exit_code=3):
    """No workflow can run, because its packages are not installed."""


class MissingExtraError(UserError, exit_code=3):
    """An extra of p3-advisor is not installed."""


class DefectError(UserError, exit_code=1):
    """A defect of the program; a report of it is stored."""


class NothingViableError(UserError, exit_code=1):
    """Nothing was measured, or every measured arm fails a constraint."""


class ConstraintUndecidedError(UserError, exit_code=4):
    """No arm meets the constraints for certain; an error or a missing figure may hide one."""


class MachineUnfitError(UserError, exit_code=4):
    """The machine was too busy or too unsteady for the measurements to decide."""


class BudgetSpentError(UserError, exit_code=4):
    """The budget or the run ended before the first measurements that a decision needs."""


OPEN_ALONE = "open the model by itself in the same interpreter"
#: What to do where the worker of the reference or the baseline has this status.
NEXT_STEPS = {
    "timed-out": "measure with a longer --budget, while nothing else uses the machine; for a loop"
    " that ends only with some inputs, give these with --inputs",
    "nondeterministic": "let forward take what changes from call to call as an input and return it",
}


def error_of(name: str, failure: Failure | None) -> UserError:
    """Return the error for the failure of a worker without which nothing can be measured."""
    match failure:
        case None:
            return _not_viable(name, "its worker ended", None)
        case Failure("model-failed", reason=reason, fix=fix):
            return ModelCallError(reason, fix or "call the model by itself in the same interpreter")
        case Failure("model-refused", reason=reason, missing_module=str(module)):
            return ModelRefusedError(
                reason,
                f"pip install {module} into the interpreter of --python, or the package that"
                " provides this module under another name",
            )
        case Failure("model-refused", reason=reason, fix=fix):
            return ModelRefusedError(reason, fix or OPEN_ALONE)
        case Failure("crashed", "open", reason=reason, fix=fix):
            return ModelRefusedError(f"opening the model failed: {reason}", fix or OPEN_ALONE)
        case Failure("disk-full", reason=reason, fix=fix):
            return NotWritableError(
                f"{name} failed: {reason}", f"{fix or 'free disk space'}; then resume the run"
            )
        case Failure("incorrect", "correctness", reason=reason):
            return NothingViableError(
                f"{name} differs from the reference of another process: {reason}",
                "create the same model in each process: seed what it draws, such as"
                " numpy.random.default_rng(0), or keep it in parameters and buffers",
            )
        case Failure(reason=reason, fix=str(fix), skip_cause="out-of-time"):
            return BudgetSpentError(f"nothing was timed: {name} was {reason}", fix)
        case _:
            return _not_viable(name, failure.reason, failure.fix or NEXT_STEPS.get(failure.status))


def _not_viable(name: str, reason: str, fix: str | None) -> NothingViableError:
    return NothingViableError(
        f"{name} failed: {reason}", fix or "choose another precision, shape or device"
    )
