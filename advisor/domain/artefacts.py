"""Arms that run the same artefact share its faults."""

from __future__ import annotations

from advisor.domain.run_state import RunState


def varying_sibling(state: RunState, arm: str) -> str | None:
    """Return another arm that runs the same artefact and whose outputs vary; None without one."""
    arms = {each.id: each for each in state.plan.arms} if state.plan else {}
    own = arms.get(arm)
    if own is None or not own.artefact:
        return None
    return next(
        (
            other.id
            for other in arms.values()
            if other.id != arm
            and (other.workflow, other.artefact) == (own.workflow, own.artefact)
            and any(
                process.failed_with("nondeterministic")
                for process in state.processes.get(other.id, ())
            )
        ),
        None,
    )
