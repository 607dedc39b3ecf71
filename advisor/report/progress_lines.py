"""Render events of a run as lines of progress; most events have no line."""

from __future__ import annotations

from collections.abc import Sequence

from advisor.domain import run_events
from advisor.domain.answer import AnswerSummary
from advisor.domain.plan import EAGER, REFERENCE
from advisor.domain.text import MISSING, join_names, write_count, write_speedup
from advisor.report.formatting import describe_check
from probes.events import PhaseStarted
from probes.outcome import Failure, Outcome

#: Phases that take long enough for a line of their own: of arms, and of the reference worker.
SLOW_PHASES = {"import", "build"}
SLOW_REFERENCE_PHASES = {"open", "correctness"}
PHASE_TITLES = {"correctness": "outputs"}


def render_event(event: run_events.LoggedEvent) -> str | None:
    run_event = event.run_event
    match run_event:
        case run_events.ArmsPlanned(plan=plan):
            excluded = write_count(sum(not each.option for each in plan.excluded), "workflow")
            return f"{len(plan.distinct)} arms to measure, {excluded} excluded"
        case run_events.ArmsAdded(added=added, because=because):
            arms = ", ".join(each.id for each in added)
            return f"{arms}: measured too, because {because}"
        case run_events.QuietChecked(check=check, waits=waits):
            return describe_check(check, waits=waits)
        case run_events.RaceOpened(shape=shape, arms=raced):
            return f"{shape.description}: measuring {len(raced)} processes in turn"
        case run_events.RaceClosed(shape=shape, reason=reason):
            return f"{shape.description}: {reason}"
        case run_events.ProvisionalAnswer(answer=answer, waiting=waiting):
            return _render_answer(answer, len(waiting))
        case run_events.Resumed():
            return "resuming the run"
        case run_events.Finished():
            return f"finished after {event.at:.0f} s in all"
        case _:
            return _render_worker_event(run_event)


def describe_other_runs(ids: Sequence[str]) -> str:
    if not ids:
        return ""
    others = f"runs {join_names(ids)} measure" if ids[1:] else f"run {ids[0]} measures"
    return (
        f"{others} on this machine, too, so times are longer and less certain; "
        "--wait-for-quiet 5min waits"
    )


def _render_worker_event(run_event: run_events.RunEvent) -> str | None:
    match run_event:
        case run_events.WorkerReported(
            arm=arm, worker_event=PhaseStarted(phase=phase, shape=shape)
        ) if phase in (SLOW_REFERENCE_PHASES if arm == REFERENCE else SLOW_PHASES):
            what = PHASE_TITLES.get(phase, phase)
            return f"{arm}: {what}" + (f", {shape.description}" if shape is not None else "")
        case run_events.BuildStarted(
            arm=arm, expected_seconds=float(own), expected_seconds_left=float(left)
        ):
            return f"{arm}: builds, expected {own:.0f} s; all builds of this stage {left:.0f} s"
        case run_events.BusyWhileIdle(arm=arm, processors=processors):
            return (
                f"{arm}: uses {processors:.1f} processors while idle, "
                "so it is stopped between its visits"
            )
        case run_events.LoadMeasured(arm=arm, problem=str(problem)):
            return f"{arm}: {problem}"
        case run_events.LoadMeasured(arm=arm, rate=rate, requests=requests, discarded=discarded):
            kept = "; discarded, the load generator fell behind" if discarded else ""
            return f"{arm}: {len(requests)} requests at {rate:.3g}/s{kept}"
        case run_events.StartMeasured(arm=arm, start=start):
            how = f"{start.seconds:.1f} s" if start.seconds is not None else start.failure
            return f"{arm}: starts with {start.title}: {how}"
        case run_events.WorkerEnded(
            arm=arm, outcome=Outcome(failure=Failure(status="model-refused"))
        ) if arm.partition("#")[0] in {EAGER, REFERENCE}:
            return None  # the run ends with the reason
        case run_events.WorkerEnded(arm=arm, outcome=Outcome(failure=Failure() as failure)):
            return f"{arm}: {failure.status}, {failure.reason}"
        case _:
            return None


def _render_answer(answer: AnswerSummary, waiting: int) -> str:
    known = answer.speedup
    speed = write_speedup(known, unfit=not answer.fit, in_words=True) if known else MISSING
    unbuilt = f"{write_count(waiting, 'arm')} to be built"
    left = unbuilt if waiting else "the leaders are measured further"
    return f"so far: {answer.arm}, {speed} as fast as the baseline; {left}"
