"""`improve`: run printed code with lower precisions and with settings against graph breaks.

The results are kept in the run.
"""

from __future__ import annotations

import collections
import difflib
from collections.abc import Callable, Iterable, Iterator

import msgspec

from advisor.ask.catalogue_files import read_shipped
from advisor.ask.context import Context
from advisor.domain.answer import Answer, RankedArm
from advisor.domain.catalogue import BreakCause, Improvements
from advisor.domain.errors import VerificationError
from advisor.domain.measurement import AGAINST_BREAKS, Variant
from advisor.domain.model import OnnxModel
from advisor.domain.run_events import VariantMeasured
from advisor.domain.run_state import RunState
from advisor.domain.snippet import SnippetPair, TriedVariant
from advisor.domain.text import join_names
from advisor.execute.active_run import Recorder
from advisor.execute.verification import compare, config_for_snippets
from advisor.probing.detection import detect_cpu_flags
from advisor.probing.run_config import RunConfig
from advisor.probing.snippets import run_pair
from advisor.recipes.arm_recipe import compose_pair
from advisor.store.runs import Run

#: Allows any error, because the error is reported.
ANY_ERROR = 1e9
FLOAT32_BYTES = 4


def improve(
    answer: Answer,
    run: Run,
    *,
    seconds: float,
    context: Context,
    tell: Callable[[str], None] = lambda _line: None,
) -> Iterator[TriedVariant]:
    """Try each variant and store its result in the run.

    `seconds` is the time for the calls of each code. `tell` gets a line about what comes next.
    Raise `VerificationError` if there is nothing to try.
    """
    if not (variants := collections.deque(find_variants(answer, run.state()))):
        raise VerificationError(
            f"there is nothing to try on the code of run {answer.run_id}",
            "name a run of one pass in float32 on a device with bfloat16, or with graph breaks",
        )
    config, by_arm = config_for_snippets(run, context), {each.arm: each for each in answer.ranking}
    with run.writer() as writer:
        recorder = Recorder(run.state(), context.clock, writer.append)
        while variants:
            arm, variant = variants.popleft()
            tell(f"{arm}: running its code with {variant.title}")
            ranked, eager = by_arm[arm], by_arm[answer.results.baseline]
            own = compose_pair(answer, run, ranked)
            changed = compose_pair(answer, run, ranked, variant.lines)
            is_precision = variant.graph_breaks is None
            other = compose_pair(answer, run, eager) if is_precision else own
            found = measure(variant, other, changed, config, seconds)
            # A break can hide those that follow it.
            if more := lines_against(found.graph_breaks or {}, variant.lines):
                longer = msgspec.structs.replace(variant, lines=f"{variant.lines}\n{more}")
                variants.append((arm, longer))
                continue
            recorder.record(VariantMeasured(arm=arm, variant=found))
            yield TriedVariant(arm=arm, variant=found, diff=diff(own, changed))


def measure(
    variant: Variant, other: SnippetPair, changed: SnippetPair, config: RunConfig, seconds: float
) -> Variant:
    allowed, is_precision = changed.allowed, variant.graph_breaks is None
    if allowed is None and not is_precision:
        return msgspec.structs.replace(variant, failure="its outputs cannot be compared")
    if allowed is not None and is_precision:
        allowed = [limit if limit is None else ANY_ERROR for limit in allowed]
    pair = msgspec.structs.replace(changed, own=other.own, baseline=changed.own, allowed=allowed)
    try:
        calls = run_pair(pair, config, seconds, lambda _line: None)
    except VerificationError as problem:
        return msgspec.structs.replace(variant, failure=problem.reason)
    turned = tuple((own, first) for first, own in calls.rounds)
    speedup, doubt = compare(msgspec.structs.replace(calls, rounds=turned), config)
    return msgspec.structs.replace(
        variant,
        speedup=speedup,
        doubt=doubt,
        error=calls.error,
        graph_breaks=None if is_precision else calls.graph_breaks,
        failure=calls.problem,
    )


def diff(own: SnippetPair, changed: SnippetPair) -> str:
    before, after = (each.own.text.splitlines() for each in (own, changed))
    _, _, *lines = difflib.unified_diff(before, after, lineterm="", n=1)
    return "\n".join(lines)


def find_variants(answer: Answer, state: RunState) -> list[tuple[str, Variant]]:
    """Return what to try, with the arm on whose code; empty if nothing applies."""
    rules = read_shipped().improvements
    if answer.question.task != "forward" or isinstance(answer.question.model, OnnxModel):
        return []
    broken, causes = find_breaks(answer)
    lines = lines_against(causes)
    title = "settings against graph breaks"
    settings = Variant(name=AGAINST_BREAKS, title=title, lines=lines, graph_breaks={})
    return [*_find_precisions(answer, state, rules), *([(broken, settings)] if lines else [])]


def name_untried(answer: Answer, state: RunState) -> str:
    found = [
        variant.title
        for arm, variant in find_variants(answer, state)
        if variant.name not in {tried.name for tried in answer.results.by_arm[arm].variants}
    ]
    return join_names(found) if found else ""


def _find_precisions(
    answer: Answer, state: RunState, rules: Improvements
) -> list[tuple[str, Variant]]:
    arms = [each for each in _by_speed(answer) if each.scored.workflow in rules.workflows]
    if not arms or not is_float32(answer, state):
        return []
    ranked = answer.advised if answer.advised in arms else arms[0]
    gpu, flags = answer.machine.find_gpu(answer.question.gpu), detect_cpu_flags()
    capability = float(gpu.compute_capability) if gpu else 0.0
    return [
        (ranked.arm, Variant(name=name, title=each.title, lines=each.lines.strip()))
        for name, each in rules.precision.items()
        if capability >= each.compute_capability or (not gpu and flags & each.cpu_flags)
    ]


def find_breaks(answer: Answer) -> tuple[str, dict[str, BreakCause | None]]:
    """Return the fastest arm whose graph breaks, and the causes by place and Dynamo's reason."""
    for ranked in _by_speed(answer):
        if breaks := ranked.measured.facts.get("graph_breaks"):
            return ranked.arm, explain_breaks(breaks)
    return "", {}


def explain_breaks(reasons: Iterable[str]) -> dict[str, BreakCause | None]:
    return {each: read_shipped().improvements.find_cause(each) for each in reasons}


def lines_against(reasons: Iterable[str], known: str = "") -> str:
    found = [each.lines.strip() for each in explain_breaks(reasons).values() if each]
    return "\n".join(dict.fromkeys(each for each in found if each and each not in known))


def _by_speed(answer: Answer) -> list[RankedArm]:
    native = [each for each in answer.ranking if each.scored.weight_format is None]
    return sorted(native, key=lambda each: -each.speedup.value)


def is_float32(answer: Answer, state: RunState) -> bool:
    """Return whether the model computes in float32, also as its own precision."""
    if answer.question.dtype != "own":
        return answer.question.dtype == "float32"
    opened = [each.opened for each in state.processes[answer.results.baseline] if each.opened]
    # The weights of quantised layers are no parameters.
    return any(each.parameter_bytes == FLOAT32_BYTES * (each.parameters or 1) for each in opened)
