"""The lines of the headline about a server under load, and what the batch probe would have said.

Pure.
"""

from __future__ import annotations

from collections.abc import Mapping

from advisor.domain.question import LoadQuestion
from advisor.domain.serving import ServedArm, ServingResults
from advisor.system.number_format import format_interval, format_number


def write_load_lines(
    advised: str,
    serving: ServingResults | None,
    load: LoadQuestion | None,
    titles: Mapping[str, str],
) -> tuple[str, ...]:
    """Return what the advised server sustains, and how far equal prompts in one batch agree."""
    found = {arm.arm: arm for arm in serving.arms} if serving else {}
    arm = found.get(advised)
    if serving is None or load is None or arm is None or arm.goodput is None:
        return ()
    sustained = (
        f"It serves {format_interval(arm.goodput, unit=' requests/s', decimals=None)}, "
        f"{format_number(arm.tokens_per_second, decimals=0)} tokens/s, with {load.limits}."
    )
    failed = f" {arm.failed} of {arm.requests} requests failed." if arm.failed else ""
    return (sustained + failed, *_batch_line(arm, found, serving, titles))


def _batch_line(
    arm: ServedArm,
    found: Mapping[str, ServedArm],
    serving: ServingResults,
    titles: Mapping[str, str],
) -> tuple[str, ...]:
    """Return what equal prompts in one batch would have advised; empty for a single server."""
    best = found.get(serving.batch_best or "")
    if best is None or len(found) == 1 or arm.batch_tokens_per_second is None:
        return ()
    if best.arm == arm.arm:
        return ("Equal prompts in one batch lead to the same answer.",)
    rate = format_number(best.batch_tokens_per_second, decimals=0)
    own = format_number(arm.batch_tokens_per_second, decimals=0)
    under_load = (
        f"{format_number(best.goodput.value)} requests/s"
        if best.goodput
        else "no rate that meets the limits"
    )
    line = (
        f"Equal prompts in one batch would have led to {titles.get(best.arm, best.arm)} "
        f"({rate} tokens/s, this one {own}); under load it serves {under_load}."
    )
    return (line,)
