"""Decide for the mix of a sweep from the decisions at its lengths."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping

from advisor.domain.constraints import Constraint
from advisor.domain.priorities import Priorities
from advisor.domain.sweep import Lengths, SweepRecord
from advisor.errors import RunFileError, SweepUnfinishedError
from advisor.pipeline.decision import Decision, decide, weigh_and_recommend
from advisor.pipeline.stored.arms import plan_of
from advisor.pipeline.sweeps.mixing import LengthResults, mix_results
from advisor.score import scoring
from advisor.store.store import Store


def decide_lengths(
    record: SweepRecord,
    store: Store,
    *,
    priorities: Priorities | None = None,
    constraints: tuple[Constraint, ...] | None = None,
    rubric: pathlib.Path | None = None,
) -> dict[Lengths, Decision]:
    """Return the decision of each finished run of the sweep; deleted runs are left out.

    Priorities, constraints and a rubric replace those of the runs.
    """
    found = {}
    for run in record.runs:
        if store.has_run(run.run_id):
            decision = decide(
                store.find(run.run_id),
                priorities=priorities,
                constraints=constraints,
                rubric=rubric,
            )
            if decision.state.finished:
                found[run.lengths] = decision
    return found


def decide_mix(record: SweepRecord, decisions: Mapping[Lengths, Decision]) -> Decision:
    """Return the decision for the mix; its question and machine are those of the widest plan.

    Raise `SweepUnfinishedError` if a length with a share has no finished run, and `RunFileError`
    if the runs were changed so that they do not belong together.
    """
    counted = [each for each in record.mix if each.share > 0]
    missing = [each.lengths for each in counted if each.lengths not in decisions]
    if missing:
        names = ", ".join(f"{each.input_tokens}/{each.output_tokens}" for each in missing)
        raise SweepUnfinishedError(
            f"there is no answer for the mix: not measured yet: {names} (tokens in/out)",
            f"p3-advisor resume {record.sweep_id}",
        )
    own = [decisions[each.lengths] for each in counted]
    widest = max(own, key=lambda decision: len(plan_of(decision.state).arms))
    if len({decision.results.baseline for decision in own}) > 1:
        raise RunFileError(
            f"the runs of {record.sweep_id} have different baselines", "measure the sweep again"
        )
    results = mix_results(
        [LengthResults(each.share, decisions[each.lengths].results) for each in counted]
    )
    return weigh_and_recommend(
        widest.header,
        widest.state,
        results,
        scoring.rate_arms(results, widest.header.catalogue),
        scope=f", for a mix of {len(counted)} lengths" if len(counted) > 1 else "",
    )
