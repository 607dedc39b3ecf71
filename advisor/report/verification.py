"""Verify that the snippet of an arm returns right outputs and reaches the measured speed-up."""

from __future__ import annotations

import dataclasses
import pathlib
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Literal, NamedTuple

import msgspec
from packaging.utils import canonicalize_name

from advisor.ask.detection import detect_gpus
from advisor.context import Context
from advisor.domain.answer import Answer, RankedArm
from advisor.domain.machine import QuietCheck
from advisor.domain.measurement import Cell, Interval
from advisor.domain.model import TransformersModel
from advisor.domain.plan import Arm
from advisor.errors import VerificationError
from advisor.execute.execution import refuse_imported, run_config_of
from advisor.execute.quiet import activity_reader, check_now
from advisor.probing.snippets import Pair, PairSettings, Snippet, run_pair
from advisor.recipes.snippet import MAIN_GUARD, split_imports
from advisor.report.formatting import describe_problem
from advisor.report.found_recipe import FoundRecipe, choose
from advisor.report.recipe_text import render_snippet, snippet_cell
from advisor.store.runs import Run
from advisor.text_format import format_interval, format_milliseconds
from probes.wire.facts import EACH_CALL
from probes.wire.shape import Shape

SCHEMA: Final = "p3-advisor/verification/3"

Result = Literal["holds", "faster", "slower", "wrong", "undecided"]

RESULT_TEXTS: dict[Result, str] = {
    "holds": "the snippet reaches the measured speed-up",
    "faster": "the snippet is faster than measured",
    "slower": "the snippet does not reach the measured speed-up",
    "wrong": "the snippet returns wrong outputs",
    "undecided": "the times do not decide whether the snippet reaches the measured speed-up",
}
#: Folder of the environment that writes quantised checkpoints, as the lines of its arms name it.
QUANTISER = "llm-compressor"


class Verification(msgspec.Struct, frozen=True, kw_only=True):
    """The snippet of an arm against the measurement of the arm, at one batch size."""

    schema: str
    run_id: str
    arm: str
    baseline: str
    shape: Shape
    result: Result
    holds: bool
    tolerance: float
    #: What is wrong with the outputs; null for nothing.
    problem: str | None
    #: Whether the outputs were compared: some differ from call to call.
    compared: bool
    speedup: Interval
    #: Null with wrong outputs, which are not timed. The value is that of the typical calls; the
    #: bounds hold that of the fastest calls, which other work on the machine hardly slows.
    speedup_reached: Interval | None
    #: Seconds of a call, by the measurement, of the snippet and of the baseline's snippet.
    seconds: float
    seconds_reached: float | None
    baseline_seconds: float | None
    #: The present versions that differ from the measured ones, by package.
    changed_versions: dict[str, str]
    #: What else ran on the machine before.
    quiet_check: QuietCheck


def verify(
    answer: Answer,
    run: Run,
    name: str,
    *,
    tolerance: float,
    seconds: float,
    context: Context,
    tell: Callable[[str], None] = lambda _line: None,
) -> Verification:
    """Run the snippet of an arm and the baseline's, and compare their outputs and their speed.

    Raise `VerificationError` where a snippet cannot be run, and `NoRecipeError` without one.
    `seconds` is the time for the calls of each. `tell` gets a line about what comes next.
    """
    prepared = prepare(answer, run, name, seconds=seconds, context=context, tell=tell)
    header = run.header()
    read = activity_reader(header.machine, header.question.gpus, context)
    check = check_now(read, header.catalogue.presets.quiet)
    cell, settings = prepared.cell, prepared.settings
    pair = run_pair(prepared.snippet, prepared.baseline, settings)
    typical, reached = median_seconds(pair), reached_speedup(pair)
    result = classify(cell.speedup, reached, tolerance, busy=bool(check.problems))
    return Verification(
        schema=SCHEMA,
        run_id=answer.run_id,
        arm=settings.arm.id,
        baseline=answer.results.baseline,
        shape=cell.shape,
        result=result,
        holds=result in {"holds", "faster"},
        tolerance=tolerance,
        problem=pair.problem,
        compared=settings.allowed is not None,
        speedup=cell.speedup,
        speedup_reached=reached,
        seconds=cell.seconds.median,
        seconds_reached=typical[0] if typical else None,
        baseline_seconds=typical[1] if typical else None,
        changed_versions=changed_versions(prepared.found.requirements, pair.versions),
        quiet_check=check,
    )


class PreparedPair(NamedTuple):
    """The snippet of an arm, that of the baseline, and how they run."""

    found: FoundRecipe
    cell: Cell
    snippet: Snippet
    baseline: Snippet
    settings: PairSettings


def prepare(
    answer: Answer,
    run: Run,
    name: str,
    *,
    seconds: float,
    context: Context,
    tell: Callable[[str], None] = lambda _line: None,
    lines: str = "",
) -> PreparedPair:
    """Compose both snippets; `lines` follow the imports of the arm's own ones.

    The errors are those of `verify`.
    """
    header = run.header()
    refuse_imported(header)
    entry, found = choose(answer, run, name)
    cell, plan = snippet_cell(entry), run.state().plan
    if cell is None or plan is None:
        raise VerificationError(f"{entry.arm} was not measured to its end", "measure it again")
    arm, baseline = next(each for each in plan.arms if each.id == entry.arm), plan.baseline
    refuse_elsewhere(answer, arm)
    snippet = compose(answer, arm, cell.shape, entry, with_lines(found, lines))
    other = choose(answer, run, baseline.id)
    compared = compose(answer, baseline, cell.shape, *other)
    model = answer.question.model
    if isinstance(model, TransformersModel) and model.weights == "random":
        # Another version of the library may make other weights from the same seed.
        compared = msgspec.structs.replace(compared, python=snippet.python)
    unchecked = {
        each.shape for each in entry.measured.correctness if each.accuracy_class == "unchecked"
    }
    allowed = None if cell.shape in unchecked else found.allowances.get(str(cell.shape))
    settings = PairSettings(
        arm=arm,
        config=run_config_of(run, header, context),
        allowed=allowed,
        seconds=seconds,
        one_by_one=answer.question.device == "cuda" and MAIN_GUARD in snippet.text,
        tell=tell,
    )
    return PreparedPair(found, cell, snippet, compared, settings)


def with_lines(found: FoundRecipe, lines: str) -> FoundRecipe:
    imports, steps = split_imports(found.integration)
    integration = "\n".join([*imports, "", *lines.split("\n"), *steps])
    return dataclasses.replace(found, integration=integration) if lines else found


def refuse_elsewhere(answer: Answer, arm: Arm) -> None:
    """Raise an error for an arm that cannot be run here, or that no snippet repeats."""
    question = answer.question
    if question.serves:
        raise VerificationError(
            f"{arm.id} was measured as a server under load, which no snippet repeats",
            "measure it again with p3-advisor recommend --task serve",
        )
    present = {gpu.uuid for gpu in detect_gpus()[0]} if question.gpus else set()
    if not present.issuperset(question.gpus):
        raise VerificationError(
            f"{answer.device_name}, which the run was measured on, is not in this machine",
            "verify it there, or measure here: p3-advisor recommend",
        )


def compose(
    answer: Answer, arm: Arm, shape: Shape, entry: RankedArm, found: FoundRecipe
) -> Snippet:
    """Return the snippet that `recipe` prints; raise `VerificationError` where it has no call."""
    text = render_snippet(answer, entry, found, shape)
    if not EACH_CALL.search(text):
        raise VerificationError(
            f"{arm.id} only serves: its snippet has no call to repeat",
            "measure it with p3-advisor recommend --task serve",
        )
    return Snippet(
        text=text,
        python=arm.python,
        folders={QUANTISER: pathlib.Path(arm.quantiser).parents[1]} if arm.quantiser else {},
    )


def median_seconds(pair: Pair) -> tuple[float, float] | None:
    """Return the seconds of a typical call of both snippets; None for calls that were not timed."""
    if not pair.rounds:
        return None
    own, other = (
        statistics.median(map(statistics.median, calls)) for calls in zip(*pair.rounds, strict=True)
    )
    return own, other


def reached_speedup(pair: Pair) -> Interval | None:
    seconds = median_seconds(pair)
    if seconds is None:
        return None
    typical = seconds[1] / seconds[0]
    own, other = (min(map(min, calls)) for calls in zip(*pair.rounds, strict=True))
    fastest = other / own
    return Interval(value=typical, low=min(typical, fastest), high=max(typical, fastest))


def classify(
    measured: Interval, reached: Interval | None, tolerance: float, *, busy: bool = False
) -> Result:
    """Return the result; a speed-up may be lower by the share `tolerance`.

    Wrong outputs have reached none. It is slower or faster if typical and fastest calls say so. It
    is undecided where it is as measured and may still be no gain, and on a `busy` machine where it
    is smaller.
    """
    if reached is None:
        return "wrong"
    low, high = bounds(reached)
    least, most = bounds(measured)
    if high < least * (1 - tolerance):
        return "undecided" if busy else "slower"
    if low > most * (1 + tolerance):
        return "faster"
    may_be_none = low <= 1 < measured.value * (1 - tolerance)
    return "undecided" if may_be_none or shows_nothing(measured, tolerance) else "holds"


def shows_nothing(measured: Interval, tolerance: float) -> bool:
    """Return whether a measured speed-up may be a gain as well as a loss beyond the tolerance."""
    least, most = bounds(measured)
    return least * (1 + tolerance) < 1 < most * (1 - tolerance)


def bounds(speedup: Interval) -> tuple[float, float]:
    return speedup.low or speedup.value, speedup.high or speedup.value


def changed_versions(requirements: Sequence[str], installed: Mapping[str, str]) -> dict[str, str]:
    """Return the installed versions of the packages that have another than the pinned one."""
    present = {
        canonicalize_name(name): version.partition("+")[0] for name, version in installed.items()
    }
    pins = (requirement.split("==") for requirement in requirements)
    measured = {name.partition("[")[0]: version for name, version in pins}
    return {
        name: present.get(canonicalize_name(name), "missing")
        for name, version in measured.items()
        if present.get(canonicalize_name(name)) != version
    }


def render(found: Verification) -> str:
    baseline, result = found.baseline, RESULT_TEXTS[found.result]
    lines = [f"{found.arm}, run {found.run_id}, {found.shape.description}: {result}."]
    if found.speedup_reached is not None:
        own, other = map(format_milliseconds, (found.seconds_reached, found.baseline_seconds))
        lines.append(
            f"  {found.speedup_reached.value:.2f}x as fast as {baseline}: {own} ms a call instead "
            f"of {other} ms; the run measured {format_interval(found.speedup)}"
        )
    agree = f"agree with those of {baseline}"
    compared = agree if found.compared else "not compared: they differ from call to call"
    lines.append(f"  outputs: {found.problem or compared}")
    changed = ", ".join(f"{name} is now {now}" for name, now in found.changed_versions.items())
    check, unsteady = found.quiet_check, ""
    if found.speedup_reached is not None:
        low, high = bounds(found.speedup_reached)
        fastest = low if high == found.speedup_reached.value else high
        unsteady = f"{fastest:.2f}x" if high > low * (1 + found.tolerance) else ""
    busy = "; ".join(describe_problem(each, check.activity) for each in check.problems)
    further = {
        "the times of the calls vary; the fastest ones of both give ": unsteady,
        "changed since: ": changed,
        "the machine was busy before, so the speed is uncertain: ": busy,
    }
    lines += [f"  {head}{text}" for head, text in further.items() if text]
    lines += [] if found.holds else [f"Next: {_next_step(found)}"]
    return "\n".join(lines) + "\n"


def _next_step(found: Verification) -> str:
    """Return what to do about a snippet that does not hold, by what differs."""
    again = f"p3-advisor verify {found.run_id} --workflow {found.arm}"
    if found.changed_versions:
        return (
            "install the measured versions, which recipe pins, or measure those of now:"
            " p3-advisor recommend"
        )
    if found.result == "wrong":
        return "do not use its outputs; measure again, which checks them: p3-advisor recommend"
    if shows_nothing(found.speedup, found.tolerance):
        resume = f"p3-advisor resume {found.run_id} --wait-for-quiet 5min"
        return f"measure the speed-up itself again: {resume}"
    if found.quiet_check.problems:
        return f"stop the other work on this machine, then {again}"
    stays = "undecided" if found.result == "undecided" else "slower"
    return f"time it for longer: {again} --seconds 30; if it stays {stays}, p3-advisor recommend"
