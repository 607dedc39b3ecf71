"""Tables of a report below the ranking, and sections of sentences.

Text, Markdown, page and screens iterate over them, so that all of them say the same.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence

from advisor.domain import text
from advisor.domain.accuracy import TrainedLoss, has_only_top_tokens, worst_error
from advisor.domain.answer import Answer, RankedArm
from advisor.domain.constraints import LETTERS
from advisor.domain.measurement import Measurement, Start
from advisor.domain.recommendation import Recommendation, ShapeAdvice
from advisor.domain.rubric import name_fact
from advisor.report import generation
from advisor.report.advice_lines import describe_steps, trust_reasons
from advisor.report.cost import new_shape_lines
from advisor.report.formatting import Column, ReportTable, Section, format_error, table_rows
from advisor.report.other_arms import flip_lines, partly_used, unranked
from advisor.report.ranking import write_fact
from probes.shape import Shape

AGREEMENT = {
    True: "the measurement agrees",
    False: "those of them that were measured are not the best choice here",
    None: "not decided here",
}
MIX = "The speed-up of an arm is the geometric mean over these lines, weighted by the shares"
STARTS = (
    "From a new process with empty caches to its first correct reply; files of packages may be in "
    "the memory of the system"
)
PORTABILITY = (
    "Performance portability: the harmonic mean over the platforms of each speed divided by the "
    "fastest workflow's there; 0 if a platform cannot run it"
)
#: The score weighs costs, too: the arm may be slower than the advised one.
BEST_BY_SHAPE = "Highest score at each shape alone, which need not be the highest speed"


def list_tables(answer: Answer) -> list[ReportTable]:
    return [
        *_criteria_table(answer),
        *_shape_table(answer),
        *_accuracy_table(answer),
        *generation.tables(answer),
        *_start_table(answer),
        *_portability_table(answer),
    ]


def _start_table(answer: Answer) -> list[ReportTable]:
    started = [(one.arm, start) for one in answer.results.measurements for start in one.starts]
    if not started:
        return []
    columns: list[Column[tuple[str, Start]]] = [
        ("workflow", lambda each: each[0]),
        ("way", lambda each: each[1].title),
        ("start, s", lambda each: text.format_seconds(each[1].seconds)),
        ("call, ms", lambda each: text.format_milliseconds(each[1].call_seconds)),
        ("shipped, MiB", lambda each: text.format_mebibytes(each[1].shipped_bytes or None, 2)),
        ("written in, s", lambda each: text.format_seconds(each[1].write_seconds)),
        ("lines", lambda each: str(each[1].lines)),
    ]
    loads = {f"{start.title}: {start.loads_on} ({start.source})" for _, start in started}
    failures = [f"{arm}, {start.title}: {start.failure}" for arm, start in started if start.failure]
    notes = (*failures, *sorted(loads))
    return [ReportTable("starts", STARTS, table_rows(columns, started), notes, {0, 1})]


def _criteria_table(answer: Answer) -> list[ReportTable]:
    if answer.advised is None:
        return []
    rows = [
        [
            name.replace("_", " "),
            LETTERS[rating.tier],
            f"{rating.grade:.2f}",
            f"{name_fact(rating.fact)}: {write_fact(answer, answer.advised, rating)}",
            rating.evidence,
        ]
        for name, rating in answer.advised.scored.ratings.items()
    ]
    head = ["criterion", "letter", "grade", "limited by", "figure is"]
    return [ReportTable("criteria", "Grades of the advised arm", [head, *rows], (), {0, 1, 3, 4})]


def _shape_table(answer: Answer) -> list[ReportTable]:
    """Return the best arm of each shape; none if, with one length, it is always the advised."""
    advice, weights = answer.recommendation, answer.question.shape_weights
    shapes = advice.advice_by_shape if advice is not None else ()
    lengths = any(each.shape.tokens for each in shapes)
    if advice is None or not (lengths or any(each.arm != advice.arm for each in shapes)):
        return []
    columns: list[Column[ShapeAdvice]] = [
        ("batch", lambda each: str(each.shape.batch_size)),
        ("arm", lambda each: each.arm),
        ("speed-up", lambda each: _speed_at(answer, each.arm, each.shape)),
        ("of the advised arm", lambda each: _speed_at(answer, advice.arm, each.shape)),
    ]
    if lengths:
        columns[:0] = [
            ("tokens", lambda each: each.shape.tokens),
            ("share", lambda each: text.format_share(weights.get(each.shape, 1.0) / len(weights))),
        ]
    notes, names = ((MIX,), {3}) if lengths else ((), {1})
    return [ReportTable("shapes", BEST_BY_SHAPE, table_rows(columns, shapes), notes, names)]


def _speed_at(answer: Answer, arm: str, shape: Shape) -> str:
    (cell,) = (each for each in answer.results.by_arm[arm].cells if each.shape == shape)
    return text.write_speedup(cell.speedup, unfit=answer.results.is_unfit)


def _portability_table(answer: Answer) -> list[ReportTable]:
    found = answer.results.portability
    if found is None:
        return []
    numbers = [f"[{number}]" for number in range(1, len(found.platforms) + 1)]
    rows = [["application", *numbers, "portability", "of peak", "same code"]]
    for each in found.applications:
        figures = [
            *(each.efficiencies[platform.name] for platform in found.platforms),
            *(each.performance_portability, each.architectural_portability, each.code_convergence),
        ]
        rows.append(
            [each.application, *(text.format_number(value, decimals=2) for value in figures)]
        )
    legend = ", ".join(
        f"{number} {platform.name} (run {platform.run}, {platform.created:%Y-%m-%d})"
        for number, platform in zip(numbers, found.platforms, strict=True)
    )
    return [ReportTable("portability", PORTABILITY, rows, (legend,))]


def list_sections(answer: Answer) -> list[Section]:
    advice = answer.recommendation
    found = [new_shape_lines(answer), partly_used(answer), unranked(answer)]
    if advice is not None:
        effects = [
            f"Without {effect.constraint} the answer would be {effect.without or 'none'}."
            for effect in advice.constraints
        ]
        found += [
            Section("change", "What would change the answer", [*flip_lines(answer), *effects]),
            Section("cost", "Cost of serving", _cost_lines(answer, advice)),
            Section("advice", "Published advice", _guideline_lines(advice)),
            Section("next", "Next", describe_steps(answer)),
            Section("trust", "Why trust is not higher", trust_reasons(answer)),
        ]
    return [section for section in found if section.lines]


def _cost_lines(answer: Answer, advice: Recommendation) -> list[str]:
    check = answer.results.sustained
    used = check.joules_per_call.items() if check else ()
    return [
        *(
            f"serving with {cost.arm} at {cost.shape.description} costs "
            f"{text.format_number(cost.value)} per {cost.unit}"
            for cost in advice.costs
            if cost.arm == advice.arm
        ),
        *(
            f"{arm} at {check.shape.description}: "
            f"{text.format_number(joules, digits=3)} J per call, "
            f"{text.format_number(joules / check.shape.batch_size / 3.6, digits=3)} "
            "Wh per thousand requests"
            for arm, joules in used
            if check and joules is not None
        ),
    ]


def _guideline_lines(advice: Recommendation) -> list[str]:
    guideline = advice.guideline
    if guideline is None:
        return []
    return [guideline.says, f"  {AGREEMENT[guideline.agrees]}", f"  source: {guideline.source}"]


#: What the column `class` has where an arm has none.
WITHOUT_CLASS = {"needs-real-weights": "needs real weights", "not-measured": text.MISSING}
ACCURACY_TITLE = "Accuracy against speed and memory"
ACCURACY_LEGEND = (
    "class: what is lost of a trained model, A least; front: no other arm is at least as fast, as "
    "exact and as small"
)


def arms_on_front(ranking: Sequence[RankedArm]) -> set[str]:
    """Return the arms that no other arm dominates in speed, exactness and size."""
    costs = {}
    for each in ranking:
        error, size = worst_error(each.measured.correctness), each.measured.weight_bytes
        figures = (-each.scored.speedup, error, size)
        costs[each.arm] = [math.inf if one is None else float(one) for one in figures]

    def is_dominated(own: list[float]) -> bool:
        others = (other for other in costs.values() if other != own)
        return any(all(map(operator.le, other, own)) for other in others)

    return {arm for arm, own in costs.items() if not is_dominated(own)}


def _accuracy_table(answer: Answer) -> list[ReportTable]:
    """Return the table with the losses along a text; none without a quantised arm or a metric."""
    ranking, unfit = answer.ranking, answer.results.is_unfit
    losses = [measured.trained_loss for _, measured in ranking]
    is_metric_known = any(loss is not None and loss.metric is not None for loss in losses)
    if not (is_metric_known or any(scored.weight_format for scored, _ in ranking)):
        return []
    sizes = [
        measured.weight_bytes or 0 for scored, measured in ranking if scored.weight_format is None
    ]
    native, front = max(sizes, default=0), arms_on_front(ranking)
    columns: list[Column[RankedArm]] = [
        ("arm", lambda each: each.arm),
        ("weights", lambda each: each.scored.weight_format or "native"),
        ("speed-up", lambda each: text.write_speedup(each.speedup, unfit=unfit)),
        ("error", lambda each: _write_error(each.measured)),
        ("cosine", lambda each: _write_cosine(each.measured)),
        ("class", lambda each: _write_class(each.measured.trained_loss)),
        ("weights MiB", lambda each: text.format_mebibytes(each.measured.weight_bytes)),
        ("of native", lambda each: _write_share(each.measured.weight_bytes, native)),
        ("front", lambda each: "*" if each.arm in front else ""),
    ]
    notes = (
        ACCURACY_LEGEND,
        *(
            line
            for scored, measured in ranking
            if measured.trained_loss is not None
            for line in _loss(scored.arm, measured.trained_loss)
        ),
    )
    return [ReportTable("accuracy", ACCURACY_TITLE, table_rows(columns, ranking), notes, {0, 1})]


def _write_error(measured: Measurement) -> str:
    error = worst_error(measured.correctness)
    # A divergence over other tokens than eager PyTorch's.
    mark = " (likeliest tokens)" if has_only_top_tokens(measured.correctness) else ""
    return text.MISSING if error is None else f"{format_error(error)}{mark}"


def _write_cosine(measured: Measurement) -> str:
    cosines = [each.accuracy.cosine for each in measured.correctness]
    return text.format_number(min((each for each in cosines if each is not None), default=None), 5)


def _write_class(loss: TrainedLoss | None) -> str:
    return loss.loss_class or WITHOUT_CLASS[loss.basis] if loss else text.MISSING


def _write_share(size: int | None, whole: int) -> str:
    return text.format_share(size / whole) if size and whole else text.MISSING


def _loss(arm: str, loss: TrainedLoss) -> list[str]:
    lines = []
    if loss.text is not None:
        told = loss.text
        least = " (of the tokens that the engine reports)" if told.is_incomplete else ""
        lines.append(
            f"{arm}: along {told.positions:,} tokens {told.source}, beyond eager PyTorch{least}: "
            f"perplexity ratio {told.perplexity_ratio.value:.4f} "
            f"(95 %: {told.perplexity_ratio.bound:.4f}), divergence "
            f"{format_error(told.divergence.value)} nats ({format_error(told.divergence.bound)}), "
            f"same likeliest token {text.format_share(told.same_top.value, decimals=1)} "
            f"({text.format_share(told.same_top.bound, decimals=1)})"
        )
    if loss.metric is not None:
        metric = loss.metric
        recovery = text.format_share(metric.recovery, decimals=2)
        lines.append(
            f"{arm}: your metric {metric.value:.6g}, {recovery} of the baseline's"
            if metric.value is not None and metric.recovery is not None
            else f"{arm}: your metric has no comparison: {metric.problem or 'no positive baseline'}"
        )
    return lines
