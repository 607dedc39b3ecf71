"""Explain the score of an arm from its raw figures (`explain`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from advisor.ask import catalogue_files
from advisor.ask.option_values import full_name
from advisor.domain import text
from advisor.domain.answer import Answer, RankedArm, UnmeasuredArm
from advisor.domain.constraints import CRITERIA, LETTERS
from advisor.domain.errors import UnknownCriterionError, choose_among
from advisor.domain.measurement import Interval
from advisor.domain.rubric import Basis, name_fact
from advisor.domain.workflow import Workflow
from advisor.report.cost import cost_line, describe_new_shape
from advisor.report.formatting import accuracy_line
from advisor.report.other_arms import describe_certainty
from advisor.report.ranking import find_arms, is_range, ranking_columns, write_fact
from advisor.report.setup_facts import describe_shapes

LETTER_LEGEND = "  letters: A for a grade from 2.5, B from 1.5, C below; in files 3, 2 and 1"
BASES: dict[Basis, str] = {"paper": "stated in the paper", "ours": "our reading of the paper"}


def render(answer: Answer, workflow: str, criterion: str, known: Mapping[str, Workflow]) -> str:
    """Return the explanation of the arms of a workflow, for one criterion or for all.

    An empty `workflow` means the recommended arm, an empty `criterion` all criteria. `known` are
    the workflows by their ids.
    """
    wanted = full_name(criterion)
    if wanted and wanted not in CRITERIA:
        raise UnknownCriterionError(
            f"there is no criterion {criterion!r}", choose_among(criterion, CRITERIA)
        )
    blocks = [
        [
            f"{found.title}, arm {found.arm}: {found.status}, {found.reason}",
            *([f"  next: {found.fix}"] if found.fix else []),
        ]
        if isinstance(found, UnmeasuredArm)
        else explain_arm(answer, found, [wanted] if wanted else CRITERIA, known)
        for found in find_arms(answer, workflow, known)
    ]
    return "\n\n".join("\n".join(block) for block in blocks) + "\n"


def explain_arm(
    answer: Answer, ranked: RankedArm, criteria: Sequence[str], known: Mapping[str, Workflow]
) -> list[str]:
    scored, measured = ranked
    name = f"{scored.title}, arm {scored.arm}"
    lines = [f"{name}, run {answer.run_id}, rubric {answer.rubric}", LETTER_LEGEND]
    if "performance" in criteria:
        lines += _measured_lines(answer, ranked, known.get(ranked.workflow))
    for name in criteria:
        lines += _criterion_lines(answer, ranked, name)
        if name == "input_flexibility":
            lines += [f"    {describe_new_shape(each)}" for each in measured.new_shape_results]
    shares = answer.question.priorities.shares()
    terms = " + ".join(
        f"{shares[name]:.3f} x {scored.ratings[name].grade:.3f} ({name})" for name in CRITERIA
    )
    lines += [
        "  score: weight x grade",
        f"    {terms} = {text.format_number(scored.score, decimals=3)}",
    ]
    advice = answer.recommendation
    share = advice.decision.contenders.get(scored.arm) if advice else None
    if "performance" in criteria and share is not None:
        meaning = catalogue_files.read_glossary()["certainty"]
        lines.append(f"  {describe_certainty(share)}: {meaning}")
    return [*lines, *(f"  excluded: {fail}" for fail in scored.failed_constraints)]


def _measured_lines(answer: Answer, ranked: RankedArm, workflow: Workflow | None) -> list[str]:
    unfit, measured = answer.results.is_unfit, ranked.measured
    lines = ["  measured (95 % intervals in brackets)"]
    for cell in measured.cells:
        speedup = _write_speedup(answer, cell.speedup)
        kept_mib = text.format_mebibytes(cell.kept_bytes)
        kept = f"; its build keeps {kept_mib} MiB of the GPU for this shape"
        kept = "" if cell.kept_bytes is None else kept
        typical = f"; a typical call takes {text.format_milliseconds(cell.seconds.median)} ms"
        lines.append(
            f"    {describe_shapes(answer, [cell.shape])}: {speedup} the baseline's speed, paired "
            f"within rounds{'' if unfit else typical} ({cell.seconds.samples} timed calls)"
            f"{kept}"
        )
    speedup = _write_speedup(answer, measured.speedup)
    what = "geometric mean over the shapes" if measured.cells else "ratio of request rates"
    lines.append(f"    {what}: {speedup}")
    in_table = ", ".join(
        f"{column.head} {column.write(ranked)}"
        for column in ranking_columns(answer, has_latency=True)
        if column.name not in {"rank", "arm", "score", *CRITERIA}
    )
    lines += [f"    in the table: {in_table}", f"    cost: {cost_line(answer, ranked)}"]
    lines += [
        f"    outputs at {describe_shapes(answer, [checked.shape])}: {accuracy_line(checked)}"
        for checked in measured.correctness
    ]
    if workflow is not None and workflow.beside_pytorch is not None:
        fact = workflow.beside_pytorch
        lines.append(f"    beside PyTorch: {fact.value} ({fact.source})")
    if measured.engagement:
        share = text.format_share(measured.engaged_share)
        lines.append(f"    compiled path: {share} of the work ({measured.engagement})")
    for title, values in (("versions", measured.versions), ("settings", measured.settings)):
        if values:
            shown = ", ".join(f"{name} {value}" for name, value in values.items())
            lines.append(f"    {title}: {shown}")
    return lines


def _write_speedup(answer: Answer, speedup: Interval) -> str:
    unfit = answer.results.is_unfit
    return text.write_speedup(speedup, unfit=unfit, interval=True, in_words=unfit, decimals=3)


def _criterion_lines(answer: Answer, ranked: RankedArm, name: str) -> list[str]:
    rating = ranked.scored.ratings[name]
    figure, has_range = write_fact(answer, ranked, rating), is_range(answer, ranked, rating)
    if rating.fact == "speedup" and isinstance(rating.value, float) and not has_range:
        figure = text.format_number(rating.value, decimals=3)  # 1.095 is below 1.1, and 1.10 is not
    decisive = f"{name_fact(rating.fact)} {'is' if has_range else '='} {figure}"
    grade = f"grade {rating.grade:.2f}, {rating.why}"
    if has_range:
        grade = "grade of the middle of a range, the speed was not measured well enough for more"
    lines = [
        f"  {name}: {LETTERS[rating.tier]}, {grade}",
        f"    rule: {rating.rule}; decided by {decisive} ({rating.evidence})",
        f"    basis: {BASES[rating.basis]}; {rating.source}",
    ]
    lines += [
        f"    for {LETTERS[gap.tier]}, {gap.fact} must be {gap.threshold}; "
        f"its value here is {figure if gap.fact == rating.fact else text.format_fact(gap.value)}"
        for gap in rating.to_next
    ]
    return lines
