"""Compose the code that `verify` and `improve` run, and say what it shows."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Mapping

import msgspec

from advisor.domain.answer import Answer, RankedArm
from advisor.domain.catalogue import BreakCause
from advisor.domain.errors import VerificationError
from advisor.domain.model import TransformersModel
from advisor.domain.plan import Arm
from advisor.domain.snippet import (
    Result,
    Snippet,
    SnippetPair,
    TriedVariant,
    Verification,
    shows_nothing,
)
from advisor.domain.text import format_interval, format_milliseconds, is_unknown, write_speedup
from advisor.recipes.snippet import MAIN_GUARD, split_imports
from advisor.report.arm_recipe import ArmRecipe, choose_recipe
from advisor.report.formatting import PLACE, describe_problem
from advisor.report.further_lines import DOUBTS, describe_variant
from advisor.report.recipe_text import render_snippet
from advisor.store.runs import Run
from probes.facts import EACH_CALL
from probes.shape import Shape

RESULT_TEXTS: dict[Result, str] = {
    "holds": "the snippet reaches the measured speed-up",
    "faster": "the snippet is faster than measured",
    "slower": "the snippet does not reach the measured speed-up",
    "wrong": "the snippet returns wrong outputs",
    "undecided": "the times do not decide whether the snippet reaches the measured speed-up",
}
#: Folder of the environment that writes quantised checkpoints, as the lines of its arms name it.
QUANTISER = "llm-compressor"


def compose_pair(
    answer: Answer, run: Run, name: str, lines: str = "", *, batch_size: int | None = None
) -> SnippetPair:
    """Return the snippets of an arm and of the baseline as `recipe` prints them.

    `lines` follow the imports of the arm's own ones. Raise `VerificationError` for what no snippet
    repeats, and `NoRecipeError` for an arm without one.
    """
    ranked, recipe = choose_recipe(answer, run, name, batch_size)
    shape, plan = answer.code_shape(ranked), run.state().plan
    cell = next((each for each in ranked.cells if each.shape == shape), None)
    planned, baseline = next(each for each in plan.arms if each.id == ranked.arm), plan.baseline
    if answer.question.serves:
        raise VerificationError(
            f"{planned.id} was measured as a server under load, which no snippet repeats",
            "measure it again with p3-advisor recommend --task serve",
        )
    if cell is None:
        raise VerificationError(f"{ranked.arm} was not measured to its end", "measure it again")
    own = compose(answer, planned, cell.shape, ranked, with_lines(recipe, lines))
    compared = compose(answer, baseline, cell.shape, *choose_recipe(answer, run, baseline.id))
    model = answer.question.model
    if isinstance(model, TransformersModel) and model.weights == "random":
        # Another version of the library may make other weights from the same seed.
        compared = msgspec.structs.replace(compared, python=own.python)
    unchecked = {
        each.shape for each in ranked.measured.correctness if each.accuracy_class == "unchecked"
    }
    return SnippetPair(
        planned=planned,
        own=own,
        baseline=compared,
        allowed=None if cell.shape in unchecked else recipe.allowances.get(str(cell.shape)),
        one_by_one=answer.question.device == "cuda" and MAIN_GUARD in own.text,
        cell=cell,
        requirements=recipe.requirements,
    )


def refuse_baseline(answer: Answer, name: str) -> None:
    """Raise `VerificationError` for the baseline, which would be compared with itself."""
    advice, baseline = answer.recommendation, answer.results.baseline
    if (name or (advice.arm if advice else "")) != baseline:
        return
    others = [each for each in answer.ranking if each.arm != baseline]
    fastest = max(others, key=lambda each: each.speedup.value, default=None)
    step = f"verify {answer.run_id} {fastest.arm}" if fastest else "recommend"
    raise VerificationError(
        f"{baseline} is the baseline, so there is nothing to compare it with",
        f"p3-advisor {step} compares another arm with it",
    )


def with_lines(recipe: ArmRecipe, lines: str) -> ArmRecipe:
    imports, steps = split_imports(recipe.integration)
    integration = "\n".join([*imports, "", *lines.split("\n"), *steps])
    return dataclasses.replace(recipe, integration=integration) if lines else recipe


def compose(
    answer: Answer, planned: Arm, shape: Shape, ranked: RankedArm, recipe: ArmRecipe
) -> Snippet:
    """Return the snippet that `recipe` prints; raise `VerificationError` where it has no call."""
    text = render_snippet(answer, ranked, recipe, shape)
    if not EACH_CALL.search(text):
        raise VerificationError(
            f"{planned.id} only serves: its snippet has no call to repeat",
            "measure it with p3-advisor recommend --task serve",
        )
    quantiser = planned.quantiser
    folders = {QUANTISER: pathlib.Path(quantiser).parents[1]} if quantiser else {}
    return Snippet(text=text, python=planned.python, folders=folders)


def render_verification(verified: Verification) -> str:
    baseline, result = verified.baseline, RESULT_TEXTS[verified.result]
    if verified.result == "holds" and verified.speedup.is_range():
        result = "the snippet is within the range that was measured"
    lines = [f"{verified.arm}, run {verified.run_id}, {verified.shape.description}: {result}."]
    if verified.speedup_reached is not None:
        own, other = map(format_milliseconds, (verified.seconds_reached, verified.baseline_seconds))
        unfit = bool(verified.doubt)
        shown = write_speedup(verified.speedup_reached, unfit=unfit, interval=True, in_words=True)
        is_lost = is_unknown(verified.speedup_reached)
        reached = "how fast is not known" if is_lost else f"{shown} as fast as {baseline}"
        times = f"{own} ms a call instead of {other} ms"
        if verified.doubt:
            times = DOUBTS[verified.doubt]
        lines.append(f"  {reached}: {times}; the run measured {format_interval(verified.speedup)}")
    agree = f"agree with those of {baseline}"
    compared = agree if verified.compared else "not compared: they differ from call to call"
    lines.append(f"  outputs: {verified.problem or compared}")
    changed = ", ".join(f"{name} is now {now}" for name, now in verified.changed_versions.items())
    check = verified.quiet_check
    busy = "; ".join(describe_problem(each, check.activity) for each in check.problems)
    further = {
        "changed since: ": changed,
        "the machine was busy before, so the speed is uncertain: ": busy,
    }
    lines += [f"  {head}{text}" for head, text in further.items() if text]
    lines += [] if verified.holds else [f"Next: {_next_step(verified)}"]
    return "\n".join(lines) + "\n"


def _next_step(verified: Verification) -> str:
    size = verified.shape.batch_size
    again = f"p3-advisor verify {verified.run_id} {verified.arm} --batch-size {size}"
    if verified.changed_versions:
        return (
            "install the measured versions, which recipe pins, or measure the present ones:"
            " p3-advisor recommend"
        )
    if verified.result == "wrong":
        return "do not use its outputs; measure again, which checks them: p3-advisor recommend"
    if shows_nothing(verified.speedup, verified.tolerance):
        resume = f"p3-advisor resume {verified.run_id} --wait-for-quiet 5min"
        return f"measure the speed-up itself again: {resume}; without its builds, ask again"
    if verified.quiet_check.problems or verified.doubt == "busy":
        return f"stop the other work on this machine, then {again}"
    stays = "undecided" if verified.result == "undecided" else "slower"
    return f"time it for longer: {again} --seconds 30; if it stays {stays}, p3-advisor recommend"


def render_breaks(title: str, causes: Mapping[str, BreakCause | None]) -> str:
    """Return where the graph of an arm breaks, why, and what mends it; empty if it does not."""
    unknown = "what one costs is not known unless a setting mends it"
    lines = [f"Graph breaks of {title}; {unknown}:"] if causes else []
    for reason, cause in causes.items():
        place, colon, _ = reason.partition(": ")
        where = f"{place}: " if colon and PLACE.fullmatch(place) else ""
        remedy = cause.advice or "a setting may mend it" if cause else ""
        lines.append(f"  {where}{cause.cause}; {remedy}" if cause else f"  {reason}")
    return "".join(f"{line}\n" for line in lines)


def render_tried(tried: TriedVariant, answer: Answer) -> str:
    """Return what the lines gain, with the lines where they are faster for certain."""
    sentence = describe_variant(tried.variant, tried.arm, answer)
    low = tried.variant.speedup.low if tried.variant.speedup else None
    is_faster = tried.variant.is_gain and low is not None and low > 1
    return f"{sentence}\n{tried.diff}\n" if is_faster else f"{sentence}\n"
