"""Find the arms of a sweep that have no measurement at some of its lengths, and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from advisor.domain.sweep import Lengths, SweepRecord
from advisor.report.documents.document import RunDocument
from advisor.report.documents.workflow_entry import Status, WorkflowEntry
from advisor.report.sections.unranked import NOT_TRIED

Entries = Mapping[Lengths, Sequence[WorkflowEntry]]


class MissingAt(msgspec.Struct, frozen=True, kw_only=True):
    """A length at which an arm has no measurement, and why."""

    lengths: Lengths
    status: Status
    reason: str


class MissingArm(msgspec.Struct, frozen=True, kw_only=True):
    """An arm without a measurement at some of the lengths."""

    arm: str
    missing: tuple[MissingAt, ...]


def find_left_out(
    record: SweepRecord, documents: Mapping[Lengths, RunDocument]
) -> tuple[MissingArm, ...]:
    """Return the arms that were measured at some lengths of the mix and not at others."""
    counted = {
        each.lengths: documents[each.lengths].workflows for each in record.mix if each.share > 0
    }
    return _missing_arms(_measured_arms(counted), counted, record)


def find_missing(
    record: SweepRecord, documents: Mapping[Lengths, RunDocument]
) -> tuple[MissingArm, ...]:
    """Return the arms that failed at a length, or were measured at other lengths only.

    Workflows that were not tried at any length are left out.
    """
    by_length = {lengths: document.workflows for lengths, document in documents.items()}
    not_failed = {"completed", "not-covered", *NOT_TRIED}
    failed = [
        entry.arm
        for entries in by_length.values()
        for entry in entries
        if entry.status not in not_failed
    ]
    tried = list(dict.fromkeys([*_measured_arms(by_length), *failed]))
    return _missing_arms(tried, by_length, record)


def _measured_arms(by_length: Entries) -> list[str]:
    names = (
        entry.arm
        for entries in by_length.values()
        for entry in entries
        if entry.status == "completed"
    )
    return list(dict.fromkeys(names))


def _missing_arms(
    arms: Sequence[str], by_length: Entries, record: SweepRecord
) -> tuple[MissingArm, ...]:
    """Return those of the arms that have no measurement at a length."""
    missing = {
        arm: tuple(
            found
            for lengths, entries in by_length.items()
            if (found := _find_missing(arm, lengths, entries, record)) is not None
        )
        for arm in arms
    }
    return tuple(MissingArm(arm=arm, missing=each) for arm, each in missing.items() if each)


def _find_missing(
    arm: str, lengths: Lengths, entries: Sequence[WorkflowEntry], record: SweepRecord
) -> MissingAt | None:
    """Return why an arm has no measurement at a length; None where it has one."""
    entry = next((each for each in entries if each.arm == arm), None)
    if entry is not None and entry.status == "completed":
        return None
    run = record.run_at(lengths)
    if run is not None and run.limited_to and (entry is None or entry.status == "excluded"):
        reason = "it was left out between two lengths with the same clear answer"
        return MissingAt(lengths=lengths, status="excluded", reason=reason)
    if entry is None:
        return MissingAt(lengths=lengths, status="excluded", reason="it was not in the plan")
    return MissingAt(lengths=lengths, status=entry.status, reason=entry.reason or "")
