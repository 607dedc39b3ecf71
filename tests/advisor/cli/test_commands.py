"""Commands on stored results, which need no stack, and the schemas of documents."""

from __future__ import annotations

import functools
import json
import pathlib
import re
import shlex
import subprocess
import sys
import venv

import jsonschema
import msgspec
import pytest
import recorded_runs
import sessions
from forks import RunCli, RunProgram, run_command
from generate import schema_file
from kept.runs import EVIDENCE, NAMES

from advisor.ask import catalogue_files
from advisor.cli import schemas
from advisor.domain.answer import encode
from advisor.domain.errors import NoRecipeError
from advisor.domain.plan import EAGER
from advisor.probing import env_registry
from advisor.report.answer_files import answer_of_run
from advisor.report.headline import AnswerDocument
from advisor.store.runs import Run
from advisor.store.store import Store

COMMAND = pathlib.Path(sys.executable).with_name("p3-advisor")


def test_a_run_is_repeated_with_another_interpreter_and_compared(
    stored: Run,
    home: pathlib.Path,
    fake_probes: pathlib.Path,
    tmp_path: pathlib.Path,
    run_cli: RunCli,
) -> None:
    venv.create(tmp_path / "other", with_pip=False)
    (packages,) = (tmp_path / "other").glob("lib/*/site-packages")
    (packages / "all.pth").write_text("\n".join(filter(None, sys.path)))
    other = str(tmp_path / "other" / "bin" / "python")
    answer = run_cli(
        "upgrade", stored.directory.name, "--python", other, "--json", home=home, probes=fake_probes
    )
    assert answer.returncode == 0, answer.stderr
    comparison = json.loads(answer.stdout)
    jsonschema.validate(comparison, json.loads(schema_file("comparison").read_text()))
    assert comparison["before"] == stored.directory.name
    after = Store(home).find(comparison["after"])
    assert after.header().question.python == other
    state = after.state()
    assert state.finished
    process = state.processes["quick"][0]
    assert process.imported
    assert process.imported.environment
    assert process.imported.environment.interpreter == other
    measured = {"pytorch-eager", "alike", "quick"}
    assert {each["arm"] for each in comparison["costs"]} == measured
    assert {each.id for each in state.plan.arms if not each.duplicate_of} == measured
    missing = run_cli("upgrade", stored.directory.name, "--python", "/missing/python", home=home)
    assert missing.returncode == 3, missing.stderr


def test_the_environment_that_is_named_is_that_of_the_device(run_program: RunProgram) -> None:
    question = ("--gpu", "cpu", "--task", "generate", "--model", "demo/llama")
    named = ("--workflows", "vllm,onnxruntime-genai", "--leave-out", "onnxruntime-genai")
    eager, vllm = json.loads(run_program("workflows", "--json", *question, *named).stdout)
    assert (eager["id"], vllm["id"]) == (EAGER, "vllm")
    assert vllm["status"] == "not-installed"
    assert "env create vllm-cpu" in vllm["fix"]


def test_doctor_fails_without_torch_with_the_fix(
    tmp_path: pathlib.Path, run_program: RunProgram
) -> None:
    bare = tmp_path / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", bare], check=True)
    answer = run_program("doctor", "--python", str(bare / "bin" / "python"))
    assert answer.returncode == 3
    assert "next: " in answer.stdout
    failed = run_program("--json", "--python", str(bare / "bin" / "python"))
    assert failed.returncode == 3
    assert "pip install" in failed.stderr


def test_a_closed_pipe_causes_no_traceback(stored: Run, home: pathlib.Path) -> None:
    piped = f"exec 3> >(true); wait $!; {COMMAND} show {stored.directory.name} --json >&3"
    answer = run_command(["bash", "-c", piped], {"P3_ADVISOR_HOME": str(home)})
    assert (answer.returncode, answer.stderr) == (141, "")


def test_explain_shows_the_facts_behind_a_tier(stored: Run, run_program: RunProgram) -> None:
    answer = run_program("explain", stored.directory.name, "quick", "performance")
    assert answer.returncode == 0, answer.stderr
    assert "speedup" in answer.stdout
    assert run_program("explain", stored.directory.name, "quick", "beauty").returncode == 2


def test_an_imported_answer_without_a_recommendation_has_the_problem(
    home: pathlib.Path, run_program: RunProgram
) -> None:
    recorded_runs.make_gpu_run(Store(home))
    asked = ("--gpu", "H100", "--model", "synthetic/ffn@8x16")
    (line,) = run_program("recommend", *asked, "--jsonl").stdout.splitlines()
    assert json.loads(line)["document"]["provenance"], "it has no run"
    answer = run_program("--json", *asked, "--require", "speedup>=1000")
    document = json.loads(answer.stdout)
    assert document["provenance"]
    assert (answer.returncode, document["problem"]["name"]) == (1, "nothing-viable")
    assert document["problem"]["next_step"] in answer.stderr


def test_commands_print_the_short_answer_and_in_full_the_whole(run_program: RunProgram) -> None:
    file = str(EVIDENCE / "h100-whisper-base-float16-standard.json")
    short, full = (run_program("show", file, *options).stdout for options in ((), ("--full",)))
    heading = "Grades of the advised arm:"
    assert heading in full.splitlines()
    assert heading not in short.splitlines()
    assert full.startswith(short.splitlines()[0])
    recipe = next(line for line in short.splitlines() if "p3-advisor recipe" in line)
    code = run_program(*shlex.split(recipe.partition("p3-advisor ")[2])).stdout
    assert 'torch.compile(model, mode="reduce-overhead")' in code
    refused = run_program("recipe", file, "--style", "server")
    assert refused.returncode == NoRecipeError.exit_code, refused.stderr


def test_after_deciding_again_the_printed_commands_are_about_the_arm_that_is_advised(
    run_program: RunProgram,
) -> None:
    file = str(EVIDENCE / "cpu-demo.json")
    weights = ["--priority", "performance=10,productivity=60,portability=30"]
    decided = run_program("decide", file, *weights).stdout
    advised = json.loads(run_program("decide", file, *weights, "--json").stdout)
    arm = advised["recommendation"]["arm"]
    assert arm != json.loads(run_program("show", file, "--json").stdout)["recommendation"]["arm"]
    recipe, full = (
        shlex.split(line.partition("p3-advisor ")[2])
        for line in decided.splitlines()
        if line.startswith(("Code for your model", "All figures"))
    )
    assert run_program(*recipe).stdout == run_program("recipe", file, arm).stdout
    assert " ".join(decided.split()).startswith(run_program(*full).stdout.splitlines()[0])
    assert shlex.split(advised["rerun_command"])[1:] == ["decide", file, *weights, "--json"]


def test_the_printed_command_repeats_an_answer_that_is_not_stored(
    home: pathlib.Path, run_program: RunProgram
) -> None:
    recorded_runs.make_gpu_run(Store(home))
    asked = ["--gpu", "H100", "--model", "synthetic/ffn@8x16", "--batch-sizes", "1"]
    asked += ["--priority", "performance=10,productivity=80,portability=10"]
    text = run_program("recommend", *asked, "--require", "portability>=1").stdout
    command = (
        text.splitlines()[-1]
        .partition("p3-advisor ")[2]
        .removesuffix(" prints every figure with its source.")
    )
    again = json.loads(run_program(*shlex.split(command)).stdout)
    titles = {each["arm"]: each["title"] for each in again["scores"]}
    assert text.startswith(f"Use {titles[again['recommendation']['arm']]} for")
    assert again["question"]["priorities"]["productivity"] == 80
    assert again["question"]["batch_sizes"] == [1]
    assert again["question"]["constraints"] == [
        {"quantity": "portability", "comparison": ">=", "limit": 1}
    ]
    assert again["rerun_command"] == f"p3-advisor {command}"


def test_environments_are_listed_with_their_workflows(run_program: RunProgram) -> None:
    rows = {row["name"]: row for row in json.loads(run_program("env", "list", "--json").stdout)}
    assert rows["openvino"]["workflows"] == ["torch-compile-openvino", "openvino"]
    assert {row["state"] for row in rows.values()} == {"not created"}
    listed = run_program("env", "list").stdout
    removed = run_program("env", "remove", "openvino").stderr
    assert all("not created" in text for text in (listed, removed))


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (("env", "create", "nonsense"), 2, "there is no environment 'nonsense'"),
        (("env", "create", "openvino", "--with", "--index-url=x"), 2, "--with 'einops>=0.8'"),
    ],
)
def test_commands_on_a_missing_environment_fail_with_the_fix(
    arguments: tuple[str, ...], status: int, words: str, run_program: RunProgram
) -> None:
    answer = run_program(*arguments)
    assert answer.returncode == status
    assert words in answer.stderr
    assert "Traceback" not in answer.stderr


def test_doctor_names_the_command_that_creates_a_broken_environment_again(
    home: pathlib.Path, run_program: RunProgram
) -> None:
    sessions.add_own_environment(home, "openvino", catalogue_files.catalogue_directory())
    findings = {each["name"]: each for each in json.loads(run_program("doctor", "--json").stdout)}
    assert findings["environment openvino"]["what"] == env_registry.INTERPRETER_MISSING
    assert findings["environment openvino"]["fix"] == "p3-advisor env create openvino"


@functools.cache
def validator(name: str) -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(json.loads(schema_file(name).read_bytes()))


def test_the_page_for_scripts_lists_the_exit_codes() -> None:
    page = (EVIDENCE.parents[2] / "docs" / "ci.md").read_text(encoding="utf-8")
    table = page.split("## Exit status", 1)[1].split("##", 1)[0]
    assert dict(re.findall(r"\| (\d+) \| (.*) \|", table)) == schemas.EXIT_CODES


def test_every_shipped_schema_file_is_generated() -> None:
    shipped = {file.name for file in schema_file("run").parent.iterdir()}
    assert shipped == {schema_file(name).name for name in schemas.SHIPPED}


@pytest.mark.parametrize("name", schemas.SHIPPED)
def test_a_shipped_schema_is_a_json_schema(name: str) -> None:
    validator(name).check_schema(validator(name).schema)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_the_answer_of_a_real_run_is_valid(name: str) -> None:
    validator("run").validate(json.loads((EVIDENCE / f"{name}.json").read_text()))


def test_the_files_and_the_answer_of_a_new_run_are_valid(recorded_home: pathlib.Path) -> None:
    (run,) = map(Run, (recorded_home / "runs").glob("*-*"))
    validator("run-header").validate(json.loads((run.directory / "run.json").read_text()))
    for line in (run.directory / "events.jsonl").read_text().splitlines():
        validator("event").validate(json.loads(line))
    validator("run").validate(json.loads(encode(AnswerDocument.of(answer_of_run(run)))))


@pytest.mark.parametrize("name", ["criteria", "gpus", "guidelines", "models", "presets"])
def test_a_file_of_the_catalogue_is_valid(name: str) -> None:
    file = catalogue_files.catalogue_directory() / f"{name}.toml"
    validator(name).validate(msgspec.toml.decode(file.read_bytes()))


def test_the_specification_is_valid_against_its_own_schemas() -> None:
    specification = json.loads(schemas.describe_program())
    own = {
        name: jsonschema.Draft202012Validator(schema)
        for name, schema in specification["schemas"].items()
    }
    assert set(own) == set(schemas.SHIPPED)
    for name, key in (("criteria", "rubric"), ("presets", "presets"), ("models", "models")):
        own[name].validate(specification[key])
    assert specification["workflows"]
    for workflow in specification["workflows"]:
        own["workflow"].validate(workflow)
