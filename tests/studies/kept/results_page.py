"""Render the tables of `docs/results.md`: what the kept runs asked, and what is answered."""

from __future__ import annotations

import re

import msgspec
from kept.runs import NAMES, decide_run, read_run
from tabulate import tabulate

from advisor.domain.answer import Answer, AnswerSummary
from advisor.domain.errors import UserError
from advisor.domain.model import short_name

HEAD = ["question", "asked", "answer", "speed-up (95 %)", "word", "trust", "measured"]
#: Percent of the three Ps.
DEFAULT_PERFORMANCE = 40
MARKED = re.compile(r"(<!-- answers: (GPU|CPU) -->\n).*?(<!-- end -->)", re.DOTALL)


def render(page: str) -> str:
    """Return the page with the present answers between its marks, one line for each kept run."""
    lines: dict[str, list[list[str]]] = {"GPU": [], "CPU": []}
    for name in NAMES:
        try:
            answer = decide_run(name)
        except UserError:
            answer = msgspec.structs.replace(read_run(name), recommendation=None)
        gpu = answer.machine.find_gpu(answer.question.gpu)
        link = f"[{answer.created[:10]}](../tests/stacks/evidence/{name}.json)"
        lines["GPU" if gpu else "CPU"].append([*describe(answer), link])
    tables = {
        kind: tabulate(sorted(rows), HEAD, tablefmt="pipe", disable_numparse=True)
        for kind, rows in lines.items()
    }
    return MARKED.sub(lambda found: f"{found[1]}\n{tables[found[2]]}\n\n{found[3]}", page)


def describe(answer: Answer) -> list[str]:
    """Return question, conditions, answer, gain, word and trust of a run."""
    question, summary = answer.question, AnswerSummary.of(answer)
    gpu = answer.machine.find_gpu(question.gpu)
    device = gpu.name.removeprefix("NVIDIA ").split()[0] if gpu else ""
    number = f"{question.devices_per_model} x " if question.devices_per_model > 1 else ""
    missing = answer.unmeasured_shapes
    measured = [shape for shape in question.shapes if shape not in missing] or question.shapes
    sizes = ", ".join(dict.fromkeys(str(shape.batch_size) for shape in measured))
    shapes = "" if question.load is not None else f", batch {sizes}"
    asked = ", ".join(filter(None, [f"{number}{device}", str(question.dtype)])) + shapes
    if question.priorities.performance != DEFAULT_PERFORMANCE:
        asked += f", performance {question.priorities.performance:g} %"
    task = {"generate": ", text", "serve": ", served"}.get(question.task, "")
    arm, gain = summary.arm, summary.speedup
    shown = "-"
    if gain is not None and arm != answer.results.baseline:
        interval = f"{gain.low:.2f} to {gain.high:.2f}"
        shown = f"{gain.value:.2f}x ({interval})" if summary.fit else interval
    word = summary.decision_word or ("alone" if arm else "no answer")
    named = f"`{arm}`" if arm else "-"
    name = f"`{short_name(question.model)}`{task}"
    return [name, asked, named, shown, word, summary.trust or "-"]
