"""Try the code of a run in lower precisions, and keep what that gains in the run."""

from __future__ import annotations

import dataclasses
import difflib
import functools
from collections.abc import Callable, Iterator

import msgspec

from advisor.ask.detection import detect_cpu_flags
from advisor.ask.rubric_files import read, rubric_directory
from advisor.context import Context
from advisor.decide.further_lines import describe_variant
from advisor.domain.answer import Answer
from advisor.domain.measurement import Variant
from advisor.domain.model import OnnxModel
from advisor.domain.run_events import VariantMeasured
from advisor.domain.run_state import RunState
from advisor.errors import VerificationError
from advisor.execute.recorder import Recorder
from advisor.probing.snippets import run_pair
from advisor.report.verification import Prepared, prepare, reached_speedup
from advisor.store.runs import Run

#: By default convolutions round float32 to TF32.
WITHOUT_TF32 = "torch.backends.cudnn.allow_tf32 = False"
#: Allows any error: it is told.
ANY_ERROR = 1e9
FLOAT32_BYTES = 4


class Precision(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Lines for another precision, and the devices that are made for it."""

    title: str
    lines: str
    source: str
    #: The least one of a GPU.
    compute_capability: float
    #: The kernel's names of the instructions of a processor, of which one is enough.
    cpu_flags: frozenset[str] = frozenset()


class Improvements(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Content of `improvements.toml`."""

    workflows: tuple[str, ...]
    precision: dict[str, Precision]


class Tried(msgspec.Struct, frozen=True, kw_only=True):
    """What further lines gain."""

    arm: str
    variant: Variant
    #: The lines and where they are, as a unified diff of the code that `recipe` prints.
    diff: str


def improve(
    answer: Answer,
    run: Run,
    *,
    seconds: float,
    context: Context,
    tell: Callable[[str], None] = lambda _line: None,
) -> Iterator[Tried]:
    """Try each variant and store its result in the run.

    `seconds` is the time for the calls of each code. `tell` gets a line about what comes next.
    Raise `VerificationError` if there is nothing to try.
    """
    if not (variants := find_variants(answer, run.state())):
        raise VerificationError(
            f"there is nothing to try on the code of run {answer.run_id}",
            "name a run of one pass in float32 on a GPU or processor with bfloat16",
        )
    compose = functools.partial(prepare, answer, run, seconds=seconds, context=context)
    lines = WITHOUT_TF32 if answer.question.device == "cuda" else ""
    eager = compose(answer.results.baseline, lines=lines)
    with run.writer() as writer:
        recorder = Recorder(run.state(), context.clock, writer.append)
        for arm, variant in variants:
            tell(f"{arm}: running its code in {variant.title}, beside eager PyTorch in float32")
            own, changed = compose(arm), compose(arm, lines=variant.lines)
            found = measure(variant, eager, changed)
            recorder.record(VariantMeasured(arm=arm, variant=found))
            yield Tried(arm=arm, variant=found, diff=diff(own, changed))


def measure(variant: Variant, baseline: Prepared, changed: Prepared) -> Variant:
    """Return the variant with its speed-up and its error, or with the reason why it fails."""
    settings, outputs = changed.settings, changed.settings.allowed
    if outputs is not None:
        settings = dataclasses.replace(settings, allowed=[ANY_ERROR] * len(outputs))
    try:
        pair = run_pair(baseline.snippet, changed.snippet, settings)
    except VerificationError as problem:
        reason = problem.what.removeprefix("the snippet failed: ")
        return msgspec.structs.replace(variant, failure=reason)
    turned = tuple((own, other) for other, own in pair.rounds)
    return msgspec.structs.replace(
        variant,
        speedup=reached_speedup(msgspec.structs.replace(pair, rounds=turned)),
        error=pair.error,
        failure=pair.problem,
    )


def diff(own: Prepared, changed: Prepared) -> str:
    texts = (each.snippet.text.splitlines() for each in (own, changed))
    _, _, *lines = difflib.unified_diff(*texts, lineterm="", n=1)
    return "\n".join(lines)


def find_variants(answer: Answer, state: RunState) -> list[tuple[str, Variant]]:
    """Return what to try, with the arm on whose code; empty if nothing applies."""
    question, rules = answer.question, read(rubric_directory() / "improvements.toml", Improvements)
    arms = [
        each
        for each in sorted(answer.ranked, key=lambda each: -each.speedup.value)
        if each.scored.workflow in rules.workflows and each.scored.weights is None
    ]
    is_file = isinstance(question.model, OnnxModel)
    if question.task != "forward" or is_file or not arms or not is_float32(answer, state):
        return []
    arm = answer.advised if answer.advised in arms else arms[0]
    gpu, flags = answer.machine.find_gpu(question.gpu), detect_cpu_flags()
    capability = float(gpu.compute_capability) if gpu else 0.0
    return [
        (arm.arm, Variant(name=name, title=each.title, lines=each.lines.strip()))
        for name, each in rules.precision.items()
        if capability >= each.compute_capability or (not gpu and flags & each.cpu_flags)
    ]


def is_float32(answer: Answer, state: RunState) -> bool:
    """Return whether the model computes in float32, also as its own precision."""
    if answer.question.dtype != "native":
        return answer.question.dtype == "float32"
    loaded = [each.loaded for each in state.processes[answer.results.baseline] if each.loaded]
    return any(each.parameter_bytes == FLOAT32_BYTES * (each.parameters or 0) for each in loaded)


def render(tried: Tried, answer: Answer) -> str:
    """Return the gain as a sentence, and the lines of a change that works."""
    sentence = describe_variant(tried.variant, tried.arm, answer)
    return f"{sentence}\n{tried.diff}\n" if tried.variant.failure is None else f"{sentence}\n"
