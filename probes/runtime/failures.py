"""Turn what a stack raises into an outcome for the advisor.

This module has the project's one broad `except`: an exception of a foreign stack is data for the
advisor, not an error of ours.
"""

from __future__ import annotations

import errno
import importlib.util
import os
import pathlib
import re
import sysconfig
import traceback
from collections.abc import Callable
from typing import NamedTuple, TypeVar

from probes import protocol
from probes.adapter import ModelError, NotEngagedError, UnsupportedError
from probes.outcome import MODULE_NAME, Failure, Phase

TERMINAL_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
#: Names of the exceptions that mean a lack of memory, in any module.
OUT_OF_MEMORY = re.compile("MemoryError|out of memory|can(no|')t allocate memory", re.IGNORECASE)
DISK_FULL_ERRNOS = {errno.ENOSPC, errno.EDQUOT}
#: The message of the C library, which stacks quote in exceptions of their own.
DISK_FULL = os.strerror(errno.ENOSPC)
MAX_REASON_LENGTH = 500
#: Length of a reason that is followed by its cause.
MAX_OUTER_LENGTH = 150
#: Characters of a message in which a refusal is looked for.
MOST_SEARCHED = 2000
#: How PyTorch says that it has no kernel for a precision.
MISSING_KERNEL = "not implemented for"
#: How CUDA reports an index that is out of range; no later call of the process succeeds.
DEVICE_ASSERT = "device-side assert"
#: How autograd reports an input without gradients.
NO_GRADIENT = "does not require grad"
#: How PyTorch reports operands that are partly on the CPU and partly on the GPU.
OTHER_DEVICE = "on the same device"
STANDARD_LIBRARY = pathlib.Path(sysconfig.get_path("stdlib"))
PROBES = pathlib.Path(__file__).resolve().parents[1]
#: Folders of `torch.nn` and ONNX Runtime, whose code stands between this package and a model.
MODEL_CALLERS = {"nn", "onnxruntime"}


class Refusal(NamedTuple):
    """What a compiler or exporter raises, with the outcome that it becomes.

    In reason and next step `{name}` is what the pattern has found, `{short}` its last part,
    `{place}` the line of the user's code and `{text}` the message.
    """

    pattern: str
    reason: str
    fix: str


REFUSALS = (
    Refusal(
        "(?s)^GuardOnDataDependentSymNode.*torch/distributions/",
        "PyTorch cannot trace torch.distributions{place}, which checks the values of its arguments",
        "leave the check out: torch.distributions.Distribution.set_default_validate_args(False)",
    ),
    Refusal(
        "^GuardOnDataDependentSymNode|^DataDependentOutputException",
        "PyTorch cannot trace a branch or a size that depends on the values of a tensor{place}:"
        " {text}",
        "choose values with torch.where or torch.cond instead of if and while, and state the limits"
        " of such sizes with torch._check",
    ),
    # The second one is that of a package of AOTInductor, which finds the class again by a name.
    Refusal(
        "Found <class '([^']+)'> in output, which is not a known type"
        "|No registered serialization name for <class '([^']+)'>",
        "torch.export does not know the class of the model's outputs, {name}",
        "if it is a dataclass of tensors, call torch.export.register_dataclass({short},"
        " serialized_type_name='{name}') in the model's file; else return tensors in tuples or"
        " dictionaries",
    ),
    Refusal(
        r"Can't serialize TreeSpec of namedtuple class <class '([^']+)'>",
        "a package of AOTInductor does not know the class of the model's outputs, {name}",
        "call torch.utils._pytree._register_namedtuple({short}, serialized_type_name='{name}') in"
        " the model's file; else return a plain tuple or a dictionary",
    ),
    Refusal(
        r"No ONNX function found for <OpOverload\(op='([^']+)'.* complex-valued",
        "ONNX has no operator for {name} of complex numbers, which the model calls",
        "compute with tensors of both parts (torch.view_as_real)",
    ),
    Refusal(
        r"No ONNX function found for <OpOverload\(op='([^']+)', overload='([^']+)'",
        "ONNX has no operator for {name}, which the model calls",
        "compute it with other operators of PyTorch",
    ),
    Refusal(
        r"no fake impl registered for <(?:CustomOpDef\(([^)]+)\)|OpOverload\(op='([^']+)')",
        "PyTorch cannot trace the custom operator {name}, which has no fake implementation",
        "register one with register_fake, as PyTorch documents for custom operators: it returns an"
        " empty tensor of the operator's shape and dtype",
    ),
    Refusal(
        r"^UnsupportedOperatorException: (\S+)",
        "PyTorch cannot trace the operator {name}, which the model calls",
        "compute it with other operators",
    ),
    Refusal(
        # The second one is about `forward` of a traced module, whose parameters Python cannot list.
        "Exporting a ScriptModule is not supported|no signature found for builtin",
        "torch.export does not take modules of torch.jit",
        "return the module from before torch.jit.script or torch.jit.trace",
    ),
    Refusal(
        r"torch\.compile does not support compiling torch\.jit",
        "torch.compile does not take modules of torch.jit",
        "return the module from before torch.jit.script or torch.jit.trace",
    ),
    Refusal(
        r"(\S+ParamsBase)\b.*__obj_flatten__",
        "torch.export does not take the quantised layers of torch.ao, whose weights are packed"
        " ({name})",
        "give the model with plain layers and measure with --quantised int8",
    ),
    Refusal(
        r"zeros\(\): argument 'size' failed to unpack .* got FakeTensor",
        "PyTorch cannot trace a size that a tensor contains, as where forward packs sequences of"
        " different lengths{place}: {text}",
        "give the layer padded sequences, and mask its outputs by the lengths",
    ),
    Refusal(
        "functorch tensor|'Tensor' object has no attribute 'constant'"
        "|fake tensor in the exported program|numpy.. is not supported for tensor subclasses",
        "PyTorch cannot trace a tensor that forward makes by a gradient, by torch.func or outside"
        " of PyTorch{place}: {text}",
        "compute it with operators of PyTorch",
    ),
    Refusal(
        r"Error in op: torch\.ops\.aten\._transformer_encoder_layer_fwd",
        "PyTorch's fast path of nn.TransformerEncoderLayer returns another layout than when it is"
        " compiled",
        "turn it off in the model's file: torch.backends.mha.set_fastpath_enabled(False)",
    ),
)


Result = TypeVar("Result")
Instead = TypeVar("Instead")


def attempt(
    work: Callable[[], Result], on_failure: Callable[[BaseException], Instead]
) -> Result | Instead:
    try:
        return work()
    except BaseException as problem:  # noqa: BLE001 - the one place; see the module's docstring
        traceback.print_exc()
        return on_failure(problem)


def try_optional(work: Callable[[], Result]) -> Result | None:
    return attempt(work, lambda _: None)


class FailureError(Exception):
    """Ends the worker."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.reason)
        self.failure = failure


def classify(
    problem: BaseException, phase: Phase, request: protocol.Request | None = None
) -> Failure:
    """Return the failure that an exception in this phase means.

    In the reference worker only eager PyTorch runs. `request` is None before it is read.
    """
    if isinstance(problem, FailureError):
        return problem.failure
    if isinstance(problem, ModelError):
        return Failure("model-refused", phase, str(problem), problem.fix)
    if isinstance(problem, NotEngagedError):
        return Failure("not-engaged", phase, str(problem))
    if isinstance(problem, UnsupportedError):
        return refused_export(problem, phase) or Failure(
            "unsupported", phase, _with_cause(first_reason(str(problem)), problem), problem.fix
        )
    reason = exception_summary(problem)
    if getattr(problem, "errno", None) in DISK_FULL_ERRNOS or DISK_FULL in reason:
        fix = "free disk space, or set P3_ADVISOR_HOME to a directory on another disk"
        return Failure("disk-full", phase, reason, fix)
    if OUT_OF_MEMORY.search(reason):
        return Failure("out-of-memory", phase, reason)
    if phase in {"start", "import"}:
        return Failure("unsupported", phase, f"the stack cannot be imported: {reason}")
    is_reference = request is not None and request.role == "reference"
    if phase == "open" or (is_reference and phase == "correctness"):
        return blame_model(problem, phase, reason, request)
    return refused_export(problem, phase) or Failure("build-failed", phase, reason)


def blame_model(
    problem: BaseException, phase: Phase, reason: str, request: protocol.Request | None
) -> Failure:
    """Return the outcome where no stack is involved: the model's fault, or one of this package."""
    if place := _own_place_of(problem):
        reason = f"this is a defect of p3-advisor at {place}, not of the model: {reason}"
        fix = "report it with this reason; example inputs of another form may avoid it"
        return Failure("build-failed", phase, reason, fix)
    if request is not None and phase == "correctness":
        return model_failed(problem, phase, reason, request)
    reason = f"the model cannot be opened{_place_of(problem)}: {reason}"
    name = getattr(problem, "name", None) if isinstance(problem, ModuleNotFoundError) else None
    missing = (name or "").partition(".")[0]
    # The name comes from the model's code and becomes part of a command.
    if MODULE_NAME.fullmatch(missing) and importlib.util.find_spec(missing) is None:
        return Failure("model-refused", "open", reason, missing_module=missing)
    fix = "open the model in the same interpreter without p3-advisor, and fix the error"
    if isinstance(problem, SystemExit):
        fix = 'move what ends the process below if __name__ == "__main__", also argparse'
    return Failure("model-refused", "open", reason, fix)


def refused_export(problem: BaseException, phase: Phase) -> Failure | None:
    cause = _first_cause(problem)
    text = _type_and_reason(cause)
    # Dynamo explains its errors below their first line. Files show which library it cannot trace.
    message = f"{type(cause).__name__}: {TERMINAL_COLOURS.sub('', str(cause))[:MOST_SEARCHED]}"
    frames = traceback.extract_tb(cause.__traceback__)
    message += "".join(f"\n{each.filename}" for each in frames)
    for refusal in REFUSALS:
        if match := re.search(refusal.pattern, message):
            name = ".".join(part for part in match.groups() if part not in {None, "default"})
            short, place = name.rpartition(".")[2], _place_of(cause)
            reason, fix = (
                part.format(name=name, short=short, place=place, text=text)
                for part in (refusal.reason, refusal.fix)
            )
            return Failure("unsupported", phase, _sentences_of(reason, MAX_REASON_LENGTH), fix)
    return None


def model_failed(
    problem: BaseException, phase: Phase, reason: str, request: protocol.Request
) -> Failure:
    kind = request.subject.get("kind")
    fixes = {
        "choose another precision with --dtype": MISSING_KERNEL in reason,
        "use fewer --input-tokens if the model takes tokens, else give it as file.py:factory with"
        " example inputs": kind == "transformers",
        "give inputs that the file takes with --inputs FILE.npz, an array for each input by its"
        " name": kind == "onnx",
        "let the factory return the inputs that forward takes: keyword inputs as a dictionary or as"
        " a third value": isinstance(problem, TypeError),
        "give examples with several different rows: integers are then drawn from the values at the"
        " same position, so that each index stays in its range": DEVICE_ASSERT in reason,
        "create the tensors of forward on the device of an input, such as device=x.device, or"
        " register them as buffers": OTHER_DEVICE in reason,
        "call requires_grad_() on the input in forward: inputs are drawn anew": NO_GRADIENT
        in reason,
        "call the model with the example inputs in the same interpreter, and fix the error": True,
    }
    fix = next(fix for fix, applies in fixes.items() if applies)
    reason = f"the model raises an error when it is called{_place_of(problem)}: {reason}"
    return Failure("model-failed", phase, reason, fix)


def _own_place_of(problem: BaseException) -> str:
    """Return the place in this package that raised it, also in numpy; empty for the model's."""
    frames = traceback.extract_tb(problem.__traceback__)
    files = [pathlib.Path(each.filename) for each in frames]
    own = [frame for frame, file in zip(frames, files, strict=True) if PROBES in file.parents]
    is_model = _place_of(problem) or any(MODEL_CALLERS.intersection(each.parts) for each in files)
    if not own or is_model or not (own[-1] is frames[-1] or "numpy" in files[-1].parts):
        return ""
    return f"{pathlib.Path(own[-1].filename).name}:{own[-1].lineno}"


def _place_of(problem: BaseException) -> str:
    """Return the file and line of the user's code that raised it; empty if other code did."""
    frames = traceback.extract_tb(problem.__traceback__)
    own = [
        frame
        for frame in frames
        if "site-packages" not in frame.filename
        and not frame.filename.startswith("<")
        and not {PROBES, STANDARD_LIBRARY}.intersection(pathlib.Path(frame.filename).parents)
    ]
    return f" at {pathlib.Path(own[-1].filename).name}:{own[-1].lineno}" if own else ""


def exception_summary(problem: BaseException) -> str:
    return _with_cause(_type_and_reason(problem), problem)


def _type_and_reason(problem: BaseException) -> str:
    return f"{type(problem).__name__}: {first_reason(str(problem))}"


def _with_cause(reason: str, problem: BaseException) -> str:
    """Return the reason, and the first of the exceptions that led to it unless it is quoted."""
    cause = _first_cause(problem)
    if cause is problem or first_reason(str(cause)) in reason:
        return _sentences_of(reason, MAX_REASON_LENGTH)
    outer = _sentences_of(reason, MAX_OUTER_LENGTH)
    return _sentences_of(f"{outer}; cause: {_type_and_reason(cause)}", MAX_REASON_LENGTH)


def _first_cause(problem: BaseException) -> BaseException:
    """Follow the causes to the first; `raise problem from problem` makes a circle of them."""
    cause, seen = problem, {id(problem)}
    while cause.__cause__ is not None and id(cause.__cause__) not in seen:
        cause = cause.__cause__
        seen.add(id(cause))
    return cause


def _sentences_of(reason: str, most: int) -> str:
    """Cut after a sentence: what stacks advise for all exceptions of a kind comes last."""
    beginning = reason[:most]
    return reason if len(reason) <= most else beginning.rpartition(". ")[0] or beginning


def first_reason(message: str) -> str:
    """Return the first line, without colours, and the one that it announces by a colon."""
    lines = [line.strip() for line in TERMINAL_COLOURS.sub("", message).splitlines()]
    lines = [line for line in lines if line]
    last = next(
        (index for index, line in enumerate(lines) if not line.endswith(":")), len(lines) - 1
    )
    return " ".join(lines[: last + 1]) or "no message"
