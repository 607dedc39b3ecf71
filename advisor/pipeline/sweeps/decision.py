"""Decide for the mix of a sweep from the answers at its lengths."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping

import msgspec

from advisor.domain.answer import Answer
from advisor.domain.catalogue import Catalogue
from advisor.domain.constraints import Constraint
from advisor.domain.priorities import Priorities
from advisor.domain.sweep import Lengths, SweepRecord
from advisor.errors import RunFileError, SweepUnfinishedError
from advisor.pipeline.decision import decide, decide_again, with_rubric
from advisor.pipeline.sweeps.mixing import LengthResults, mix_results
from advisor.store.store import Store


def decide_lengths(
    record: SweepRecord,
    store: Store,
    *,
    priorities: Priorities | None = None,
    constraints: tuple[Constraint, ...] | None = None,
    rubric: pathlib.Path | None = None,
) -> dict[Lengths, Answer]:
    """Return the answer of each finished run of the sweep; deleted runs are left out.

    Priorities, constraints and a rubric replace those of the runs.
    """
    found = {}
    for each in record.runs:
        if store.has_run(each.run_id):
            run = store.find(each.run_id)
            answer = decide(run, priorities=priorities, constraints=constraints, rubric=rubric)
            if answer.finished:
                found[each.lengths] = answer
    return found


def decide_mix(
    record: SweepRecord,
    answers: Mapping[Lengths, Answer],
    catalogue: Catalogue | None,
) -> Answer:
    """Return the answer for the mix; its question and machine are those of the widest plan.

    Raise `SweepUnfinishedError` if a length with a share has no finished run, and `RunFileError`
    if the runs were changed so that they do not belong together.
    """
    counted = [each for each in record.mix if each.share > 0]
    missing = [each.lengths for each in counted if each.lengths not in answers]
    if missing or catalogue is None:
        names = ", ".join(f"{each.input_tokens}/{each.output_tokens}" for each in missing)
        raise SweepUnfinishedError(
            f"there is no answer for the mix: not measured yet: {names} (tokens in/out)",
            f"p3-advisor resume {record.sweep_id}",
        )
    own = [answers[each.lengths] for each in counted]
    widest = max(own, key=_count_planned)
    if len({answer.results.baseline for answer in own}) > 1:
        raise RunFileError(
            f"the runs of {record.sweep_id} have different baselines", "measure the sweep again"
        )
    results = mix_results(
        [LengthResults(each.share, answers[each.lengths].results) for each in counted]
    )
    return decide_again(
        msgspec.structs.replace(widest, results=results),
        catalogue,
        scope=f", for a mix of {len(counted)} lengths" if len(counted) > 1 else "",
    )


def _count_planned(answer: Answer) -> int:
    return len(answer.scores) + sum(each.option is not None for each in answer.unmeasured)


def catalogue_of(
    answers: Mapping[Lengths, Answer], store: Store, rubric: pathlib.Path | None = None
) -> Catalogue | None:
    """Return the catalogue of the runs of a sweep; None without a finished one."""
    for answer in answers.values():
        return with_rubric(store.find(answer.run_id).header().catalogue, rubric)
    return None
