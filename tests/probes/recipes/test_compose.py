"""Recipes are joined from the source that is measured: every workflow and kind of model gives a script that is whole."""

from __future__ import annotations

import json
import pathlib
import re
import subprocess
import sys
from typing import Any

import builders
import pytest
import workers
from packaging.requirements import Requirement

from advisor import catalogue
from advisor.probing import environments
from probes.recipes import compose, serving
from probes.recipes.bundler import CannotJoinError, SourceBundler

WORKFLOWS = sorted(
    file
    for file in (catalogue.probes_directory() / "workflows").glob("*.py")
    if file.name != "__init__.py"
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

    def __call__(self, fed):
        print(count_faults(), file=sys.stderr)
        return 2 * fed

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
RUFF = pathlib.Path(sys.executable).with_name("ruff")


def joined(tmp_path: pathlib.Path, *names: str, **modules: str) -> str:
    """Return what a joiner makes of these names of the module `main`."""
    files = {}
    for name, text in modules.items():
        module = "probes." + name.replace("__", ".")
        files[module] = tmp_path / f"{name}.py"
        files[module].write_text(text)
    joiner = SourceBundler(files)
    for name in names:
        joiner.add("probes.main", name)
    return "\n".join(joiner.imports()) + "\n" + joiner.definitions() + "\n"


def test_every_recipe_is_a_whole_script(tmp_path: pathlib.Path) -> None:
    for workflow in WORKFLOWS:
        for kind in KINDS:
            request = workers.make_request(
                workflow,
                tmp_path,
                subject={"kind": kind, "name": "it's \\ 'quoted'"},
                options={"feeding": "x"},
            )
            made = compose.compose(request, {}, {1: [1e-7]}, None)
            script = "\n".join([*made.imports, "MEASURED = {}", made.source])
            compile(script, f"{workflow.stem}-{kind}", "exec")
            assert not re.search(r"(from|import) probes", script), (
                "the package is not where the script is run"
            )
            (tmp_path / f"{workflow.stem}-{kind}.py").write_text(script)
    answer = subprocess.run(
        [RUFF, "check", "--isolated", "--select", "F", tmp_path],
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 0, answer.stdout


def test_every_recipe_of_text_is_a_whole_script_without_what_is_for_one_pass(
    tmp_path: pathlib.Path,
) -> None:
    writers = [file for file in WORKFLOWS if "protocol.GENERATE" in file.read_text()]
    assert len(writers) > 9
    for workflow in writers:
        subject = {
            "kind": "transformers",
            "name": "it's \\ 'quoted'",
            "weights": "random",
            "config": {"model_type": "llama"},
        }
        request = workers.make_request(
            workflow, tmp_path, subject=subject, task="generate", options={"prompts_at_once": 32}
        )
        made = compose.compose(
            request, {}, {1: 1e-3}, None, "import stack\n\ntokens = stack.generate(prompts)\n"
        )
        script = "\n".join([*made.imports, "MEASURED = {}", made.source])
        compile(script, workflow.stem, "exec")
        assert "# tokens = stack.generate(prompts)\n" in script
        assert not re.search(r"(from|import) probes", script), (
            "the package is not where the script is run"
        )
        assert not re.search(
            r"^(def open_torch_subject|class CompiledProgram)", script, re.MULTILINE
        ), "no forward pass is measured"
        (tmp_path / f"{workflow.stem}.py").write_text(script)
    answer = subprocess.run(
        [RUFF, "check", "--isolated", "--select", "F", tmp_path],
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 0, answer.stdout


def test_a_recipe_pins_what_is_installed() -> None:
    pins = [
        Requirement(pin)
        for pin in compose.pin(
            ["import msgspec", "from packaging import version", "import json"],
            {"psutil": "1", "cuda": "13.0"},
            {},
        )
    ]
    assert [pin.name for pin in pins] == ["msgspec", "packaging", "psutil"]
    assert all(
        str(pin.specifier).startswith("==") and "+" not in str(pin.specifier) for pin in pins
    )


def test_a_recipe_asks_for_the_extras_that_the_stack_needs() -> None:
    (pin,) = map(
        Requirement,
        compose.pin(["import msgspec"], {}, {"msgspec": ["toml", "yaml"], "elsewhere": ["more"]}),
    )
    assert (pin.name, pin.extras) == ("msgspec", {"toml", "yaml"})


def test_a_recipe_moves_every_cache_that_a_worker_has_to_itself() -> None:
    assert serving.CACHES == environments.CACHES


def test_a_recipe_sets_what_a_worker_has_set(tmp_path: pathlib.Path) -> None:
    assert compose.THREAD_COUNTS == environments.THREAD_COUNTS
    assert compose.ON_DEMAND == environments.ON_DEMAND
    made = compose.compose(
        workers.make_request(WORKFLOWS[0], tmp_path, threads=3), {}, {1: [1e-7]}, None
    )
    worker = environments.worker_environment({}, builders.question(), 3, tmp_path)
    assert made.variables.keys() == {*environments.THREAD_COUNTS, *environments.ON_DEMAND}
    assert made.variables.items() <= worker.items()


def test_a_definition_brings_what_it_needs_and_nothing_else(tmp_path: pathlib.Path) -> None:
    main = """
import json
import math
FACTOR = 2
# Why this is so.
def area(radius: float, *, factor: float = FACTOR) -> float:
    return factor * math.pi * radius  # noqa: X1 - a rule
def other():
    return json.dumps({})
"""
    text = joined(tmp_path, "area", main=main)
    assert (
        text
        == "import math\nFACTOR = 2\n\n\n# Why this is so.\ndef area(radius, *, factor=FACTOR):\n    return factor * math.pi * radius\n"
    )


def test_what_is_imported_in_a_function_is_brought_along_and_what_does_not_hold_left_out(
    tmp_path: pathlib.Path,
) -> None:
    main = """
import json
def area(kind, options):
    if kind == "other":
        from probes import other

        return json.loads(other.area(kind))
    if options:
        from probes.measuring.warmup_detection import square  # noqa: X1 - a rule

        return square(options)
    from probes.measuring import warmup_detection
    return warmup_detection.circle(kind)
"""
    shapes = "import math\ndef square(value):\n    return value**2\ndef circle(value):\n    return math.pi\n"
    files = {
        f"probes.{name}": tmp_path / f"{name}.py" for name in ("main", "measuring.warmup_detection")
    }
    files["probes.main"].write_text(main)
    files["probes.measuring.warmup_detection"].write_text(shapes)
    joiner = SourceBundler(files, facts={"kind == 'other'": False})
    joiner.add("probes.main", "area")
    text = "\n".join([*joiner.imports(), joiner.definitions()])
    assert joiner.imports() == ["import math"]
    assert (
        "def area(kind, options):\n    if options:\n        return square(options)\n    return circle(kind)"
        in text
    )
    namespace: dict[str, Any] = {}
    exec(text, namespace)
    assert namespace["area"]("x", 3) == 9


def test_two_definitions_of_the_same_name_are_told_apart(tmp_path: pathlib.Path) -> None:
    main = "from probes.measuring import timing\ndef warm_up(size_block):\n    return timing.warm_up, size_block, timing.size_block\n"
    text = joined(
        tmp_path,
        "warm_up",
        main=main,
        measuring__timing="def warm_up():\n    return 1\ndef size_block():\n    return warm_up()\n",
    )
    namespace: dict[str, object] = {}
    exec(text, namespace)
    assert {name for name in namespace if not name.startswith("__")} == {
        "warm_up",
        "timing_warm_up",
        "timing_size_block",
    }
    inner, given, sized = namespace["warm_up"](3)  # type: ignore[operator]
    assert (inner(), given, sized()) == (1, 3, 1)


def test_an_alias_leads_to_what_it_stands_for(tmp_path: pathlib.Path) -> None:
    text = joined(
        tmp_path,
        "stop",
        main="from probes.measuring import timing\nstop = timing.wait\n",
        measuring__timing="def wait():\n    pass\n",
    )
    assert text == "\ndef wait():\n    pass\n"


def test_what_cannot_be_followed_is_refused(tmp_path: pathlib.Path) -> None:
    with pytest.raises(CannotJoinError, match="ONE"):
        joined(tmp_path, "run", main="ONE, TWO = 1, 2\ndef run():\n    return ONE\n")
    with pytest.raises(CannotJoinError, match="defines no"):
        joined(tmp_path, "absent", main="")


def test_a_recipe_runs_and_says_how_fast_it_is(
    fake_probes: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    request = workers.make_request(
        fake_probes / "workflows" / "pytorch_eager.py", tmp_path, batch_sizes=[2, 4]
    )
    made = compose.compose(request, {}, {2: [1e-7], 4: [1e-7]}, None)
    talkative = made.source.replace(
        "return fed @ self.subject.matrix", "print('no JSON'); return fed @ self.subject.matrix"
    )
    assert talkative != made.source
    script = tmp_path / "serve.py"
    script.write_text("\n".join([*made.imports, "MEASURED = {}", talkative]))
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
    made = compose.compose(workers.make_request(file, tmp_path), {}, {1: [1e-7]}, None)
    script = tmp_path / "serve.py"
    script.write_text("\n".join([*made.imports, "MEASURED = {}", made.source]))
    answer = subprocess.run(
        [sys.executable, script, "--json", "--seconds", "0.02"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr
    return json.loads(answer.stdout), answer.stderr


def test_a_recipe_keeps_freed_memory_and_brings_exported_weights_back_for_eager(
    tmp_path: pathlib.Path,
) -> None:
    found, said = run_recipe_of(workers.COUNT_FAULTS + EXPORTING, tmp_path)
    assert found["speedup"] > 0
    assert int(said.split()[-1]) < workers.FAULTS_OF_A_BLOCK, "in the last call that was timed"


def test_a_recipe_that_exports_on_another_device_compares_outputs_and_not_speeds(
    tmp_path: pathlib.Path,
) -> None:
    elsewhere = EXPORTING.replace('type="cpu"', 'type="meta"')
    assert elsewhere != EXPORTING
    found, _ = run_recipe_of(workers.COUNT_FAULTS + elsewhere, tmp_path)
    assert found["speedup"] is None
    assert found["error_against_eager"] == 0


def test_a_recipe_whose_output_is_wrong_refuses_to_serve(
    fake_probes: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    request = workers.make_request(fake_probes / "workflows" / "pytorch_eager.py", tmp_path)
    source = compose.compose(request, {}, {1: [1e-7]}, None)
    script = tmp_path / "serve.py"
    wrong = source.source.replace(
        "return fed @ self.subject.matrix", "return fed @ self.subject.matrix * 1.01"
    )
    assert wrong != source.source
    script.write_text("\n".join([*source.imports, "MEASURED = {}", wrong]))
    answer = subprocess.run(
        [sys.executable, script, "--seconds", "0.05"], capture_output=True, text=True, check=False
    )
    assert answer.returncode != 0
    assert "do not serve" in answer.stderr
