"""Facts that differ between two runs; some of them make speeds incomparable."""

from __future__ import annotations

from typing import Any

import msgspec

from advisor.report.documents.document import RunDocument

#: Stands for a fact that one of the runs does not have.
ABSENT = "not there"


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """A fact that differs between the runs; a decisive one makes speeds incomparable."""

    what: str
    before: str
    after: str
    decisive: bool


def find_differences(before: RunDocument, after: RunDocument) -> tuple[Difference, ...]:
    """Return the facts that differ, the decisive ones first."""
    pairs = (
        (_decisive_facts(before), _decisive_facts(after), True),
        (_context_facts(before), _context_facts(after), False),
    )
    return tuple(
        Difference(
            what=name,
            before=first.get(name, ABSENT),
            after=second.get(name, ABSENT),
            decisive=is_decisive,
        )
        for first, second, is_decisive in pairs
        for name in dict.fromkeys([*first, *second])
        if first.get(name, ABSENT) != second.get(name, ABSENT)
    )


def software_of(arm: str, document: RunDocument) -> dict[str, str]:
    """Return the versions and settings of an arm; empty if it was not measured."""
    return next(
        ({**entry.versions, **entry.settings} for entry in document.workflows if entry.arm == arm),
        {},
    )


def _decisive_facts(document: RunDocument) -> dict[str, str]:
    """Return the facts that must be equal for speeds to be compared."""
    question, cpu = document.question, document.machine.cpu
    return {
        "model": _join_fields(question.model),
        "task": question.task,
        "precision": question.dtype,
        "batch sizes": ", ".join(map(str, question.batch_sizes)),
        "input tokens": str(question.input_tokens),
        "output tokens": str(question.output_tokens),
        **_load_facts(document),
        "device": document.device_name,
        "usable processors": str(cpu.usable_processors) if question.device == "cpu" else "",
    }


def _load_facts(document: RunDocument) -> dict[str, str]:
    """Return the lengths of the requests to servers, and their limits; empty for other tasks."""
    load = document.question.load
    if load is None:
        return {}
    lengths = (f"{each.input_tokens} + {each.output_tokens}" for each in load.lengths)
    return {"request lengths": ", ".join(lengths), "limits": load.limits}


def _context_facts(document: RunDocument) -> dict[str, str]:
    """Return the facts that may explain a difference in speed."""
    question, machine = document.question, document.machine
    gpu = next((gpu for gpu in machine.gpu if gpu.uuid == question.gpu), None)
    races = document.race.by_batch_size if document.race else ()
    return {
        "run": "finished" if document.finished else "not finished",
        "measured batch sizes": ", ".join(str(race.batch_size) for race in races) or "none",
        "p3-advisor": document.advisor_version,
        "rubric": document.rubric,
        "priorities": _join_fields(question.priorities),
        "budget": question.budget.name,
        "seed": str(question.seed),
        "driver": gpu.driver if gpu else "",
        "GPU": gpu.uuid if gpu else "",
        "kernel": machine.kernel,
        "Python": machine.software.version,
        **{
            f"{entry.arm}: {name}": value
            for entry in document.workflows
            for name, value in software_of(entry.arm, document).items()
        },
    }


def _join_fields(struct: msgspec.Struct) -> str:
    fields: dict[str, Any] = msgspec.to_builtins(struct)
    return ", ".join(f"{name} {value}" for name, value in fields.items())
