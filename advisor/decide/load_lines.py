"""The lines of the headline about a server under load, and what the batch probe would have said.

Pure.
"""

from __future__ import annotations

from collections.abc import Mapping

from advisor.decide.advised_answer import AdvisedAnswer
from advisor.domain.serving import AskedRate, ServedArm, ServingResults
from advisor.system.number_format import (
    format_count,
    format_interval,
    format_milliseconds,
    format_number,
    format_share,
)


def write_load_lines(facts: AdvisedAnswer) -> tuple[str, ...]:
    """Return what the advised server sustains, and how far equal prompts in one batch agree."""
    serving, load = facts.answer.results.serving, facts.answer.question.load
    found = {arm.arm: arm for arm in serving.arms} if serving else {}
    arm = found.get(facts.scored.arm)
    if serving is None or load is None or arm is None or arm.goodput is None:
        return ()
    sustained = (
        f"It serves {format_interval(arm.goodput, unit=' requests/s', decimals=None)}, "
        f"{format_number(arm.tokens_per_second, decimals=0)} tokens/s, with {load.limits}."
    )
    failed = f" {arm.failed} of {arm.requests} requests failed." if arm.failed else ""
    batch = _batch_line(arm, found, serving, facts.titles)
    return (sustained + failed, *_asked_line(arm, load.share), *batch)


def _asked_line(arm: ServedArm, share: float) -> tuple[str, ...]:
    """Return whether one server is enough for the asked rate; empty where none was asked for."""
    asked = arm.asked
    if asked is None:
        return ()
    count = format_count(asked.servers, asked.fewest_servers, asked.most_servers)
    price = f", {format_number(asked.price_per_hour)} per hour" if asked.price_per_hour else ""
    need = {
        "met": f"One server is enough for the asked {asked.rate:g} requests/s",
        "not-met": f"The asked {asked.rate:g} requests/s need {count} such servers",
        "open": f"It is not settled whether one server is enough for the asked {asked.rate:g} "
        f"requests/s; they need {count}",
    }[asked.verdict]
    return (f"{need}{price}. {_asked_latency(asked, share)}",)


def _asked_latency(asked: AskedRate, share: float) -> str:
    level = asked.level
    if level is None or level.ttft_seconds is None:
        each = format_number(asked.rate / asked.servers)
        return f"The latency at {each} requests/s each was not measured."
    itl = (
        f", {format_milliseconds(level.itl_seconds[1])} ms between tokens"
        if level.itl_seconds
        else ""
    )
    rate, met = format_number(level.rate), format_share(level.met)
    return (
        f"At {rate} requests/s each, {met} are within the limits "
        f"({share * 100:g} % must be); 95 % have the first token within "
        f"{format_milliseconds(level.ttft_seconds[1])} ms{itl}."
    )


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
        return ("Batches of equal prompts, without a server, lead to the same answer.",)
    rate = format_number(best.batch_tokens_per_second, decimals=0)
    own = format_number(arm.batch_tokens_per_second, decimals=0)
    under_load = (
        f"{format_number(best.goodput.value)} requests/s"
        if best.goodput
        else "no rate that meets the limits"
    )
    line = (
        "Batches of equal prompts, without a server, would have led to "
        f"{titles.get(best.arm, best.arm)} ({rate} tokens/s, this one {own}); under load it serves "
        f"{under_load}."
    )
    return (line,)
