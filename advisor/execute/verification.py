"""Verify that the snippet of an arm returns right outputs and reaches the measured speed-up."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from packaging.utils import canonicalize_name

from advisor.ask.detection import detect_gpus
from advisor.context import Context
from advisor.domain.measurement import Interval
from advisor.domain.run_state import Header
from advisor.domain.snippet import SCHEMA, Result, SnippetPair, Verification, bounds, shows_nothing
from advisor.errors import VerificationError
from advisor.execute.execution import refuse_imported, run_config_of
from advisor.execute.quiet import activity_reader, check_now
from advisor.probing.run_config import RunConfig
from advisor.probing.snippets import run_pair
from advisor.store.runs import Run


def verify(
    run: Run,
    compose: Callable[[], SnippetPair],
    *,
    tolerance: float,
    seconds: float,
    context: Context,
    tell: Callable[[str], None] = lambda _line: None,
) -> Verification:
    """Run the snippet of an arm and the baseline's, and compare their outputs and their speed.

    `compose` returns both snippets. `seconds` is the time for the calls of each. `tell` gets a line
    about what comes next. Raise `VerificationError` where a snippet cannot be run.
    """
    config = config_for_snippets(run, context)
    header, pair = config.header, compose()
    cell = pair.cell
    read = activity_reader(header.machine, header.question.gpus, context)
    check = check_now(read, header.catalogue.presets.quiet)
    calls = run_pair(pair, config, seconds, tell)
    typical, reached = calls.seconds, calls.speedup
    result = classify(cell.speedup, reached, tolerance, busy=bool(check.problems))
    return Verification(
        schema=SCHEMA,
        run_id=header.run_id,
        arm=pair.arm.id,
        baseline=run.state().plan.baseline.id,
        shape=cell.shape,
        result=result,
        holds=result in {"holds", "faster"},
        tolerance=tolerance,
        problem=calls.problem,
        compared=pair.allowed is not None,
        speedup=cell.speedup,
        speedup_reached=reached,
        seconds=cell.seconds.median,
        seconds_reached=typical[0] if typical else None,
        baseline_seconds=typical[1] if typical else None,
        changed_versions=changed_versions(pair.requirements, calls.versions),
        quiet_check=check,
    )


def config_for_snippets(run: Run, context: Context) -> RunConfig:
    """Return the configuration of a run whose code is run again; raise an error if it is not."""
    header = run.header()
    refuse_imported(header)
    _refuse_absent_gpu(header)
    return run_config_of(run, header, context)


def _refuse_absent_gpu(header: Header) -> None:
    gpus = header.question.gpus
    present = {gpu.uuid for gpu in detect_gpus()[0]} if gpus else set()
    if not present.issuperset(gpus):
        raise VerificationError(
            f"{header.device}, which the run was measured on, is not in this machine",
            "verify it there, or measure here: p3-advisor recommend",
        )


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
