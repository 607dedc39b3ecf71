"""`verify`: run the snippet of an arm as it is printed, and compare it with its measurement."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence

from packaging.utils import canonicalize_name

from advisor.ask.context import Context
from advisor.decide.fastest_calls import compare_in_turns
from advisor.domain.answer import Answer, RankedArm
from advisor.domain.errors import VerificationError
from advisor.domain.machine import Doubt
from advisor.domain.measurement import Interval
from advisor.domain.snippet import SCHEMA, Result, Verification, bounds, shows_nothing
from advisor.execute.execution import refuse_foreign, run_config_of
from advisor.execute.quiet import activity_reader, check_now
from advisor.probing.detection import detect_gpus
from advisor.probing.run_config import RunConfig
from advisor.probing.snippets import PairedCalls, run_pair
from advisor.recipes.arm_recipe import compose_pair
from advisor.store.runs import Run


def verify(
    answer: Answer,
    run: Run,
    ranked: RankedArm,
    *,
    tolerance: float,
    seconds: float,
    context: Context,
    tell: Callable[[str], None] = lambda _line: None,
) -> Verification:
    """Run the snippet of an arm and the baseline's, and compare their outputs and their speed.

    `seconds` is the time for the calls of each. `tell` gets a line about what comes next. Raise
    `VerificationError` where a snippet cannot be run.
    """
    refuse_baseline(answer, ranked)
    config = config_for_snippets(run, context)
    header, pair = config.header, compose_pair(answer, run, ranked)
    cell = pair.cell
    read = activity_reader(header.machine, header.question.gpus, context)
    check = check_now(read, header.catalogue.presets.quiet)
    calls = run_pair(pair, config, seconds, tell)
    reached, doubt = compare(calls, config)
    is_busy = bool(check.problems)
    result = classify(cell.speedup, reached, tolerance, busy=is_busy, doubt=doubt is not None)
    baseline = [statistics.median(other) for _, other in calls.rounds]
    baseline_seconds = statistics.median(baseline) if baseline else None
    return Verification(
        schema=SCHEMA,
        run_id=header.run_id,
        arm=pair.planned.id,
        baseline=run.state().plan.baseline.id,
        shape=cell.shape,
        result=result,
        holds=result in {"holds", "faster"},
        tolerance=tolerance,
        problem=calls.problem,
        compared=pair.allowed is not None,
        speedup=cell.speedup,
        speedup_reached=reached,
        doubt=doubt,
        seconds=cell.seconds.median,
        seconds_reached=baseline_seconds / reached.value if baseline_seconds and reached else None,
        baseline_seconds=baseline_seconds,
        changed_versions=changed_versions(pair.requirements, calls.versions),
        quiet_check=check,
    )


def refuse_baseline(answer: Answer, ranked: RankedArm) -> None:
    """Raise `VerificationError` for the baseline, which would be compared with itself."""
    if ranked.arm != answer.results.baseline:
        return
    others = [each for each in answer.ranking if each.arm != ranked.arm]
    fastest = max(others, key=lambda each: each.speedup.value, default=None)
    step = f"verify {answer.run_id} {fastest.arm}" if fastest else "recommend"
    raise VerificationError(
        f"{ranked.arm} is the baseline, so there is nothing to compare it with",
        f"p3-advisor {step} compares another arm with it",
    )


def config_for_snippets(run: Run, context: Context) -> RunConfig:
    """Return the configuration; raise an error for an imported run or a missing GPU."""
    header = run.header()
    refuse_foreign(header)
    gpus = header.question.gpus
    present = {gpu.uuid for gpu in detect_gpus()[0]} if gpus else set()
    if not present.issuperset(gpus):
        raise VerificationError(
            f"{header.device_name}, which the run was measured on, is not in this machine",
            "verify it there, or measure here: p3-advisor recommend",
        )
    return run_config_of(run, header, context)


def compare(calls: PairedCalls, config: RunConfig) -> tuple[Interval | None, Doubt | None]:
    """Return the speed of the first code over the second, and why it is only a range."""
    if not calls.rounds:
        return None, None
    margin = config.header.catalogue.presets.noise.fastest_margin
    return compare_in_turns(calls.rounds, margin, busy=calls.busy)


def classify(
    measured: Interval,
    reached: Interval | None,
    tolerance: float,
    *,
    busy: bool = False,
    doubt: bool = False,
) -> Result:
    """Return the result; a speed-up may be lower by the share `tolerance`.

    Wrong outputs have reached none. It is undecided where it is as measured and may still be no
    gain, on a `busy` machine where it is another one, and where a range in `doubt` says too little.
    """
    if reached is None:
        return "wrong"
    low, high = bounds(reached)
    least, most = bounds(measured)
    is_slower, is_faster = high < least * (1 - tolerance), low > most * (1 + tolerance)
    if is_slower or is_faster:
        return "undecided" if busy or doubt else "slower" if is_slower else "faster"
    if doubt and (reached.is_range() or low < least * (1 - tolerance)):
        return "undecided"
    may_be_none = low <= 1 < measured.value * (1 - tolerance)
    return "undecided" if may_be_none or shows_nothing(measured, tolerance) else "holds"


def changed_versions(requirements: Sequence[str], installed: Mapping[str, str]) -> dict[str, str]:
    present = {
        canonicalize_name(name): version.partition("+")[0] for name, version in installed.items()
    }
    pins = (requirement.split("==") for requirement in requirements)
    measured = {name.partition("[")[0]: version for name, version in pins}
    found = {name: present.get(canonicalize_name(name), "missing") for name in measured}
    return {name: version for name, version in found.items() if version != measured[name]}
