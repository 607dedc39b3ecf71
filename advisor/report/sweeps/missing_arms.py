"""Find the arms of a sweep that have no measurement at some of its lengths, and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from advisor.domain.answer import Answer, Status
from advisor.domain.sweep import Lengths, SweepRecord
from advisor.report.sections.unranked import NOT_TRIED

Answers = Mapping[Lengths, Answer]


class MissingAt(msgspec.Struct, frozen=True, kw_only=True):
    """A length at which an arm has no measurement, and why."""

    lengths: Lengths
    status: Status
    reason: str


class MissingArm(msgspec.Struct, frozen=True, kw_only=True):
    """An arm without a measurement at some of the lengths."""

    arm: str
    missing: tuple[MissingAt, ...]


def find_left_out(record: SweepRecord, answers: Answers) -> tuple[MissingArm, ...]:
    """Return the arms that were measured at some lengths of the mix and not at others."""
    counted = {each.lengths: answers[each.lengths] for each in record.mix if each.share > 0}
    return _missing_arms(_measured_arms(counted), counted, record)


def find_missing(record: SweepRecord, answers: Answers) -> tuple[MissingArm, ...]:
    """Return the arms that failed at a length, or were measured at other lengths only.

    Workflows that were not tried at any length are left out.
    """
    failed = [
        each.arm
        for answer in answers.values()
        for each in answer.unmeasured
        if each.status not in {"not-covered", *NOT_TRIED}
    ]
    tried = list(dict.fromkeys([*_measured_arms(answers), *failed]))
    return _missing_arms(tried, answers, record)


def _measured_arms(answers: Answers) -> list[str]:
    names = (arm.arm for answer in answers.values() for arm in answer.scores)
    return list(dict.fromkeys(names))


def _missing_arms(
    arms: Sequence[str], answers: Answers, record: SweepRecord
) -> tuple[MissingArm, ...]:
    """Return those of the arms that have no measurement at a length."""
    missing = {
        arm: tuple(
            found
            for lengths, answer in answers.items()
            if (found := _find_missing(arm, lengths, answer, record)) is not None
        )
        for arm in arms
    }
    return tuple(MissingArm(arm=arm, missing=each) for arm, each in missing.items() if each)


def _find_missing(
    arm: str, lengths: Lengths, answer: Answer, record: SweepRecord
) -> MissingAt | None:
    """Return why an arm has no measurement at a length; None where it has one."""
    if arm in answer.measurements:
        return None
    entry = next((each for each in answer.unmeasured if each.arm == arm), None)
    run = record.run_at(lengths)
    if run is not None and run.limited_to and (entry is None or entry.status == "excluded"):
        reason = "it was left out between two lengths with the same clear answer"
        return MissingAt(lengths=lengths, status="excluded", reason=reason)
    if entry is None:
        return MissingAt(lengths=lengths, status="excluded", reason="it was not in the plan")
    return MissingAt(lengths=lengths, status=entry.status, reason=entry.reason)
