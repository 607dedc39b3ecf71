"""Render the pages with tables of the kept runs: docs/results.md and the README of `evidence/`."""

from __future__ import annotations

import pathlib

from stacks import portability_charts, quiet_loads, run_notes
from stacks.kept_runs import EVIDENCE, read_run
from stacks.run_serving import serving_section
from stacks.run_tables import (
    EVIDENCE_LINK,
    blocks_table,
    failures,
    forward_section,
    gpu_checks,
    portability_section,
    quantised_section,
    race_table,
    survey_section,
    text_section,
    text_table,
)
from stacks.source_systems import systems_section

ROOT = pathlib.Path(__file__).parents[2]
DEMO = "h200-demo-block-bfloat16.json"
FFN = "h200-ffn-multilayer-tinyllama-bfloat16.json"
LARGE_FFN = "h200-ffn-multilayer-llama2-7b-float16.json"
#: The block of `LARGE_FFN` with one layer and all arms.
ALL_ARMS_FFN = "h100-ffn-llama2-7b-float16-standard.json"
FLOAT16_FFN = "h200-ffn-1024x4096x4-float16.json"
BLOCKS = (
    "h200-matmul-tinyllama-bfloat16.json",
    "h200-matmul-relu-tinyllama-bfloat16.json",
    "h200-ffn-tinyllama-bfloat16.json",
    "h200-ffn-tinyllama-bfloat16-again.json",
    "h200-matmul-llama2-7b-float16.json",
    "h200-matmul-relu-llama2-7b-float16.json",
    "h200-ffn-llama2-7b-float16.json",
)
FLOAT16_ACCUMULATION = (
    "h100-ffn-llama2-7b-float16-tensorrt-rtx.json",
    "h100-matmul-llama2-7b-float16-tensorrt-rtx.json",
)
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
IN_PLACE_TEXT = "h100-generate-demo-llama-bfloat16.json"
STOPPED_TEXTS = (
    "h200-generate-llama3.1-8b-vllm-bfloat16.json",
    "h200-generate-llama3.1-8b-bfloat16.json",
    "h200-generate-tinyllama-loops-bfloat16.json",
)
GENAI_8B = "h100-generate-llama3.1-8b-genai-bfloat16.json"
GPU_QUANTISED = "h200-quantised-tinyllama-bfloat16.json"
GPU_QUANTISED_8B = "h200-quantised-llama3.1-8b-bfloat16.json"
#: The arms of integers that are slow in `GPU_QUANTISED_8B`, with a module.
GPU_QUANTISED_FFN = "h100-ffn-multilayer-tinyllama-int8-bfloat16.json"
GPU_SERVED = "h100-served-tinyllama-bfloat16.json"
#: The same question without the static cache, with the energy of a token.
GPU_SERVED_AGAIN = "h100-served-tinyllama-bfloat16-again.json"
GPU_SERVED_8B = "h100-served-llama3.1-8b-bfloat16.json"
#: One GPU of a host, and both.
GPU_SERVED_SPLIT = (
    "h100-served-llama3.1-8b-one-of-two.json",
    "h100-served-llama3.1-8b-two-gpus.json",
)
WHOLE_MODELS = (
    "h100-resnet-50-float32.json",
    "h100-vit-base-float32-standard.json",
    "h100-minilm-float32-standard.json",
    "h100-whisper-base-float16-standard.json",
    "h100-unet-float16.json",
)
#: Models of `WHOLE_MODELS` with more arms and less time for each.
QUICK_MODELS = (
    "h100-vit-base-float32.json",
    "h100-minilm-float32.json",
    "h100-whisper-base-float16.json",
)
#: Models of `WHOLE_MODELS` on another GPU.
WHOLE_MODELS_AGAIN = (
    "h200-resnet-50-float32.json",
    "h200-vit-base-float32.json",
    "h200-minilm-float32.json",
)
CPU = "cpu-demo-workflows.json"
#: The same question with more arms.
CPU_EARLIER = "cpu-demo.json"
CPU_LLAMA = "cpu-demo-llama.json"
#: The questions of runs on GPUs, on a processor; they have the results of all platforms.
PLATFORMS = (
    "cpu-resnet-50-float32.json",
    "cpu-minilm-float32.json",
    "cpu-vit-base-float32.json",
)
CPU_TEXTS = (
    "cpu-generate-demo-llama-engines.json",
    "cpu-generate-demo-llama.json",
    "cpu-generate-demo-qwen2.json",
    "cpu-generate-demo-gpt2.json",
)
CPU_QUANTISED = (
    "cpu-quantised-ffn-1024x4096x2.json",
    "cpu-quantised-bert-512x2048x4.json",
    "cpu-quantised-demo-llama.json",
    "cpu-quantised-vllm-llama-768.json",
)
#: The question of the third of them with a later version and fewer workflows.
CPU_QUANTISED_AGAIN = "cpu-quantised-demo-llama-again.json"
#: Runs of servers under load on a machine without other work.
CPU_SERVED = ("cpu-served-demo-llama.json", "cpu-served-demo-llama-again.json")
#: Sweeps over lengths on a machine without other work.

END = "<!-- end of the generated tables -->\n"


def gpu_section() -> list[str]:
    """Return the main runs on GPUs."""
    return [
        *race_table(FFN),
        "",
        run_notes.DEMO,
        "",
        *race_table(DEMO),
        "",
        *failures(read_run(DEMO)),
        "",
        run_notes.LARGE_FFN,
        "",
        *race_table(LARGE_FFN),
        "",
        *failures(read_run(LARGE_FFN)),
        "",
        run_notes.ALL_ARMS_FFN,
        "",
        *forward_section(ALL_ARMS_FFN),
        run_notes.BLOCKS,
        "",
        *blocks_table(BLOCKS),
        "",
        run_notes.FLOAT16_ACCUMULATION,
        "",
        *(line for file in FLOAT16_ACCUMULATION for line in (*race_table(file), "")),
        run_notes.WHOLE_MODELS,
        "",
        *(line for file in WHOLE_MODELS for line in forward_section(file)),
        run_notes.WHOLE_MODELS_AGAIN,
        "",
        *(line for file in WHOLE_MODELS_AGAIN for line in forward_section(file)),
        "### Checks of the measurement",
        "",
        f"On the H200 ([results]({EVIDENCE_LINK}/measuring/h200.json)):",
        "",
        *gpu_checks(),
        "",
        "### Generated text (`--task generate`)",
        "",
        *(line for file in TEXTS for line in text_section(file)),
        run_notes.TEXTS,
        "",
        run_notes.GENAI_8B,
        "",
        *text_section(GENAI_8B),
        run_notes.WRONG_TEXTS.format(*(f"{EVIDENCE_LINK}/{file}" for file in WRONG_TEXTS)),
        "",
        run_notes.QUANTISED_TEXT,
        "",
        *text_table(GPU_QUANTISED),
        "",
        *quantised_section(GPU_QUANTISED),
        run_notes.QUANTISED_8B,
        "",
        *text_table(GPU_QUANTISED_8B),
        "",
        *quantised_section(GPU_QUANTISED_8B),
        run_notes.QUANTISED_FFN,
        "",
        *forward_section(GPU_QUANTISED_FFN),
        run_notes.SERVED_ON_GPU,
        "",
        *serving_section(GPU_SERVED),
        "",
        run_notes.SERVED_AGAIN,
        "",
        *serving_section(GPU_SERVED_AGAIN),
        run_notes.SERVED_8B_ON_GPU,
        "",
        *serving_section(GPU_SERVED_8B),
        run_notes.SERVED_SPLIT,
        "",
        *(line for file in GPU_SERVED_SPLIT for line in serving_section(file)),
    ]


def further_gpu_section() -> list[str]:
    """Return the other runs on GPUs."""
    float16 = read_run(FLOAT16_FFN)
    question, date = float16.question, float16.created[:10]
    link = f"[kept run]({EVIDENCE_LINK}/{FLOAT16_FFN})"
    return [
        f"In {question.dtype} ({link}, {question.model.name}, {date}):",
        "",
        *failures(float16),
        "",
        run_notes.EARLIER_TEXT,
        "",
        *text_section(EARLIER_TEXT),
        *text_section(SMALL_TEXT),
        run_notes.IN_PLACE_TEXT,
        "",
        *text_section(IN_PLACE_TEXT),
        run_notes.STOPPED_TEXTS,
        "",
        *(line for file in STOPPED_TEXTS for line in text_section(file)),
        run_notes.QUICK_MODELS,
        "",
        *(line for file in QUICK_MODELS for line in forward_section(file)),
    ]


def cpu_section() -> list[str]:
    """Return the main runs on a CPU."""
    return [
        *race_table(CPU),
        "",
        *text_section(CPU_TEXTS[0]),
        run_notes.QUANTISED,
        "",
        *(line for file in CPU_QUANTISED for line in quantised_section(file)),
        "### Servers under load on a CPU",
        "",
        *(line for file in CPU_SERVED for line in serving_section(file)),
        "### Architectures that each workflow takes",
        "",
        *survey_section(),
        "",
        run_notes.PORTABILITY,
        "",
        *(line for file in PLATFORMS for line in platforms_section(file)),
    ]


def platforms_section(file: str) -> list[str]:
    """Return a run, and the speeds of its applications on all platforms as a table and a chart."""
    chart = portability_charts.chart_file(file)
    return [
        *forward_section(file),
        *portability_section(file),
        f"![Efficiency of each application by platform](charts/{chart.name})",
        "",
    ]


def further_cpu_section() -> list[str]:
    """Return the other runs on a CPU."""
    texts = (line for file in CPU_TEXTS[1:] for line in text_section(file))
    return [
        *race_table(CPU_EARLIER),
        "",
        *race_table(CPU_LLAMA),
        "",
        *texts,
        *quantised_section(CPU_QUANTISED_AGAIN),
    ]


#: The sections of each page by the line that precedes them there.
PAGES = {
    ROOT / "docs" / "results.md": {
        "<!-- the systems of the sources: python tests/generate.py -->\n": systems_section,
        "<!-- the tables of GPU workflows: python tests/generate.py -->\n": gpu_section,
        "<!-- the tables of CPU workflows: python tests/generate.py -->\n": cpu_section,
    },
    EVIDENCE / "README.md": {
        "<!-- more runs on GPUs: python tests/generate.py -->\n": further_gpu_section,
        "<!-- more runs on CPUs: python tests/generate.py -->\n": further_cpu_section,
        "<!-- the loads before the runs: python tests/generate.py -->\n": quiet_loads.section,
    },
}


def render_page(page: pathlib.Path) -> str:
    """Return the page's text with its present sections; raise `ValueError` for a missing marker."""
    text = page.read_text(encoding="utf-8")
    for marker, section in PAGES[page].items():
        before, found, rest = text.partition(marker)
        if not found:
            message = f"{page} lacks {marker!r}"
            raise ValueError(message)
        lines = "\n".join(section())
        base = "" if page.parent == EVIDENCE else f"../{EVIDENCE_LINK}/"
        lines = lines.replace(f"]({EVIDENCE_LINK}/", f"]({base}")
        text = before + marker + lines + "\n" + END + rest.partition(END)[2]
    return text
