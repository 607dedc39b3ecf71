"""The recipe of every workflow and kind of model is a complete script of the measured source."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import re
import subprocess
import sys
from typing import Any

import builders
import composed_recipes
import pytest
import workers
from composed_recipes import compose_recipe, facts, script_of

from advisor.catalogue import rubric_files
from advisor.domain import worker_settings
from advisor.probing.environments import variables
from probes import protocol
from probes.recipes import forward_check

#: The modules of workflows that build something; one that only has a server does not.
WORKFLOWS = sorted(
    file
    for file in (rubric_files.probes_directory() / "workflows").glob("*.py")
    if file.name != "__init__.py" and "\ndef build(" in file.read_text()
)
KINDS = ("synthetic", "transformers", "factory", "exported", "onnx")
#: A workflow whose build leaves the module's weights on the host, as an export to ONNX does.
EXPORTING = """
import sys
import types
import numpy as np

PLACE = types.SimpleNamespace(type="cpu")

class Tensor:
    def __init__(self, array, device):
        self.array, self.device = array, device

class Module:
    device = PLACE

    def to(self, device):
        self.device = device

    def __call__(self, tensor):
        if tensor.device is not self.device:
            raise RuntimeError("the weights are elsewhere")
        return 2 * tensor.array

class Subject:
    dtype, unit, units_per_sample = "float32", "samples", 1

    def __init__(self, request):
        self.module = Module()

    def inputs(self, batch_size, number):
        return [np.full((batch_size, 8), number + 1, dtype=np.float32)]

    def tensors(self, inputs):
        return (Tensor(inputs[0], PLACE),)

    def run(self, inputs):
        return [self.module(*self.tensors(inputs))]

class Program:
    def feed(self, inputs):
        return inputs[0]

    def __call__(self, device_inputs):
        print(count_faults(), file=sys.stderr)
        return 2 * device_inputs

    def collect(self, output):
        return [output]

def versions():
    return {}

def settings(request):
    return {}

open_subject = Subject

def build(subject, inputs, request):
    subject.module.to("where the export left it")
    return Program()

def synchronise():
    pass
"""
#: Fields of a request that say nothing about the model, its shapes or the build.
OTHER_FIELDS = {
    "devices_per_model",
    "quantiser",
    "long_text",
    "metric",
    "version",
    "workflow_file",
    "role",
    "shared_directory",
    "scratch_directory",
    "input_sets",
    "warmup_seconds",
    "minimum_engaged_share",
    "new_shapes",
    "sandbox",
    "load",
    "supported_dtypes",
}
RUFF = pathlib.Path(sys.executable).with_name("ruff")


def assert_is_complete(script: str, file: pathlib.Path) -> None:
    """Check that the script compiles and does not import the package; write it to `file`."""
    compile(script, file.name, "exec")
    assert not re.search(r"(from|import) probes", script)
    file.write_text(script)


def assert_names_are_defined(folder: pathlib.Path) -> None:
    answer = subprocess.run(
        [RUFF, "check", "--isolated", "--select", "F", folder],
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 0, answer.stdout


def test_every_recipe_is_a_complete_script(tmp_path: pathlib.Path) -> None:
    for workflow in WORKFLOWS:
        for kind in KINDS:
            request = workers.make_request(
                workflow,
                tmp_path,
                subject={"kind": kind, "name": "it's \\ 'quoted'"},
                options={"feeding": "x"},
            )
            script = script_of(compose_recipe(request))
            assert_is_complete(script, tmp_path / f"{workflow.stem}-{kind}.py")
    assert_names_are_defined(tmp_path)


def test_every_text_recipe_is_a_complete_script_without_code_for_forward_passes(
    tmp_path: pathlib.Path,
) -> None:
    generators = [file for file in WORKFLOWS if "protocol.GENERATE" in file.read_text()]
    assert len(generators) > 9
    for workflow in generators:
        subject = {
            "kind": "transformers",
            "name": "it's \\ 'quoted'",
            "weights": "random",
            "config": {"model_type": "llama"},
        }
        request = workers.make_request(
            workflow, tmp_path, subject=subject, task="generate", options={"prompts_at_once": 32}
        )
        lines = "import stack\n\ntokens = stack.generate(prompts)\n"
        script = script_of(compose_recipe(request, facts({1: 1e-3}, lines)))
        assert_is_complete(script, tmp_path / f"{workflow.stem}.py")
        assert "# tokens = stack.generate(prompts)\n" in script
        assert not re.search(
            r"^(def open_torch_subject|class CompiledProgram)", script, re.MULTILINE
        )
    assert_names_are_defined(tmp_path)


def test_a_recipe_moves_the_same_caches_as_a_worker() -> None:
    assert forward_check.CACHES == variables.CACHES


def test_a_recipe_sets_the_variables_of_a_worker(tmp_path: pathlib.Path) -> None:
    recipe = compose_recipe(workers.make_request(WORKFLOWS[0], tmp_path, threads=3))
    worker = variables.worker_environment({}, builders.question(), 3, tmp_path)
    assert recipe.variables.keys() == {
        *worker_settings.THREAD_COUNTS,
        *worker_settings.MEMORY_ON_DEMAND,
    }
    assert recipe.variables.items() <= worker.items()


def test_a_recipe_has_every_request_field_that_decides_what_is_measured() -> None:
    names = [field.name for field in dataclasses.fields(protocol.Request)]
    assert [*composed_recipes.FIELDS] == [name for name in names if name in composed_recipes.FIELDS]
    assert {*names} - {*composed_recipes.FIELDS} == OTHER_FIELDS


def test_a_recipe_runs_and_prints_its_throughput_despite_other_output(
    fake_probes: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    request = workers.make_request(
        fake_probes / "workflows" / "pytorch_eager.py", tmp_path, batch_sizes=[2, 4]
    )
    quiet = script_of(compose_recipe(request, facts({2: (1e-7,), 4: (1e-7,)})))
    noisy = quiet.replace(
        "return device_inputs @ self.subject.matrix",
        "print('no JSON'); return device_inputs @ self.subject.matrix",
    )
    assert noisy != quiet
    script = tmp_path / "check.py"
    script.write_text(noisy)
    command = [
        sys.executable,
        str(script),
        "--json",
        "--seconds",
        "0.05",
        "--cache",
        str(tmp_path / "cache"),
    ]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    found = [json.loads(line) for line in answer.stdout.splitlines()]
    assert [entry["batch_size"] for entry in found] == [2, 4]
    for entry in found:
        assert entry["throughput"] == pytest.approx(entry["batch_size"] / entry["seconds"])
        assert entry["seconds"] >= 0.003
        assert entry["error_against_eager"] <= 1
    assert len(list((tmp_path / "cache").iterdir())) == 1


def run_recipe_of(workflow: str, tmp_path: pathlib.Path) -> tuple[dict[str, Any], str]:
    file = tmp_path / "workflow.py"
    file.write_text(workflow)
    script = tmp_path / "check.py"
    script.write_text(script_of(compose_recipe(workers.make_request(file, tmp_path))))
    answer = subprocess.run(
        [sys.executable, script, "--json", "--seconds", "0.02"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr
    return json.loads(answer.stdout), answer.stderr


def test_a_recipe_keeps_freed_memory_and_moves_exported_weights_back_for_eager(
    tmp_path: pathlib.Path,
) -> None:
    found, printed = run_recipe_of(workers.COUNT_FAULTS + EXPORTING, tmp_path)
    assert found["speedup"] > 0
    assert int(printed.split()[-1]) < workers.FAULTS_OF_A_BLOCK, "in the last timed call"


def test_a_recipe_that_exports_on_another_device_compares_outputs_but_not_speed(
    tmp_path: pathlib.Path,
) -> None:
    on_other_device = EXPORTING.replace('type="cpu"', 'type="meta"')
    assert on_other_device != EXPORTING
    found, _ = run_recipe_of(workers.COUNT_FAULTS + on_other_device, tmp_path)
    assert found["speedup"] is None
    assert found["error_against_eager"] == 0


def test_a_recipe_with_wrong_outputs_fails(
    fake_probes: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    request = workers.make_request(fake_probes / "workflows" / "pytorch_eager.py", tmp_path)
    right = script_of(compose_recipe(request))
    wrong = right.replace(
        "return device_inputs @ self.subject.matrix",
        "return device_inputs @ self.subject.matrix * 1.01",
    )
    assert wrong != right
    script = tmp_path / "check.py"
    script.write_text(wrong)
    answer = subprocess.run(
        [sys.executable, script, "--seconds", "0.05"], capture_output=True, text=True, check=False
    )
    assert answer.returncode != 0
    assert "do not use this recipe" in answer.stderr
