"""What Dynamo counts where it does not capture a model's operators, and why."""

from __future__ import annotations

import collections
import pathlib
import re
import traceback
from collections.abc import Sequence

from torch._dynamo.utils import counters, graph_break_reasons

#: Lines of Dynamo's message about a break: what it does not support, and the call that it met.
EXPLANATION = re.compile(r"^\s*Explanation: (.+?)\.?\s*$", re.MULTILINE)
CONTEXT = re.compile(r"^\s*Developer debug context: (.+?)\s*$", re.MULTILINE)
#: The address of an object, which differs from run to run.
ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def graph_breaks() -> dict[str, int]:
    """Return how often each break of the graph occurred, with the file and line of its cause."""
    placed = collections.Counter(
        f"{where(found.user_stack)}{str(found.reason).splitlines()[0]}"
        for found in graph_break_reasons
    )
    return dict(placed) or {
        str(reason).splitlines()[0]: int(count) for reason, count in _counted().items()
    }


def with_cause(proof: str) -> str:
    """Return the proof that nothing ran compiled, with the first break that Dynamo counts.

    If Dynamo captured nothing at all, the break is the cause.
    """
    if counters["stats"]["calls_captured"]:
        first = next(iter(graph_breaks()), "")
        return f"{proof}; the graph breaks at {first}" if first else proof
    return f"{proof}: {_why_nothing_was_captured()}"


def where(stack: Sequence[traceback.FrameSummary]) -> str:
    """Return the line of the user's code, else that of a library, as `model.py:12: `."""
    line = own_line(stack) or (_line(stack[-1]) if stack else "")
    return f"{line}: " if line else ""


def own_line(stack: Sequence[traceback.FrameSummary]) -> str:
    """Return the innermost frame of the user's code as `model.py:12`; empty if there is none."""
    own = [frame for frame in stack if "site-packages" not in frame.filename]
    return _line(own[-1]) if own else ""


def count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _why_nothing_was_captured() -> str:
    message = ADDRESS.sub("", next(iter(_counted()), ""))
    frames = int(counters["frames"]["total"])
    if not message and not frames:
        return "Dynamo was never called"
    if not message:
        return f"Dynamo captured nothing of the {count(frames, 'function')} that it traced"
    explanation, context = EXPLANATION.search(message), CONTEXT.search(message)
    cause = explanation[1] if explanation else message.splitlines()[0]
    # Dynamo does not keep the stack of a frame that it skips whole.
    lines = [line for found in graph_break_reasons[:1] if (line := own_line(found.user_stack))]
    met = ", ".join([*lines, *([context[1]] if context else [])])
    place = f" at {met}" if met else ""
    return f"Dynamo captured nothing and stopped{place}: {cause}"


def _line(frame: traceback.FrameSummary) -> str:
    return f"{pathlib.Path(frame.filename).name}:{frame.lineno}"


def _counted() -> dict[str, int]:
    """Return Dynamo's counts by message; a frame that it skips whole is not a graph break."""
    found = counters["graph_break"] or counters["unimplemented"]
    return {str(message): int(count) for message, count in found.items()}
