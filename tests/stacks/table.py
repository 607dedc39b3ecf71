"""Write the tables of what was run where, in the README and beside the kept runs, from these runs: `python tests/stacks/table.py`."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import msgspec

from advisor.report.document import RunDocument, WorkflowEntry

EVIDENCE = pathlib.Path(__file__).parent / "evidence"
ROOT = pathlib.Path(__file__).parents[2]
RUN = "h200-ffn-multilayer-tinyllama-bfloat16.json"
LARGE = "h200-ffn-multilayer-llama2-7b-float16.json"
HALF = "h200-ffn-1024x4096x4-float16.json"
TEXTS = (
    "h200-generate-tinyllama-genai-bfloat16.json",
    "h200-generate-tinyllama-sglang-bfloat16.json",
    "h200-generate-llama2-7b-float16.json",
    "h200-generate-llama2-7b-sglang-float16.json",
    "h200-generate-llama3.1-8b-sglang-bfloat16.json",
)
WRONG_TEXTS = (
    "h200-generate-tinyllama-max-bfloat16.json",
    "h200-generate-demo-llama-max-bfloat16.json",
)
EARLIER_TEXT = "h200-generate-tinyllama-bfloat16.json"
SMALL_TEXT = "h200-generate-demo-llama.json"
STOPPED_TEXTS = (
    "h200-generate-llama3.1-8b-vllm-bfloat16.json",
    "h200-generate-llama3.1-8b-bfloat16.json",
    "h200-generate-tinyllama-loops-bfloat16.json",
)
BLOCKS = tuple(
    f"h200-{block}-{family}.json"
    for family, blocks in (
        ("tinyllama-bfloat16", ("matmul", "matmul-relu", "ffn")),
        ("tinyllama-bfloat16-again", ("ffn",)),
        ("llama2-7b-float16", ("matmul", "matmul-relu", "ffn")),
    )
    for block in blocks
)
CPU, CPU_LLAMA, CPU_TEXTS = (
    "cpu-demo.json",
    "cpu-demo-llama.json",
    tuple(f"cpu-generate-demo-{model}.json" for model in ("llama", "qwen2", "gpt2")),
)
SURVEY = "cpu-survey.json"
LARGE_TOLD = """\
The larger of the paper's sizes, on twelve processors of its own, while other runs had the host's other GPUs and processors. The peak,
measured once at the start, came out low in this run, 638 TFLOPS where others on such GPUs had 652 to 748, so shares are high:"""
BLOCKS_TOLD = """\
The paper's other synthetic models, each in a run of a minute and a half to four and a half, while others used the host's other GPUs; the
first two of Llama-2's size had twelve processors of their own. Where `openxla-jax` is `incorrect`, that is about its probe as it was: it
waited in every call, and what a wait costs was taken for late work. In the second run of `ffn@tinyllama`, with the mended probe, another
check, mended since, called the duplicate of eager PyTorch and `torch-compile-tensorrt` incorrect: to read their outputs took longer than
the calls, and wavered. So the noise is not known there. The memory of `openxla-jax` is its probe's as it was, too: it held the weights once
for each batch size. `aotinductor` `crashed` on that host as its packages were loaded, and so does [a
script](tests/stacks/evidence/h200-aotinductor-alone.txt) without this program, on the GPU and on the processor; on other hosts with the
same versions it ran. The builds for TensorRT for RTX add up in float16 and are `incorrect` for it. What IREE failed with in the table
above, weights of more than 2 GiB, is mended and has been run on a processor since, not on a GPU."""
TEXTS_TOLD = """\
All were made on hosts of four GPUs, two or three of them at work at once. Eager PyTorch waits for its launches, and the neighbours show
in its noise. The first was stopped after its race, the last during that of batch size 64. What went wrong with SGLang in the first and
third was the probe's doing and is mended: a context two tokens too short by SGLang's reckoning, and a share of the whole GPU's memory,
where SGLang means what is free."""
WRONG_TOLD = """\
MAX, alone with eager PyTorch, compiled TinyLlama for more than three minutes on twelve processors and is `incorrect`:
its text departs at the first token, by far more than the precision explains ([kept run]({0})).
So it is with `demo/llama` on that GPU ([kept run]({1})).
Taken apart through the interface that the probe uses since, its logits there are right for 128 prompt tokens at once and for one, and
wrong for 2 to 16, so for short prompts and for every step of a batch ([what was seen](tests/stacks/evidence/h200-max.txt)); others have the
same on these GPUs in bfloat16 (<https://github.com/modular/modular/issues/6883>), and the answer says so. On a processor, in float32, its
text is eager PyTorch's."""
EARLIER_TOLD = """\
TinyLlama with fewer arms and one neighbour, on the host's other GPU, and 6.5 minutes for all builds together, of which the checks of eager
PyTorch take a part. ONNX Runtime GenAI's package had been cut down for the way to that machine and lacked what its builder imports:"""
STOPPED_TOLD = """\
Three runs that ended when the machine was needed for others, after their races and before they had looked inside all arms. Each had a
neighbour on the host's other GPU, and the noise shows it. Of the last two only the events came back; their headers were put together from
the run before them:"""
END = "<!-- their end -->\n"
MEBIBYTE = 1 << 20


def read(name: str) -> RunDocument:
    return msgspec.json.decode((EVIDENCE / name).read_bytes(), type=RunDocument)


def device_of(document: RunDocument) -> str:
    """Return the name of the GPU that was measured on, else the processors."""
    cpu = document.machine.cpu
    name = next(
        (gpu.name for gpu in document.machine.gpu if gpu.uuid == document.question.gpu), None
    )
    return name or f"{cpu.model} of which {cpu.usable_processors} processors can be used"


def versions_of(document: RunDocument) -> str:
    """Return the versions of all that was measured, each stack once, with all its versions where environments differ."""
    versions: dict[str, dict[str, None]] = {}
    for entry in document.workflows:
        for name, version in entry.versions.items():
            versions.setdefault(name, {})[version] = None
    return ", ".join(f"{name} {' and '.join(found)}" for name, found in sorted(versions.items()))


def row(entry: WorkflowEntry, document: RunDocument) -> str:
    """Return one arm's line: ratios to eager PyTorch, arithmetic, what the build took, memory, and how much of it ran as meant."""
    assert entry.speedup
    assert entry.build_seconds
    assert entry.memory_bytes
    assert document.race
    assert document.race.peaks
    speed = f"{entry.speedup.value:.2f} ({entry.speedup.low:.2f} to {entry.speedup.high:.2f})"
    cells = [f"{cell.speedup.value:.2f}" for cell in entry.cells]
    largest = entry.cells[-1].tflops or 0.0
    share = largest * 1e12 / document.race.peaks.operations_per_second[document.question.dtype]
    memory = f"{(entry.memory_bytes.peak or 0) / MEBIBYTE:,.0f}"
    build = f"{entry.build_seconds.cold:.1f}"
    return (
        "| "
        + " | ".join(
            [
                entry.arm,
                speed,
                *cells,
                f"{largest:.3g} ({share:.0%})",
                build,
                memory,
                f"{entry.engaged_share:.0%}",
            ]
        )
        + " |"
    )


def introduction(document: RunDocument, file: str) -> str:
    """Return what was asked, of what, with what, and how it ended."""
    assert document.race
    asked = document.question
    timed = sum(entry.speedup is not None for entry in document.workflows)
    lengths = f"{asked.input_tokens} tokens" + (
        f" in and {asked.output_tokens} out" if asked.task == "generate" else ""
    )
    verdicts = ", ".join(
        f"@{race.batch_size} {race.verdict} (noise {race.noise_floor or 0:.0%})"
        for race in document.race.by_batch_size
    )
    return f"""\
One command, {timed} arms: `{asked.model.name}` in {asked.dtype}, {lengths}, on an {device_of(document)},
{document.created[:10]} ([the kept run](tests/stacks/evidence/{file})).
Versions: {versions_of(document)}.
Verdicts: {verdicts}.
"""


def text_row(entry: WorkflowEntry) -> str:
    """Return one arm's line of a run that generates: speed, tokens, latencies at the smallest batch size, bandwidth, build, memory."""
    assert entry.speedup
    assert entry.build_seconds
    assert entry.memory_bytes
    first, last = entry.cells[0].generation, entry.cells[-1].generation
    assert first
    assert last
    cells = [
        entry.arm,
        f"{entry.speedup.value:.2f} ({entry.speedup.low:.2f} to {entry.speedup.high:.2f})",
        *(f"{cell.throughput.value:,.0f} ({cell.speedup.value:.2f})" for cell in entry.cells),
        *(
            " / ".join((milliseconds(cell.ttft_seconds, 1), milliseconds(cell.itl_seconds, 2)))
            for cell in (first, last)
        ),
        " / ".join(
            "-" if each.mbu is None else "caches" if each.mbu > 1 else f"{each.mbu:.0%}"
            for each in (first, last)
        ),
        f"{entry.build_seconds.cold:.1f}",
        f"{(entry.memory_bytes.peak or 0) / MEBIBYTE:,.0f}",
    ]
    return "| " + " | ".join(cells) + " |"


def milliseconds(seconds: float | None, digits: int) -> str:
    """Return a time in milliseconds; a dash for one that was not measured."""
    return "-" if seconds is None else f"{seconds * 1e3:.{digits}f}"


def text_table(file: str) -> list[str]:
    """Return the table of a run that generates, fastest first, and its head."""
    document = read(file)
    entries = fastest_first(document)
    sizes = [cell.batch_size for cell in entries[0].cells]
    assert all([cell.batch_size for cell in entry.cells] == sizes for entry in entries), file
    ends = sizes[0], sizes[-1]
    head = ["arm", "speed-up (95 %)", *(f"tokens/s @{size} (speed-up)" for size in sizes)]
    head += [
        *(f"TTFT / ITL ms @{size}" for size in ends),
        f"bandwidth used @{ends[0]} / @{ends[1]}",
        "build s",
        "MiB",
    ]
    rows = [text_row(entry) for entry in entries]
    return [
        introduction(document, file),
        "| " + " | ".join(head) + " |",
        "|" + "---|" * len(head),
        *rows,
    ]


def fastest_first(document: RunDocument) -> list[WorkflowEntry]:
    timed = [entry for entry in document.workflows if entry.speedup is not None]
    return sorted(timed, key=lambda entry: -entry.speedup.value if entry.speedup else 0.0)


def race_table(file: str) -> list[str]:
    """Return the table of everything that was timed, fastest first, and its head."""
    document = read(file)
    assert document.recommendation
    sizes = document.question.batch_sizes
    head = [
        "arm",
        "speed-up (95 %)",
        *(f"@{size}" for size in sizes),
        f"TFLOPS @{sizes[-1]} (of the peak)",
        "build s",
        "MiB",
        "engaged",
    ]
    advice = f"Advice with the default priorities: {document.recommendation.arm}, trust {document.recommendation.trust}.\n"
    rows = [row(entry, document) for entry in fastest_first(document)]
    return [
        introduction(document, file) + advice,
        "| " + " | ".join(head) + " |",
        "|" + "---|" * len(head),
        *rows,
    ]


def blocks_table() -> list[str]:
    """Return a line for each of the small synthetic models: microseconds of eager PyTorch, and the others' speed-ups by batch size."""
    documents = [read(file) for file in BLOCKS]
    arms = sorted(
        {entry.arm for document in documents for entry in document.workflows if entry.speedup}
        - {"pytorch-eager"}
    )
    rows = []
    for document, file in zip(documents, BLOCKS, strict=True):
        entries = {entry.arm: entry for entry in document.workflows}
        eager = " / ".join(
            f"{cell.seconds.median * 1e6:.0f}" for cell in entries["pytorch-eager"].cells
        )
        asked = document.question
        name = f"[{asked.model.name}](tests/stacks/evidence/{file}), {asked.dtype}"
        rows.append(
            "| "
            + " | ".join([name, eager, *(speedups_or_status(entries.get(arm)) for arm in arms)])
            + " |"
        )
    sizes = " / ".join(f"@{size}" for size in documents[0].question.batch_sizes)
    head = [f"model (speed-ups {sizes})", "pytorch-eager, µs", *arms]
    return ["| " + " | ".join(head) + " |", "|" + "---|" * len(head), *rows]


def speedups_or_status(entry: WorkflowEntry | None) -> str:
    """Return an arm's speed-ups by batch size, or how it ended; a dash for one that was not asked for."""
    if entry is None or entry.status == "excluded":
        return "-"
    return " / ".join(f"{cell.speedup.value:.2f}" for cell in entry.cells) or entry.status


def refusals(document: RunDocument) -> list[str]:
    """Return a line for each arm that ran and did not end with a time."""
    failed = [
        entry
        for entry in document.workflows
        if entry.status in {"incorrect", "not-engaged", "build-failed", "crashed", "timed-out"}
    ]
    reasons: dict[str, list[str]] = {}
    for entry in failed:
        reasons.setdefault(f"{entry.status}: {entry.reason}", []).append(f"`{entry.arm}`")
    return [f"- {', '.join(arms)}: {reason}" for reason, arms in reasons.items()]


def measuring() -> list[str]:
    """Return what the checks of the measuring itself came to."""
    kept: dict[str, Any] = json.loads(
        (EVIDENCE / "measuring" / "h200.json").read_text(encoding="utf-8")
    )
    worst = max(map(abs, kept["memory"]["error_bytes"].values()))
    equal, one, long = (
        kept["equal"],
        kept["agreement"]["22 layers, 16x32 tokens"],
        kept["agreement"]["22 layers, 64x32 tokens"],
    )
    freed = min(kept["killed"]["freed_bytes"].values()) / MEBIBYTE
    difference = max(each["largest_difference"] for each in kept["saved"].values())
    short = f"by `triton.testing.do_bench` and {one['torch.utils.benchmark']['ratio']:.3f} by `torch.utils.benchmark`"
    return f"""\
- Known allocations of 64 to 1024 MiB, in and outside PyTorch, are seen with an error of {worst} bytes.
- Of {equal["races"]} races between two equal workers {equal["called_different"]} told them apart: too many, but {equal["beyond_2_percent"]}
  by more than the margin of 2 %. The medians of the two processes lay {abs(1 - equal["median_ratio"]):.1%} apart; only finalists are
  repeated in fresh processes.
- The same callable, timed in turn: a call of 1 ms takes {one["triton do_bench"]["ratio"]:.3f} times as long {short}.
  One of 3 ms that keeps the arithmetic busy takes {long["triton do_bench"]["ratio"]:.2f} and
  {long["torch.utils.benchmark"]["ratio"]:.2f} times as long:
  they call without a pause, and so does the sustained check, which says {long["p3-advisor, sustained"]["ratio"]:.2f}.
- Workers killed in a build and in a visit gave back at least {freed:.0f} MiB and the run went on. With
  {kept["crowded"]["free_bytes"] / (1 << 30):.1f} GiB free the arms that fit were measured and the others were out-of-memory.
- Engines saved in one process and loaded in another differ by {difference:g}.""".splitlines()


def gpu_section() -> list[str]:
    """Return what was run on GPUs, from the kept runs alone."""
    return [
        *race_table(RUN),
        "",
        LARGE_TOLD,
        "",
        *race_table(LARGE),
        "",
        *refusals(read(LARGE)),
        "",
        BLOCKS_TOLD,
        "",
        *blocks_table(),
        "",
        "What the measuring itself is worth there ([kept answers](tests/stacks/evidence/measuring/h200.json)):",
        "",
        *measuring(),
        "",
        "Text, by `--task generate`:",
        "",
        *(line for file in TEXTS for line in told_texts(file)),
        TEXTS_TOLD,
        "",
        WRONG_TOLD.format(*(f"tests/stacks/evidence/{file}" for file in WRONG_TEXTS)),
        "",
    ]


def more_on_gpus() -> list[str]:
    """Return what else is kept of runs on GPUs."""
    half = read(HALF)
    return [
        f"In {half.question.dtype} ([kept run](tests/stacks/evidence/{HALF}), {half.question.model.name}, {half.created[:10]}):",
        "",
        *refusals(half),
        "",
        EARLIER_TOLD,
        "",
        *told_texts(EARLIER_TEXT),
        *told_texts(SMALL_TEXT),
        STOPPED_TOLD,
        "",
        *(line for file in STOPPED_TEXTS for line in told_texts(file)),
    ]


def told_texts(file: str) -> list[str]:
    """Return the table of a run that generates, and what came of the arms without a time."""
    return [
        *text_table(file),
        "",
        *(refusals(read(file)) or ["Every other arm that was asked for has a time."]),
        "",
    ]


def survey_table(file: str) -> list[str]:
    """Return which model of the panel each workflow took, and why it did not take another."""
    surveys = read(file).surveys
    models = {found.model: found.family for survey in surveys for found in survey.models}
    verdicts = {
        (survey.workflow, found.model): found for survey in surveys for found in survey.models
    }
    head = [
        "model",
        *(f"{survey.workflow} ({survey.passed} of {survey.tried})" for survey in surveys),
    ]
    rows = []
    for model, family in models.items():
        found = [verdicts[survey.workflow, model].verdict for survey in surveys]
        rows.append(
            "| "
            + " | ".join(
                [
                    f"{model}, {family}",
                    *("yes" if verdict == "pass" else verdict for verdict in found),
                ]
            )
            + " |"
        )
    reasons: dict[str, list[str]] = {}
    for (workflow, model), each in verdicts.items():
        if each.verdict != "pass":
            reasons.setdefault(f"{model}: {(each.reason or '').splitlines()[0]}", []).append(
                f"`{workflow}`"
            )
    lines = [f"- {', '.join(workflows)} on {reason}" for reason, workflows in reasons.items()]
    told = f"Architecture support, measured by `--survey` ([kept answer](tests/stacks/evidence/{file})):"
    return [told, "", "| " + " | ".join(head) + " |", "|" + "---|" * len(head), *rows, "", *lines]


def cpu_section() -> list[str]:
    """Return what was run on a CPU, several workflows in environments of their own, from the kept runs alone."""
    return [*race_table(CPU), "", *told_texts(CPU_TEXTS[0]), *survey_table(SURVEY)]


def more_on_cpus() -> list[str]:
    """Return what else is kept of runs on a CPU."""
    return [
        *race_table(CPU_LLAMA),
        "",
        *(line for file in CPU_TEXTS[1:] for line in told_texts(file)),
    ]


#: By page, by the line that it follows there.
PAGES = {
    ROOT / "README.md": {
        "<!-- the tables of GPU workflows: python tests/stacks/table.py -->\n": gpu_section,
        "<!-- the tables of CPU workflows: python tests/stacks/table.py -->\n": cpu_section,
    },
    EVIDENCE / "README.md": {
        "<!-- more runs on GPUs: python tests/stacks/table.py -->\n": more_on_gpus,
        "<!-- more runs on CPUs: python tests/stacks/table.py -->\n": more_on_cpus,
    },
}


def insert(page: pathlib.Path) -> str:
    """Return the page's text with its sections as they are now; raise `ValueError` where one has no place."""
    text = page.read_text(encoding="utf-8")
    beside = f"]({EVIDENCE.relative_to(ROOT)}/"
    for begin, section in PAGES[page].items():
        before, found, rest = text.partition(begin)
        if not found:
            message = f"{page} lacks {begin!r}"
            raise ValueError(message)
        lines = "\n".join(section())
        text = (
            before
            + begin
            + (lines.replace(beside, "](") if page.parent == EVIDENCE else lines)
            + "\n"
            + END
            + rest.partition(END)[2]
        )
    return text


if __name__ == "__main__":
    for each in PAGES:
        each.write_text(insert(each), encoding="utf-8")
