"""Facts that differ between two runs; some of them make speeds incomparable."""

from __future__ import annotations

import msgspec

from advisor.domain.answer import Answer
from advisor.domain.model import Model, without_directories

ABSENT = "not there"
#: Fields of a model that are its configuration, which is too long to show, or follow from it.
CONFIGURATION = ("config", "parameters")


class Difference(msgspec.Struct, frozen=True):
    """A fact that differs between the runs; a decisive one makes speeds incomparable."""

    what: str
    before: str
    after: str
    decisive: bool


def find_differences(before: Answer, after: Answer) -> tuple[Difference, ...]:
    """Return the facts that differ, the decisive ones first."""
    pairs = (
        (_decisive_facts(before), _decisive_facts(after), True),
        (_context_facts(before), _context_facts(after), False),
        (_arm_facts(before, after), _arm_facts(after, before), False),
    )
    models = [without_directories(each.question.model) for each in (before, after)]
    return _model_differences(*models) + tuple(
        Difference(name, first.get(name, ABSENT), second.get(name, ABSENT), is_decisive)
        for first, second, is_decisive in pairs
        for name in dict.fromkeys([*first, *second])
        if first.get(name, ABSENT) != second.get(name, ABSENT)
    )


def _model_differences(before: Model, after: Model) -> tuple[Difference, ...]:
    """Return how the models differ: their names, else the fields that differ."""
    if before == after:
        return ()
    if before.name != after.name:
        return (Difference("model", before.name, after.name, decisive=True),)
    first, second = msgspec.to_builtins(before), msgspec.to_builtins(after)
    differing = [
        name
        for name in dict.fromkeys([*first, *second])
        if first.get(name) != second.get(name) and name not in CONFIGURATION
    ]
    texts = [
        ", ".join([before.name, *(f"{name} {fields.get(name, ABSENT)}" for name in differing)])
        for fields in (first, second)
    ]
    has_other = any(first.get(name) != second.get(name) for name in CONFIGURATION)
    other = ", another configuration" if has_other else ""
    return (Difference("model", texts[0], texts[1] + other, decisive=True),)


def software_of(arm: str, answer: Answer) -> dict[str, str]:
    measured = answer.results.by_arm.get(arm)
    return {**measured.versions, **measured.settings} if measured else {}


def _decisive_facts(answer: Answer) -> dict[str, str]:
    question, cpu = answer.question, answer.machine.cpu
    return {
        "task": question.task,
        "precision": question.dtype,
        "batch sizes": ", ".join(map(str, question.batch_sizes)),
        "input tokens": ", ".join(str(each.input_tokens) for each in question.lengths),
        "output tokens": ", ".join(str(each.output_tokens) for each in question.lengths),
        "shares of lengths": ", ".join(f"{each.share:.3g}" for each in question.lengths),
        **_load_facts(answer),
        "device": answer.device_name,
        "usable processors": str(cpu.usable_processors) if question.device == "cpu" else "",
    }


def _load_facts(answer: Answer) -> dict[str, str]:
    load = answer.question.load
    if load is None:
        return {}
    lengths = (f"{each.input_tokens} + {each.output_tokens}" for each in load.lengths)
    return {"request lengths": ", ".join(lengths), "limits": load.limits}


def _context_facts(answer: Answer) -> dict[str, str]:
    """Return the facts that may explain a difference in speed."""
    question, machine = answer.question, answer.machine
    gpu, races = machine.find_gpu(question.gpu), answer.results.races
    weights = msgspec.structs.asdict(question.priorities)
    return {
        "run": "finished" if answer.finished else "not finished",
        "measured batch sizes": ", ".join(str(race.shape) for race in races) or "none",
        "p3-advisor": answer.advisor_version,
        "rubric": answer.rubric,
        "priorities": ", ".join(f"{name} {weight}" for name, weight in weights.items()),
        "budget": question.budget.name,
        "workflows": ", ".join(question.workflows) or "all that apply",
        "left out": ", ".join(question.leave_out) or "none",
        "seed": str(question.seed),
        "driver": gpu.driver if gpu else "",
        "GPU": gpu.uuid if gpu else "",
        "kernel": machine.kernel,
        "Python": machine.software.version,
    }


def _arm_facts(answer: Answer, other: Answer) -> dict[str, str]:
    """Return versions and settings of the arms of both runs, and which arms only this one has."""
    facts: dict[str, str] = {}
    for scored in answer.scores:
        software = software_of(scored.arm, answer)
        if software and not software_of(scored.arm, other):
            facts[scored.arm] = "measured"
        else:
            facts |= {f"{scored.arm}: {name}": value for name, value in software.items()}
    return facts
