"""Requests to workers of engines, with a bigram model as the checkpoint."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import builders
import msgspec
import numpy as np
import workers
from top_tokens import normalised, run_of

from advisor.ask import catalogue_files
from probes import arrays, protocol
from probes.checking import text_reference
from probes.subjects import checkpoint

ENGINES = pathlib.Path(__file__).parent / "fakes" / "engines"
WORKFLOWS = catalogue_files.probes_directory() / "workflows"
#: A shell would split and expand it without quotes.
MODEL = "my models/bigrams; echo $HOME"
VOCABULARY, PROMPT, NEW, SIZES, SETS = 64, 5, 7, [1, 3], 2


def worker_request(
    workflow: str, directory: pathlib.Path, fault: str = "", architecture: str = "LlamaForCausalLM"
) -> protocol.Request:
    """Write a bigram model and the references that a reference worker would write."""
    shared = directory / "shared"
    folder = shared / checkpoint.FOLDER
    folder.mkdir(parents=True)
    table = normalised(2 * np.random.default_rng(1).standard_normal((VOCABULARY, VOCABULARY)))
    np.save(folder / "table.npy", table)
    (folder / "engine.json").write_text(json.dumps({"fault": fault}))
    checkpoint.write_info(
        folder, checkpoint.CheckpointInfo(architecture, "bfloat16", 1000, 2000, {}, VOCABULARY, 64)
    )
    for size in SIZES:
        prompts = [
            np.random.default_rng([size, number]).integers(3, VOCABULARY, (size, PROMPT))
            for number in range(SETS)
        ]
        runs = []
        for prompt in prompts:
            tokens = [prompt[:, -1]]
            for _ in range(NEW):
                tokens.append(table[tokens[-1]].argmax(-1))
            exact = np.stack([table[token] for token in tokens[:-1]], axis=1)
            runs.append(run_of(exact, exact))
        arrays.save(shared / f"inputs-{size}.npz", [[prompt] for prompt in prompts])
        text_reference.save_reference(
            shared / f"reference-{size}.npz", "float64", [[prompt] for prompt in prompts], runs
        )

    return workers.make_request(
        WORKFLOWS / f"{workflow}.py",
        shared,
        subject={"kind": "transformers", "name": MODEL, "weights": "random"},
        task="generate",
        device="cuda",
        dtype="bfloat16",
        batch_sizes=SIZES,
        input_tokens=PROMPT,
        output_tokens=NEW,
        input_sets=SETS,
        engine_memory=shipped_engine_memory(workflow.replace("_", "-")),
    )


def shipped_engine_memory(workflow: str) -> dict[str, Any]:
    """Return the memory that the engine of the workflow gets, as a field of its request."""
    fields = msgspec.structs.asdict(builders.shipped_catalogue().engine_memory[workflow])
    del fields["source"]
    return fields
