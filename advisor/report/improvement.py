"""Try the code of a run in lower precisions and with settings against graph breaks.

The results are kept in the run.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import re
from collections.abc import Callable, Iterable, Iterator

import msgspec

from advisor.ask.detection import detect_cpu_flags
from advisor.ask.rubric_files import read_improvements
from advisor.context import Context
from advisor.decide.further_lines import describe_variant
from advisor.domain.answer import Answer, RankedArm
from advisor.domain.catalogue import BreakCause, Improvements
from advisor.domain.measurement import AGAINST_BREAKS, Variant
from advisor.domain.model import OnnxModel
from advisor.domain.run_events import VariantMeasured
from advisor.domain.run_state import RunState
from advisor.errors import VerificationError
from advisor.execute.run_in_progress import Recorder
from advisor.probing.snippets import run_pair
from advisor.report.verification import PreparedPair, prepare, reached_speedup
from advisor.store.runs import Run
from advisor.text_format import join_names

#: Allows any error, because the error is reported.
ANY_ERROR = 1e9
FLOAT32_BYTES = 4


#: A line of a file.
PLACE = re.compile(r"[^ :]+:[0-9]+")


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
            "name a run of one pass in float32 on a device with bfloat16, or with graph breaks",
        )
    compose = functools.partial(prepare, answer, run, seconds=seconds, context=context)
    with run.writer() as writer:
        recorder = Recorder(run.state(), context.clock, writer.append)
        for arm, variant in variants:
            tell(f"{arm}: running its code with {variant.title}")
            own, changed = compose(arm), compose(arm, lines=variant.lines)
            if variant.graph_breaks is None:
                found = measure(variant, compose(answer.results.baseline), changed)
            else:
                found = measure(variant, own, changed)
            # A break can hide those that follow it.
            if more := lines_against(found.graph_breaks or {}, variant.lines):
                longer = msgspec.structs.replace(variant, lines=f"{variant.lines}\n{more}")
                variants.append((arm, longer))
                continue
            recorder.record(VariantMeasured(arm=arm, variant=found))
            yield Tried(arm=arm, variant=found, diff=diff(own, changed))


def measure(variant: Variant, other: PreparedPair, changed: PreparedPair) -> Variant:
    """Return the variant with its speed-up over other code and its error, or why it fails."""
    settings, outputs = changed.settings, changed.settings.allowed
    if outputs is None and variant.graph_breaks is not None:
        return msgspec.structs.replace(variant, failure="its outputs cannot be compared")
    if outputs is not None and variant.graph_breaks is None:
        settings = dataclasses.replace(settings, allowed=[ANY_ERROR] * len(outputs))
    try:
        pair = run_pair(other.snippet, changed.snippet, settings)
    except VerificationError as problem:
        reason = problem.what.removeprefix("the snippet failed: ")
        return msgspec.structs.replace(variant, failure=reason)
    turned = tuple((own, first) for first, own in pair.rounds)
    return msgspec.structs.replace(
        variant,
        speedup=reached_speedup(msgspec.structs.replace(pair, rounds=turned)),
        error=pair.error,
        graph_breaks=None if variant.graph_breaks is None else pair.graph_breaks,
        failure=pair.problem,
    )


def diff(own: PreparedPair, changed: PreparedPair) -> str:
    before, after = (each.snippet.text.splitlines() for each in (own, changed))
    _, _, *lines = difflib.unified_diff(before, after, lineterm="", n=1)
    return "\n".join(lines)


def find_variants(answer: Answer, state: RunState) -> list[tuple[str, Variant]]:
    """Return what to try, with the arm on whose code; empty if nothing applies."""
    rules = read_improvements()
    if answer.question.task != "forward" or isinstance(answer.question.model, OnnxModel):
        return []
    broken, causes = find_breaks(answer)
    lines = lines_against(causes)
    title = "settings against graph breaks"
    settings = Variant(name=AGAINST_BREAKS, title=title, lines=lines, graph_breaks={})
    return [*_find_precisions(answer, state, rules), *([(broken, settings)] if lines else [])]


def name_untried(answer: Answer, state: RunState) -> str:
    """Return the titles of the variants that have no result yet; empty for none."""
    found = [
        variant.title
        for arm, variant in find_variants(answer, state)
        if variant.name not in {tried.name for tried in answer.measurements[arm].variants}
    ]
    return join_names(found) if found else ""


def _find_precisions(
    answer: Answer, state: RunState, rules: Improvements
) -> list[tuple[str, Variant]]:
    arms = [each for each in _by_speed(answer) if each.scored.workflow in rules.workflows]
    if not arms or not is_float32(answer, state):
        return []
    arm = answer.advised if answer.advised in arms else arms[0]
    gpu, flags = answer.machine.find_gpu(answer.question.gpu), detect_cpu_flags()
    capability = float(gpu.compute_capability) if gpu else 0.0
    return [
        (arm.arm, Variant(name=name, title=each.title, lines=each.lines.strip()))
        for name, each in rules.precision.items()
        if capability >= each.compute_capability or (not gpu and flags & each.cpu_flags)
    ]


def find_breaks(answer: Answer) -> tuple[str, dict[str, BreakCause | None]]:
    """Return the fastest arm whose graph breaks, and the causes by place and Dynamo's reason."""
    for arm in _by_speed(answer):
        if breaks := arm.measured.facts.get("graph_breaks"):
            return arm.arm, explain_breaks(breaks)
    return "", {}


def explain_breaks(reasons: Iterable[str]) -> dict[str, BreakCause | None]:
    causes = read_improvements().graph_break.values()
    return {
        each: next((cause for cause in causes if re.search(cause.pattern, each)), None)
        for each in reasons
    }


def lines_against(reasons: Iterable[str], known: str = "") -> str:
    """Return the lines that mend breaks with these reasons, without those that are `known`."""
    found = [each.lines.strip() for each in explain_breaks(reasons).values() if each]
    return "\n".join(dict.fromkeys(each for each in found if each and each not in known))


def _by_speed(answer: Answer) -> list[RankedArm]:
    """Return the arms without quantised weights, the fastest first."""
    native = [each for each in answer.ranked if each.scored.weights is None]
    return sorted(native, key=lambda each: -each.speedup.value)


def is_float32(answer: Answer, state: RunState) -> bool:
    """Return whether the model computes in float32, also as its own precision."""
    if answer.question.dtype != "own":
        return answer.question.dtype == "float32"
    loaded = [each.opened for each in state.processes[answer.results.baseline] if each.opened]
    return any(each.parameter_bytes == FLOAT32_BYTES * (each.parameters or 0) for each in loaded)


def render_breaks(answer: Answer) -> str:
    """Return where the graph breaks, why, and what mends it; empty if it does not."""
    arm, causes = find_breaks(answer)
    unknown = "what one costs is not known unless a setting mends it"
    lines = [f"Graph breaks of {answer.titles[arm]}; {unknown}:"] if arm else []
    for reason, found in causes.items():
        place, colon, _ = reason.partition(": ")
        where = f"{place}: " if colon and PLACE.fullmatch(place) else ""
        remedy = found.advice or "a setting may mend it" if found else ""
        lines.append(f"  {where}{found.cause}; {remedy}" if found else f"  {reason}")
    return "".join(f"{line}\n" for line in lines)


def render(tried: Tried, answer: Answer) -> str:
    """Return the gain as a sentence, and the lines of a change that gains."""
    sentence = describe_variant(tried.variant, tried.arm, answer)
    return f"{sentence}\n{tried.diff}\n" if tried.variant.is_gain else f"{sentence}\n"
