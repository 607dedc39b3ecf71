"""Render the answers, counts and arms of kept runs in `docs/results.md` and `docs/tables.md`."""

from __future__ import annotations

import functools
import re
import textwrap
from collections import Counter

import msgspec
from kept.runs import NAMES, decide_run, read_run
from tabulate import tabulate

from advisor.domain.answer import Answer, AnswerSummary
from advisor.domain.errors import UserError
from advisor.domain.measurement import Interval
from advisor.domain.model import short_name
from advisor.domain.text import format_mebibytes, format_seconds, format_share, write_speedup
from advisor.report.formatting import accuracy_cell, markdown_table

HEAD = [
    *("question", "asked", "answer", "speed-up (95 %)", "by batch"),
    *("word", "workflows", "trust", "measured"),
]
#: Percent of the three Ps.
DEFAULT_PERFORMANCE = 40
DEFAULT_TOKENS = 32
PAPER_SIZES = ("@llama2-7b", "@tinyllama")
MARKED = re.compile(r"(<!-- ([a-z]+): ([\w-]+) -->)(\n?).*?(<!-- end -->)", re.DOTALL)


def render(page: str) -> str:
    """Return the page with what the present version answers between its marks."""

    def write(found: re.Match[str]) -> str:
        text = WRITERS[found[2]](found[3])
        return f"{found[1]}\n\n{text}\n\n{found[5]}" if found[4] else found[1] + text + found[5]

    return MARKED.sub(write, page)


@functools.cache
def decide(name: str) -> Answer:
    """Return the present answer, or the run without one."""
    try:
        return decide_run(name)
    except UserError:
        return msgspec.structs.replace(read_run(name), recommendation=None)


def write_answers(kind: str) -> str:
    """Return one line for each run on GPUs or on CPUs."""
    rows = [
        [*describe(answer), f"[{answer.created:%Y-%m-%d}](../tests/stacks/evidence/{name}.json)"]
        for name, answer in ((name, decide(name)) for name in NAMES)
        if kind == ("GPU" if answer.machine.find_gpu(answer.question.gpu) else "CPU")
    ]
    return tabulate(sorted(rows), HEAD, tablefmt="pipe", disable_numparse=True)


def describe(answer: Answer) -> list[str]:
    """Return a run's question, conditions, answer, gains, word, number of workflows and trust."""
    question, summary = answer.question, AnswerSummary.of(answer)
    arm, gain = summary.arm, summary.speedup
    shown = "-" if gain is None or arm == answer.results.baseline else write_gain(answer, gain)
    word = summary.decision_word or ("alone" if arm else "no answer")
    task = {"generate": ", text", "serve": ", served"}.get(question.task, "")
    name = f"`{short_name(question.model)}`{task}"
    compared = str(len({measured.workflow for measured in answer.results.measurements}))
    named = f"`{arm}`" if arm else "-"
    gains = [shown, "-" if shown == "-" else write_gains(answer, str(arm))]
    return [name, describe_conditions(answer), named, *gains, word, compared, summary.trust or "-"]


def describe_conditions(answer: Answer) -> str:
    """Return what was asked for besides the model; defaults of most runs are left out."""
    question, missing = answer.question, answer.unmeasured_shapes
    gpu = answer.machine.find_gpu(question.gpu)
    device = gpu.name.removeprefix("NVIDIA ").split()[0] if gpu else ""
    number = f"{question.devices_per_model} x " if question.devices_per_model > 1 else ""
    measured = [shape for shape in question.shapes if shape not in missing] or question.shapes
    sizes = ", ".join(dict.fromkeys(str(shape.batch_size) for shape in measured))
    tokens = question.lengths[0].input_tokens
    performance = question.priorities.performance
    conditions = {
        number + device: gpu is not None,
        str(question.dtype): True,
        f"batch {sizes}": question.load is None,
        f"{tokens} tokens": question.load is None and tokens != DEFAULT_TOKENS,
        f"quantised {', '.join(question.quantised)}": question.quantised,
        f"performance {performance:g} %": performance != DEFAULT_PERFORMANCE,
    }
    return ", ".join(condition for condition, applies in conditions.items() if applies)


def write_gain(answer: Answer, gain: Interval) -> str:
    """Return the range alone where `show` does, else the value with its interval."""
    unfit = answer.results.is_unfit
    return write_speedup(gain, unfit=unfit, interval=not gain.is_range(unfit=unfit))


def write_gains(answer: Answer, arm: str) -> str:
    """Return the gain at each batch size; `-` for one size, of servers, and of several lengths."""
    cells = next(each.cells for each in answer.results.measurements if each.arm == arm)
    sizes = [cell.shape.batch_size for cell in cells]
    if len(sizes) < 2 or len({*sizes}) < len(sizes) or answer.question.serves:
        return "-"
    unfit = answer.results.is_unfit
    return ", ".join(write_speedup(cell.speedup, unfit=unfit) for cell in cells)


def write_arms(name: str) -> str:
    """Return the answer, the noise and all arms of one run of a model's calls."""
    answer = decide(name)
    asked, conditions, arm, _gain, _gains, word, _workflows, trust = describe(answer)
    shapes = [f"@{race.shape.batch_size}" for race in answer.results.races]
    noise = (format_share(race.noise_floor) for race in answer.results.races)
    unfit = answer.results.is_unfit
    rows = [
        [
            measured.arm,
            write_gain(answer, measured.speedup),
            *(write_speedup(cell.speedup, unfit=unfit) for cell in measured.cells),
            write_rate(answer, measured.cells[-1].tflops),
            format_seconds(measured.build_seconds.cold),
            format_mebibytes(measured.memory_bytes.peak),
            accuracy_cell(measured.correctness),
            format_share(measured.engaged_share),
        ]
        for measured in sorted(answer.results.measurements, key=lambda each: -each.speedup.value)
    ]
    rate = f"TFLOPS {shapes[-1]} (of the peak)"
    head = ["arm", "speed-up (95 %)", *shapes, rate, "build s", "MiB", "error", "engaged"]
    found = [pair for each in answer.results.measurements for pair in each.versions.items()]
    # One distribution may be reported with a hyphen by one workflow, and with "_" by another.
    versions = {name.replace("_", "-"): version for name, version in found}
    lines = [
        f"{asked}, {conditions}, {answer.created:%Y-%m-%d}",
        f"([kept run](../tests/stacks/evidence/{name}.json)): {arm}, {word}, trust {trust}.",
        f"Versions: {', '.join(' '.join(each) for each in sorted(versions.items()))}.",
        f"Noise: {', '.join(map(' '.join, zip(shapes, noise, strict=True)))}.",
        "",
        *markdown_table(head, rows, {0}),
    ]
    return "\n".join(lines)


def write_rate(answer: Answer, rate: float | None) -> str:
    """Return TFLOPS, and their share of the measured peak."""
    peaks = answer.results.peaks
    peak = peaks.operations_per_second.get(answer.question.dtype) if peaks else None
    of_peak = f" ({format_share(rate * 1e12 / peak)})" if rate and peak else ""
    return "-" if rate is None else f"{rate:.3g}{of_peak}"


def write_count(kind: str) -> str:
    """Return how many runs of the paper's sizes advise the baseline, or the trust of all runs."""
    answers = [decide(name) for name in NAMES]
    summaries = [AnswerSummary.of(answer) for answer in answers]
    if kind == "paper":
        sized = [each for each in answers if short_name(each.question.model).endswith(PAPER_SIZES)]
        eager = [each for each in sized if AnswerSummary.of(each).arm == each.results.baseline]
        return f"eager PyTorch is advised in {len(eager)} of the {len(sized)} runs"
    trust = Counter(str(found.trust) for found in summaries if found.arm)
    pairs = list(zip(answers, summaries, strict=True))
    single = [found for answer, found in pairs if found.arm and not answer.results.repeats]
    lowered = " or ".join(sorted({str(found.trust) for found in single}))
    clear = sum(found.decision_word == "CLEAR" for found in single)
    floors = [answer.results.noise_floor for answer, found in pairs if found.trust == "D"]
    text = (
        f"is {', '.join(f'{grade} in {trust[grade]}' for grade in sorted(trust))} of the "
        f"{len(answers)} runs ({len(answers) - trust.total()} without an answer). No arm was "
        f"repeated in a fresh process in {len(single)} of those with an answer: they have trust "
        f"{lowered}, and {clear or 'none'} of them are CLEAR. In those with D equal processes may "
        f"differ by {format_share(min(filter(None, floors)))} or more."
    )
    return textwrap.fill(text, 118, initial_indent=" " * 36, subsequent_indent="  ").lstrip()


WRITERS = {"answers": write_answers, "arms": write_arms, "count": write_count}
