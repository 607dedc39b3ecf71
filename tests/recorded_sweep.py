"""Store a sweep whose runs have fixed figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import builders
from recorded_runs import SECONDS, make_run

from advisor.domain.sweep import RECORD_SCHEMA, Lengths, MixedLengths, SweepRecord, SweepRun
from advisor.store.store import Store

SWEEP_ID = "sweep-20261121-130000-f1ee"
#: The shares of the mix by input tokens; the outputs of a forward pass do not matter.
SHARES = {32: 0.7, 512: 0.2, 2048: 0.1}
#: By input tokens, how many times as fast as at the shortest length `compiled` is.
FASTER = {32: 1.0, 512: 1.5, 2048: 2.0}


def lengths_of(input_tokens: int) -> Lengths:
    return Lengths(input_tokens=input_tokens, output_tokens=16)


def store_sweep(
    store: Store,
    measured: Sequence[int] = tuple(SHARES),
    started: Sequence[int] = (),
    shares: Mapping[int, float] = SHARES,
) -> SweepRecord:
    """Store a sweep with finished runs at the lengths `measured` and unfinished ones at others."""
    runs = []
    for number, tokens in enumerate((*measured, *started)):
        run_id = f"20261121-13000{number}-0000"
        make_run(
            store,
            finished=tokens in measured,
            run_id=run_id,
            created=f"2026-11-21T13:00:0{number}+00:00",
            question=builders.question(batch_sizes=(1,), input_tokens=tokens, output_tokens=16),
            seconds_of={**SECONDS, "compiled": SECONDS["compiled"] / FASTER[tokens]},
        )
        runs.append(SweepRun(lengths=lengths_of(tokens), run_id=run_id))
    record = SweepRecord(
        schema=RECORD_SCHEMA,
        sweep_id=SWEEP_ID,
        created="2026-11-21T13:00:00+00:00",
        answers={"model": "synthetic/ffn@8x16", "gpu": "cpu"},
        mix=tuple(
            MixedLengths(lengths=lengths_of(tokens), share=share)
            for tokens, share in shares.items()
        ),
        runs=tuple(runs),
    )
    store.sweeps.save(record)
    return record
