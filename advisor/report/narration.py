"""One line of text for what happens in a run; most happenings are not worth one."""

from __future__ import annotations

from advisor.domain.outcome import Completed
from advisor.domain.plan import REFERENCE
from advisor.domain.run_events import (
    BusyWhileIdle,
    Ended,
    Finished,
    LoggedEvent,
    Planned,
    RaceClosed,
    RaceOpened,
    Resumed,
    Surveyed,
    WorkerReported,
)
from advisor.domain.worker_events import PhaseStarted

#: Phases a user waits for; the others pass too quickly to be told.
TOLD_PHASES = {"import", "build"}


def tell(event: LoggedEvent) -> str | None:
    """Return the line for `event`, without a line break, or None."""
    run_event = event.run_event
    match run_event:
        case Planned(plan=plan):
            measured = sum(arm.duplicate_of is None for arm in plan.arms)
            return f"{measured} arms to measure, {len(plan.excluded)} workflows left out"
        case WorkerReported(arm=arm, said=PhaseStarted(phase=phase, batch_size=size)) if (
            phase in TOLD_PHASES and arm != REFERENCE
        ):
            return f"{arm}: {phase}" + (f", batch size {size}" if size is not None else "")
        case BusyWhileIdle(arm=arm, processors=processors):
            return f"{arm}: keeps {processors:.1f} processors busy while it waits, so it is stopped between its turns"
        case Ended(arm=arm, outcome=outcome):
            return (
                None
                if isinstance(outcome, Completed)
                else f"{arm}: {_status(outcome)}, {outcome.reason}"
            )
        case RaceOpened(batch_size=size, arms=arms):
            return f"measuring batch size {size}: {len(arms)} processes in turn"
        case RaceClosed(batch_size=size, reason=reason):
            return f"batch size {size}: {reason}"
        case Surveyed(workflow=workflow, model=model, verdict=verdict, reason=reason) if (
            run_event.run is None
        ):
            return f"survey: {workflow} on {model}: {verdict}" + (f", {reason}" if reason else "")
        case Resumed():
            return "going on where the run had stopped"
        case Finished():
            return f"done after {event.at:.0f} s"
        case _:
            return None


def _status(outcome: object) -> str:
    return str(getattr(outcome, "__struct_config__").tag)  # noqa: B009 - msgspec gives every tagged struct one
