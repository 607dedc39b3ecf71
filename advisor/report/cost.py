"""What an arm costs its user: code, builds, memory, new shapes, the requests that repay them."""

from __future__ import annotations

from collections.abc import Sequence

from advisor.decide.process_figures import PENDING_SOURCE
from advisor.domain import text
from advisor.domain.answer import Answer, RankedArm
from advisor.domain.measurement import Measurement
from advisor.domain.model import FactoryModel
from advisor.domain.plan import EAGER
from advisor.domain.recommendation import BreakEven
from advisor.recipes.snippet import count_wrapper_lines
from advisor.report.formatting import Section
from advisor.report.setup_facts import describe_shapes
from probes.events import NewShapeResult
from probes.shape import Shape

EAGER_COST = "no build and no change of the code"
#: Arms of the summary; `explain` and the HTML report have all.
SUMMARY_ARMS = 3
#: The dimension of tokens or positions, in inputs with at most so many dimensions beside the batch.
LENGTH_AXIS, LENGTH_AXES = 1, 2
#: Length of a stack's message; the JSON document has all of it.
MOST_CHARACTERS = 90
UNKNOWN = "no reason is known"
#: The best first.
HANDLINGS = ("skipped", "served", "eager", "stalled", "wrong", "refused")
#: Why the memory is not known of an arm whose worker was to be read at its end.
NOT_READ = "not known: its worker ended with the run or while others built, so it was not read"


def cost_line(answer: Answer, ranked: RankedArm, *, has_details: bool = True) -> str:
    """Return what an arm costs its user, next to the baseline.

    Other baselines than eager PyTorch cost something, too: a server is started, an ONNX file is
    loaded. Without details the shapes are not named.
    """
    scored, measured = ranked
    if scored.arm == EAGER:
        return EAGER_COST
    # The lines of an export write their file each time, while a warm build has found it.
    warm = None if scored.adoption.export_step else measured.build_seconds.warm
    build = f"build {text.format_seconds(measured.build_seconds.cold)} s"
    if warm is not None:
        build += f", {text.format_seconds(warm)} s from caches"
    change = _change(answer, ranked)
    fixed = "refuses other shapes than it was built for"
    if len(answer.question.shapes) > 1:
        built = f": build it for each of {describe_shapes(answer, answer.question.shapes)}"
        fixed = f"takes one shape only{built if has_details else ''}"
    if measured.size_limits:
        fixed = describe_limits(answer, measured)
    elif refuses_lengths_alone(ranked):
        fixed = "takes no other length than it was built for"
    parts = [
        change,
        *([fixed] if _refuses_shapes(ranked) else new_shape_costs(answer, measured)),
        build,
        *_memory(answer, ranked, has_details=has_details),
    ]
    advice = answer.recommendation
    if advice is not None and advice.arm == scored.arm:
        most = MOST_COUNTS if has_details else 1
        parts += filter(None, [when_repaid(answer, advice.break_even, most)])
    return "; ".join(parts)


def is_fixed(ranked: RankedArm) -> bool:
    """Return whether the arm refuses other batch sizes than it was built for."""
    is_free = ranked.measured.size_limits or refuses_lengths_alone(ranked)
    return _refuses_shapes(ranked) and not is_free


def describe_limits(answer: Answer, measured: Measurement) -> str:
    """Return what the free dimensions take: `input x takes lengths 2 to 64`."""
    tensors = answer.results.inputs.tensors if answer.results.inputs else ()
    found = []
    for each in measured.size_limits:
        # A file from another machine could have fewer inputs.
        spec = next(iter(tensors[each.input :]), None)
        named = f"input {spec.name if spec and spec.name else each.input + 1}"
        is_length = each.axis == LENGTH_AXIS and spec is not None and len(spec.shape) <= LENGTH_AXES
        kind = "lengths" if is_length else "sizes" if each.axis else "batch sizes"
        sizes = f"of {each.low} or more" if each.high is None else f"{each.low} to {each.high}"
        place = f" in dimension {each.axis + 1}" if kind == "sizes" else ""
        found.append(f"{named} takes {kind} {sizes}{place}")
    return text.join_names(found)


def _refuses_shapes(ranked: RankedArm) -> bool:
    flexibility = ranked.scored.ratings["input_flexibility"]
    return (flexibility.fact, flexibility.value) == ("new_shapes", "refused")


def refuses_lengths_alone(ranked: RankedArm) -> bool:
    """Return whether it served the other batch sizes that it tried, but no other length."""
    tried = ranked.measured.new_shape_results
    refused = [each.shape for each in tried if each.handling in {"refused", "wrong"}]
    served = any(not each.shape.tokens for each in tried if each.shape not in refused)
    return served and bool(refused) and all(shape.tokens for shape in refused)


#: More numbers of requests become one range.
MOST_COUNTS = 3


def when_repaid(answer: Answer, break_even: Sequence[BreakEven], most: int) -> str:
    """Return the requests after which the build has paid off, by shape, or the range of all.

    Empty where it pays off at none.
    """
    paid = [each for each in break_even if each.requests is not None]
    if not paid:
        return ""
    counts: dict[str, list[Shape]] = {}
    for each in paid:
        counts.setdefault(_count_requests([each]), []).append(each.shape)
    merged = ""
    if len(counts) > most:
        counts = {_count_requests(paid): [each.shape for each in paid]}
        if all(_bounds(each)[1] for each in paid):
            sizes = {each.shape.batch_size for each in paid}
            merged = f", by {'batch size' if len(sizes) > 1 else 'length'}"
    found = [
        f"{count} at {describe_shapes(answer, shapes)}" if len(shapes) < len(break_even) else count
        for count, shapes in counts.items()
    ]
    never = [each.shape for each in break_even if each.requests is None]
    last = f"; never at {describe_shapes(answer, never)}" if never else ""
    return f"repaid after {text.join_names(found)}{merged}{last}"


def _count_requests(found: Sequence[BreakEven]) -> str:
    """Return the range of the numbers with two significant digits, or its start alone."""
    lows, highs = zip(*map(_bounds, found), strict=True)
    rounded = [float(f"{each:.2g}") for each in (min(lows), max(highs))]
    written = dict.fromkeys(text.format_number(each, decimals=0) for each in rounded)
    if not all(highs):
        return f"at least {next(iter(written))} requests"
    return text.write_count(" to ".join(written), "request")


def _bounds(found: BreakEven) -> tuple[float, float]:
    """Return the bounds of a number, which are 1 at least; 0 for an upper one that says nothing."""
    low = max((found.requests or 0.0) if found.low is None else found.low, 1.0)
    high = 0.0 if found.high is None else max(found.high, 1.0)
    return low, high if high <= text.WIDEST_RANGE * low else 0.0


def _change(answer: Answer, ranked: RankedArm) -> str:
    """Describe what to change; the start of a server is one command, whatever its lines."""
    adoption, wrapper = ranked.scored.adoption, wrapper_lines(answer, ranked.measured)
    code = f"{text.write_count(adoption.lines_changed + wrapper, 'line')} of code"
    if wrapper:
        code += f" ({wrapper} of them a module around the model)"
    steps = [
        "one command" if answer.question.serves else code,
        *(["an export step"] if adoption.export_step else []),
        *(["an environment of its own"] if adoption.own_environment else []),
    ]
    return text.join_names(steps)


def wrapper_lines(answer: Answer, measured: Measurement) -> int:
    """Return the lines of a module around the model, which the declared lines do not count."""
    inputs, model = answer.results.inputs, answer.question.model
    if inputs is None or not isinstance(model, FactoryModel):
        return 0
    return count_wrapper_lines(measured.integration, inputs.tensors)


def _memory(answer: Answer, ranked: RankedArm, *, has_details: bool) -> list[str]:
    peak, baseline = ranked.measured.memory_bytes.peak, answer.baseline
    if peak is None:
        return [f"memory {memory_source(answer, ranked.measured) if has_details else 'not known'}"]
    against = ""
    if baseline is not None and baseline.arm != ranked.arm:
        name = "eager" if baseline.workflow == EAGER else baseline.workflow
        if baseline.memory_bytes.peak is not None:
            against = f" ({name} {text.format_mebibytes(baseline.memory_bytes.peak)})"
    has_cache = has_details and ranked.scored.adoption.preallocates_cache
    cache = " with preallocated KV cache" if has_cache else ""
    return [f"{text.format_mebibytes(peak)} MiB{cache}{against}"]


def memory_source(answer: Answer, measured: Measurement) -> str:
    """Return where the figure comes from, or why there is none; it may yet come during a run."""
    source = measured.memory_bytes.source
    return NOT_READ if source == PENDING_SOURCE and not answer.in_progress else source


def describe_new_shape(result: NewShapeResult) -> str:
    """Return the shape, how it was served and how fast: `batch size 17: served in 1.2 ms`."""
    shape, reason = result.shape, result.reason
    shortened = text.shorten_text(reason or UNKNOWN, MOST_CHARACTERS)
    # A later call, and the first one, which may compile.
    first = f"first call {text.format_milliseconds(result.first_call_seconds)} ms"
    steady = result.steady_seconds
    later = f" in {text.format_milliseconds(steady)} ms" if steady else ""
    written = {
        "served": f"served{later}, {first}{f', {reason}' if reason else ''}",
        "stalled": f"recompiled, {text.format_seconds(result.first_call_seconds)} s",
        "eager": f"served by eager code, {reason}",
        "wrong": f"wrong outputs, {shortened}",
        "refused": f"refused, {shortened}",
        "skipped": f"no result, {reason}",
    }
    length = f", length {shape.tokens}" if shape.tokens else ""
    return f"batch size {shape.batch_size}{length}: {written[result.handling]}"


def new_shape_lines(answer: Answer) -> Section:
    """Return the worst batch size and length of each of the best arms that tried new shapes."""
    lines = [
        f"{scored.arm}: {'; '.join(map(describe_new_shape, worst))}"
        for scored, measured in answer.ranking
        if (worst := find_worst(measured.new_shape_results))
    ]
    return Section("new-shapes", "Shapes that were not built", lines[:SUMMARY_ARMS])


def new_shape_costs(answer: Answer, measured: Measurement) -> list[str]:
    """Return what a call of a shape costs that was not built, if not a usual call."""
    parts = []
    for worst in find_worst(measured.new_shape_results):
        name = "lengths" if worst.shape.tokens else "batch sizes"
        if worst.handling == "stalled":
            seconds = text.format_seconds(worst.first_call_seconds)
            parts.append(f"new {name} recompile ({seconds} s)")
        elif worst.handling == "eager":
            parts.append(f"new {name} run eager code")
        elif worst.handling == "skipped":
            limit = answer.question.budget.new_shape_seconds
            parts.append(f"new {name} take {f'over {limit:g} s' if limit else 'very long'}")
    return parts


def find_worst(results: Sequence[NewShapeResult]) -> list[NewShapeResult]:
    """Return the batch size and the length that were served worst."""

    def badness(result: NewShapeResult) -> tuple[int, float]:
        return HANDLINGS.index(result.handling), result.first_call_seconds or 0.0

    sizes = [result for result in results if not result.shape.tokens]
    lengths = [result for result in results if result.shape.tokens]
    return [max(each, key=badness) for each in (sizes, lengths) if each]
