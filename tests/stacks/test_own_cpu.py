"""Workflows with their own environments, on the CPU; the user's command creates these."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
from typing import Any

import builders
import pytest
from forks import RunCli, run_command

from advisor.ask import catalogue_files
from advisor.domain.errors import MachineUnfitError

# Each environment takes a gigabyte and a minute; small ones are tested next to the code.
pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]

COMMAND = pathlib.Path(sys.executable).with_name("p3-advisor")
OWN = [
    each
    for each in catalogue_files.load().for_question(builders.question()).workflows
    if each.has_probe and each.environment.kind == "own"
]
OWN_ON_CPU = [each for each in OWN if "cpu" in each.devices]
FFN, LARGE_FFN = "synthetic/ffn@512x2048", "synthetic/ffn-multilayer@4096x11008x6"
#: Half precisions that are known to work, and models whose weights IREE keeps in an archive.
FURTHER = [
    ("openvino", FFN, "bfloat16"),
    ("iree", FFN, "bfloat16"),
    ("openxla-jax", FFN, "bfloat16"),
    ("torch-compile-openxla", FFN, "bfloat16"),
    ("iree", LARGE_FFN, "float32"),
    ("iree", LARGE_FFN, "bfloat16"),
]


@pytest.fixture(scope="module")
def run_advisor(tmp_path_factory: pytest.TempPathFactory) -> RunCli:
    home = tmp_path_factory.mktemp("home")

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return run_command([COMMAND, *arguments], {"P3_ADVISOR_HOME": str(home)})

    return run


def make(run_advisor: RunCli, workflow: str) -> pathlib.Path:
    """Create the workflow's environment for a CPU if it does not exist; return its interpreter."""
    name = next(each.environment.name for each in OWN if each.id == workflow)
    answer = run_advisor("env", "create", name)
    assert answer.returncode == 0, answer.stderr
    return pathlib.Path(answer.stdout.strip(), "bin", "python")


def probe(run_advisor: RunCli, *options: str, by: str = "workflow") -> dict[str, dict[str, Any]]:
    """Return the measurements, and the reasons of the other arms, by workflow or by arm."""
    answer = run_advisor("--json", "--gpu", "cpu", "--budget", "8s", "--all-arms", *options)
    # A busy machine ends without advice, but with every measurement.
    assert answer.returncode in {0, MachineUnfitError.exit_code}, answer.stderr
    found = json.loads(answer.stdout)
    return {each[by]: each for each in (*found["results"]["measurements"], *found["unmeasured"])}


def snapshot(python: pathlib.Path) -> dict[str, tuple[int, int]]:
    """Return the size and modification time of every file of an environment."""
    return {
        str(file): (file.lstat().st_size, file.lstat().st_mtime_ns)
        for file in python.parents[1].rglob("*")
    }


OPTIONS = {"forward": "", "generate": "--task generate --model demo/llama --batch-sizes 1,4"}
BOTH_TASKS = [
    pytest.param(each.id, options.split(), [1, 4], id=f"{each.id}-{task}")
    for task, options in OPTIONS.items()
    for each in OWN_ON_CPU
    if task in each.tasks
]
ONE_SIZE = [
    pytest.param(each, f"--model {model} --dtype {dtype} --batch-sizes 1".split(), [1])
    for each, model, dtype in FURTHER
]


@pytest.mark.parametrize(("workflow", "options", "batch_sizes"), [*BOTH_TASKS, *ONE_SIZE])
def test_every_workflow_is_probed_in_its_environment(
    workflow: str, options: list[str], batch_sizes: list[int], run_advisor: RunCli
) -> None:
    python = make(run_advisor, workflow)
    before = snapshot(python)
    entry = probe(run_advisor, "--workflows", workflow, *options)[workflow]
    assert entry.get("engaged_share") == 1.0, entry
    assert {checked["accuracy_class"] for checked in entry["correctness"]} == {"exact"}
    assert [cell["shape"]["batch_size"] for cell in entry["cells"]] == batch_sizes
    assert entry["build_seconds"]["cold"] > 0
    assert snapshot(python) == before, "probing has changed the environment"


def test_vllm_stores_the_weights_of_a_quantised_checkpoint_as_the_scheme_says(
    run_advisor: RunCli, tmp_path: pathlib.Path
) -> None:
    """The sizes of demo/llama, but rows of 704 weights cannot be divided into groups of 128."""
    make(run_advisor, "vllm")
    assert run_advisor("env", "create", "llm-compressor").returncode == 0
    config = catalogue_files.load().models.configurations["demo/llama"].config
    (tmp_path / "config.json").write_text(json.dumps({**config, "intermediate_size": 768}))
    arms = ("--workflows", "vllm/w8a8,vllm/w4a16", "--quantised", "int8,int4")
    options = ("--task", "generate", "--dtype", "bfloat16", "--batch-sizes", "1", *arms)
    reasons = []
    for model, w4a16 in ((str(tmp_path), None), ("demo/llama", "unsupported")):
        found = probe(run_advisor, "--model", model, *options, by="arm")
        assert found["vllm/w8a8"].get("engaged_share") == 1.0, found["vllm/w8a8"]
        assert "int8" in found["vllm/w8a8"]["engagement"]
        assert found["vllm/w4a16"].get("status") == w4a16, found["vllm/w4a16"]
        reasons.append(found["vllm/w4a16"].get("reason", ""))
    assert "704" in reasons[-1]


def test_a_bfloat16_model_is_unsupported_by_openvino_s_backend(run_advisor: RunCli) -> None:
    make(run_advisor, "openvino")
    workflow = "torch-compile-openvino"
    options = ("--workflows", workflow, "--dtype", "bfloat16", "--batch-sizes", "1")
    assert probe(run_advisor, *options)[workflow]["status"] == "unsupported"
