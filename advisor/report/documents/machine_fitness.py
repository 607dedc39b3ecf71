"""Whether the figures of a document can be used, from what it states about the machine."""

from __future__ import annotations

from advisor.recommendation.trust import MOST_UNFIT, UNFIT_NOISE
from advisor.report.documents.document import RunDocument


def was_machine_unfit(document: RunDocument) -> bool:
    """Return whether most visits were made on a busy machine, or equal workers differ by half.

    A decision can be clear all the same, such as that of a run with a single arm.
    """
    if document.race is None:
        return False
    visits, noise_floor = document.race.visits, document.race.noise_floor or 0.0
    return noise_floor > UNFIT_NOISE or (
        visits is not None and visits.unfit > MOST_UNFIT * max(visits.made, 1)
    )
