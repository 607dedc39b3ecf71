"""Measure whether a display and the GPU poller slow timed calls down.

The baseline and its duplicate are timed with and without the display. The command line passes
screens that replay a recorded run, the terminal program its own display.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import pathlib
import statistics
import tempfile
from collections.abc import Iterator, Mapping, Sequence

from advisor.context import Context
from advisor.doctor.findings import OVERHEAD_NAME, Finding
from advisor.doctor.replay_screens import ReplayScreens
from advisor.pipeline.baseline_pair import BaselinePair, open_baseline_pair, time_pair
from advisor.pipeline.draft import prepare
from advisor.pipeline.execution import execute
from advisor.question.answers import Answers
from advisor.statistics.disturbance import (
    Condition,
    Effect,
    Pair,
    estimate_effect,
    sample_in_rounds,
)
from advisor.store.store import Store
from advisor.system.number_format import format_share

#: A small model, whose short calls show a disturbance best.
MODEL = "synthetic/ffn@256x1024"
ROUNDS = 12
#: Largest half-width of the interval of the change that permits a conclusion.
MAX_HALF_WIDTH = 0.05
UNDISTURBED = "undisturbed"


def measure_display_overhead(
    python: str,
    gpu: str,
    context: Context,
    displays: Mapping[str, Condition],
    *,
    rounds: int = ROUNDS,
) -> Finding:
    """Time calls without and with each of the `displays`; store nothing.

    The names of the displays complete the phrase "a call takes longer with ...". Raise the
    `UserError` that prevents the timing.
    """
    with tempfile.TemporaryDirectory() as home:
        own_context = dataclasses.replace(context, store=Store(pathlib.Path(home)))
        with open_baseline_pair(_small_question(python, gpu), own_context) as pair:
            pairs = _time_with_displays(pair, displays, rounds)
    poller = " and the GPU poller" if pair.gpu_monitor else ""
    seconds = math.exp(statistics.median(baseline for baseline, _ in pairs[UNDISTURBED]))
    effects = {
        f"{name}{poller}": estimate_effect(pairs[UNDISTURBED], pairs[name]) for name in displays
    }
    return conclude(effects, seconds)


def measure_replay_overhead(python: str, context: Context, *, rounds: int = ROUNDS) -> Finding:
    """Record a small run, then measure the overhead of the screens that replay it."""
    with tempfile.TemporaryDirectory() as home:
        own_context = dataclasses.replace(context, store=Store(pathlib.Path(home)))
        recorded = prepare(_small_question(python, ""), own_context)
        for _ in execute(recorded, own_context):
            pass
        with ReplayScreens(recorded).started() as screens:
            displays = {"the screens": screens.drawing}
            return measure_display_overhead(python, "", context, displays, rounds=rounds)


def conclude(effects: Mapping[str, Effect], seconds: float) -> Finding:
    """Return the finding from the effect of each display on a call of `seconds`."""
    changes = ", ".join(f"{effect} with {name}" for name, effect in effects.items())
    noise = max(effect.noise for effect in effects.values())
    what = (
        f"the time of a call of {seconds * 1e3:.3g} ms changes by {changes}; "
        f"noise floor {format_share(noise, 1)}"
    )
    too_noisy = [
        effect for effect in effects.values() if effect.high - effect.low > 2 * MAX_HALF_WIDTH
    ]
    slower = [effect for effect in effects.values() if effect.low > 0 and effect.value > noise]
    if any(effect not in too_noisy for effect in slower):
        return Finding(
            name=OVERHEAD_NAME,
            status="warn",
            what=f"{what}: the display slows timed calls down",
            fix="measure with --json or --plain and view the results afterwards",
        )
    if too_noisy:
        return Finding(
            name=OVERHEAD_NAME,
            status="warn",
            what=f"{what}: too noisy to conclude",
            fix="end other work and measure again",
        )
    return Finding(name=OVERHEAD_NAME, status="ok", what=f"{what}: no measurable effect")


def _small_question(python: str, gpu: str) -> Answers:
    return Answers(
        python=python,
        gpu=gpu,
        model=MODEL,
        batch_sizes="1",
        workflows="pytorch-eager",
        budget="5",
    )


def _time_with_displays(
    pair: BaselinePair, displays: Mapping[str, Condition], rounds: int
) -> dict[str, Sequence[Pair]]:
    """Return log seconds by condition; the GPU poller runs with every display."""

    @contextlib.contextmanager
    def with_poller(display: Condition) -> Iterator[None]:
        with display(), pair.conditions_monitor.running():
            yield

    conditions: dict[str, Condition] = {UNDISTURBED: contextlib.nullcontext}
    for name, display in displays.items():
        conditions[name] = lambda display=display: with_poller(display)  # type: ignore[misc]
    samples = sample_in_rounds(
        conditions,
        lambda _, number: time_pair(pair.session, pair.arms, max(pair.batch_sizes), number),
        rounds,
    )
    return {name: [each.log_seconds for each in values] for name, values in samples.items()}
