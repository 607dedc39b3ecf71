"""The workflows of the shared environment, with the real stacks on the CPU."""

from __future__ import annotations

import json
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
from typing import Any

import jsonschema
import numpy as np
import pytest
import sessions
from forks import RunCli, run_command
from generate import schema_file
from onnx_texts import write_onnx

from advisor.ask import catalogue_files
from advisor.ask.context import Context
from advisor.domain.errors import MachineUnfitError
from advisor.report.answer_files import answer_of_run
from advisor.store.store import Store

#: The program with another catalogue.
PROGRAM = """
import pathlib, sys
from advisor.ask import catalogue_files

catalogue = pathlib.Path(sys.argv.pop(1))
catalogue_files.catalogue_directory = lambda: catalogue
from advisor.cli import main

main()
"""
COMMAND = pathlib.Path(sys.executable).with_name("p3-advisor")
#: Inductor precompiles the headers of C++ for each arm, which pays off only for larger programs.
WITHOUT_HEADERS = {"TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS": "0"}
#: Runs in its own process, because the tests import no stack.
MAKE_MODEL = """
import pathlib, sys, transformers

directory = pathlib.Path(sys.argv[1])
sizes = {"hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4}
config = transformers.LlamaConfig(vocab_size=256, num_hidden_layers=2, **sizes)
transformers.LlamaForCausalLM(config).save_pretrained(directory / "llama")
"""
NETWORK = """
network (float[batch, 32] x) => (float[batch, 8] y) {
    wide = MatMul(x, w)
    positive = Relu(wide)
    y = MatMul(positive, narrow)
}
"""


@pytest.fixture
def catalogue(tmp_path: pathlib.Path) -> pathlib.Path:
    """A catalogue that takes calls as steady at once: waiting for it keeps all processors busy."""
    directory = tmp_path / "catalogue"
    shutil.copytree(catalogue_files.catalogue_directory(), directory)
    sessions.change_fields(directory / "presets.toml", "warmup_seconds.cpu = 0.0")
    return directory


@pytest.fixture
def run_advisor(home: pathlib.Path, catalogue: pathlib.Path) -> RunCli:
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        program = [sys.executable, "-c", PROGRAM, str(catalogue)]
        command = [*program, "--json", "--gpu", "cpu", *arguments]
        return run_command(command, {"P3_ADVISOR_HOME": str(home), **WITHOUT_HEADERS})

    return run


def measurements(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {each["arm"]: each for each in document["results"]["measurements"]}


def test_a_run_of_real_stacks_recommends_one_of_its_arms(run_advisor: RunCli) -> None:
    model = ("--model", "synthetic/ffn@64x128", "--batch-sizes", "4", "--budget", "1s")
    answer = run_advisor(*model, "--all-arms", "--workflows", "onnxruntime-cpu/host")
    # A busy machine ends without advice, but with every measurement in the document.
    assert answer.returncode in {0, MachineUnfitError.exit_code}, answer.stderr
    document = json.loads(answer.stdout)
    jsonschema.validate(document, json.loads(schema_file("run").read_text()))
    arms = measurements(document)
    assert set(arms) == {"pytorch-eager", "onnxruntime-cpu/host"}
    for entry in arms.values():
        assert entry["engaged_share"] == 1.0
        for checked in entry["correctness"]:
            assert (checked["accuracy_class"], checked["reference"]) == ("exact", "float64")
        assert [cell["shape"]["batch_size"] for cell in entry["cells"]] == document["question"][
            "batch_sizes"
        ]
        assert all(cell["tflops"] > 0 for cell in entry["cells"])
    assert {each["arm"]: len(each["ratings"]) for each in document["scores"]} == dict.fromkeys(
        arms, 5
    )
    # The recommended arm and its flips depend on the machine.
    advice = document["recommendation"]
    if answer.returncode:
        assert document["problem"]["name"] == MachineUnfitError.name
    else:
        assert {advice["arm"], *(flip["to"] for flip in advice["flips"])} <= set(arms)
    assert document["results"]["noise_floor"] is not None


def test_a_file_of_the_user_is_probed(
    home: pathlib.Path, tmp_path: pathlib.Path, catalogue: pathlib.Path
) -> None:
    weights = np.random.default_rng(0).normal(size=(32, 64)).astype(np.float32)
    network = write_onnx(tmp_path / "network.onnx", NETWORK, w=weights, narrow=weights.T[:, :8])
    # The run above repeats its leaders in fresh processes.
    sessions.change_fields(catalogue / "presets.toml", "budgets.quick.repeats = 0")
    context = Context(
        environment=dict(os.environ), store=Store(home), catalogue_directory=catalogue
    )
    asked = sessions.short_options("onnxruntime-cpu/host", model=str(network), task="forward")
    found = answer_of_run(sessions.execute_run(context, asked)).results.by_arm
    assert "onnxruntime-cpu/host" in found
    checks = [checked for each in found.values() for checked in each.correctness]
    assert {checked.accuracy_class for checked in checks} == {"exact"}


@pytest.mark.long
def test_a_compiled_model_and_a_compiled_decode_step_are_engaged(
    run_advisor: RunCli, home: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    run_command([sys.executable, "-W", "ignore", "-c", MAKE_MODEL, tmp_path])
    workflows = "torch-compile-inductor/default,torch-compile-inductor-static-cache/default"
    sizes = "--batch-sizes 2 --input-tokens 8 --output-tokens 6 --budget 3s --all-arms"
    model = ("--task", "generate", "--model", str(tmp_path / "llama"))
    answer = run_advisor(*model, *shlex.split(sizes), "--workflows", workflows)
    assert answer.returncode in {0, MachineUnfitError.exit_code}, answer.stderr
    document = json.loads(answer.stdout)
    jsonschema.validate(document, json.loads(schema_file("run").read_text()))
    entries = measurements(document)
    whole = entries["torch-compile-inductor"]
    assert 0.5 < whole["engaged_share"] < 1.0, "sampling the next token stays eager"
    static = entries["torch-compile-inductor-static-cache"]
    assert static["engaged_share"] == pytest.approx(5 / 6)
    assert "5 of 6 passes" in static["engagement"]
    for entry in (entries["pytorch-eager"], static):
        (checked,) = entry["correctness"]
        assert checked["accuracy_class"] == "exact"
        assert checked["agreement"]["top1"] > 0.9
        (cell,) = entry["cells"]
        assert cell["throughput"]["value"] == pytest.approx(2 * 6 / cell["seconds"]["median"])
        assert cell["throughput"]["unit"] == "tokens/s"
        assert cell["generation"]["itl_seconds"] > 0
        assert 0 < cell["generation"]["ttft_seconds"] < cell["seconds"]["median"]
        layers, heads, width, float32_bytes, keys_and_values = 2, 4, 16, 4, 2
        assert cell["generation"]["cache_bytes"] == (
            keys_and_values * layers * heads * width * float32_bytes * 2 * 14
        )
    workflow = "torch-compile-inductor-static-cache"
    arguments = f"verify latest {workflow} --seconds 0.1 --json".split()
    verified = run_command([COMMAND, *arguments], {"P3_ADVISOR_HOME": str(home)})
    assert verified.returncode in {0, 1}, verified.stderr  # 1 if the machine is slower now
    found = json.loads(verified.stdout)
    assert (found["shape"]["batch_size"], found["problem"]) == (2, None)
    assert found["compared"]
    assert found["speedup_reached"]["value"] > 0
