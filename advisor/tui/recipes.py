"""The code of an arm, as the run stores it: the lines that its worker ran."""

from __future__ import annotations

from advisor.domain.state import RunState


def recipe_of(state: RunState, arm: str) -> str | None:
    """Return the arm's code with what has to be installed for it; None for a run that stores none."""
    for process in reversed(state.processes.get(arm, ())):
        stored = getattr(process, "recipe", None)
        if stored is not None:
            needed = "".join(f"# pip install {requirement}\n" for requirement in stored.requirements)
            return needed + "\n".join(stored.imports) + "\n\n" + str(stored.source)
    return None
