"""The commands that need no stack."""

from __future__ import annotations

import json
import os
import pathlib
import shlex
import subprocess
import sys
from collections.abc import Callable

import jsonschema
import msgspec
import pytest

from advisor import catalogue, schemas
from advisor.context import Context
from advisor.pipeline.draft import prepare
from advisor.pipeline.execution import execute
from advisor.probing.environments import places
from advisor.question.answers import Answers

COMMAND = pathlib.Path(sys.executable).with_name("p3-advisor")


@pytest.fixture
def finished_run(fake_world: Callable[[], Context]) -> str:
    """A run of pretend workflows: `quick` is four times as fast as the baseline, `alike` as fast."""
    world = fake_world()
    run = prepare(Answers(batch_sizes="1,2", budget="6", workflows="quick,alike"), world)
    for _ in execute(run, world):
        pass
    return run.directory.name


def advise(*arguments: str, home: pathlib.Path, **more: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "P3_ADVISOR_HOME": str(home), **more}
    return subprocess.run(
        [COMMAND, *arguments], capture_output=True, text=True, env=environment, check=False
    )


def test_show_prints_a_document_that_fits_the_shipped_schema(
    finished_run: str, home: pathlib.Path
) -> None:
    answer = advise("show", finished_run, "--json", home=home)
    assert answer.returncode == 0, answer.stderr
    document = json.loads(answer.stdout)
    jsonschema.validate(document, json.loads(schemas.file_of("run").read_text()))
    quick = next(entry for entry in document["workflows"] if entry["arm"] == "quick")
    assert quick["status"] == "completed"
    assert quick["speedup"]["value"] > 2
    assert document["race"]["noise_floor"] < 1
    assert document["recommendation"]["flips"]


def test_decide_gives_the_same_bytes_twice(finished_run: str, home: pathlib.Path) -> None:
    first, second = (advise("decide", finished_run, "--json", home=home).stdout for _ in range(2))
    assert first == second
    assert json.loads(first)["run_id"] == finished_run


def test_decide_with_other_weights_changes_the_answer_where_the_flips_said(
    finished_run: str, home: pathlib.Path
) -> None:
    said = json.loads(advise("decide", finished_run, "--json", home=home).stdout)
    weights = said["question"]["priorities"]
    flip = next(
        flip for flip in said["recommendation"]["flips"] if flip["criterion"] == "performance"
    )
    toward = 1 if flip["weight"] > weights["performance"] else -1
    for beyond, expected in ((-0.01, said["recommendation"]["arm"]), (0.01, flip["to"])):
        performance = flip["weight"] + toward * beyond
        rest = (100 - performance) / (weights["productivity"] + weights["portability"])
        text = f"performance={performance!r},productivity={weights['productivity'] * rest!r},portability={weights['portability'] * rest!r}"
        answer = advise("decide", finished_run, "--weights", text, "--json", home=home)
        assert answer.returncode == 0, answer.stderr
        assert json.loads(answer.stdout)["recommendation"]["arm"] == expected


def test_a_constraint_bars_an_arm_without_changing_its_score(
    finished_run: str, home: pathlib.Path
) -> None:
    free = json.loads(
        advise("decide", finished_run, "--json", "--preset", "serving", home=home).stdout
    )
    barred = json.loads(
        advise(
            "decide",
            finished_run,
            "--json",
            "--preset",
            "serving",
            "--require",
            "portability>=2",
            home=home,
        ).stdout
    )
    assert free["recommendation"]["arm"] == "quick"
    assert barred["recommendation"]["arm"] != "quick"
    scores = [
        {entry["arm"]: entry["score"] for entry in document["workflows"]}
        for document in (free, barred)
    ]
    assert scores[0] == scores[1]


def test_a_constraint_that_nothing_meets_gives_no_recommendation_but_the_document(
    finished_run: str, home: pathlib.Path
) -> None:
    answer = advise(
        "decide", finished_run, "--json", "--require", "performance>=3,portability>=3", home=home
    )
    assert answer.returncode == 1
    document = json.loads(answer.stdout)
    assert document["recommendation"] is None
    assert document["problem"]["name"] == "nothing-viable"


def test_history_lists_runs_newest_first_and_survives_the_loss_of_its_index(
    finished_run: str, home: pathlib.Path
) -> None:
    first = advise("history", home=home).stdout
    (home / "index.sqlite").unlink()
    assert advise("history", home=home).stdout == first
    assert finished_run in first


def test_spec_describes_every_option_and_schema(home: pathlib.Path) -> None:
    described = json.loads(advise("--spec", home=home).stdout)
    assert set(described["schemas"]) == set(schemas.SHIPPED)
    assert {entry["id"] for entry in described["workflows"]} >= {
        "pytorch-eager",
        "tensorrt-llm",
        "vllm",
    }
    for field in Answers.__struct_fields__:
        assert (
            f"--{field.replace('_', '-')}"
            in advise("recommend", "--help", home=home, COLUMNS="200").stdout
        )


def test_workflows_names_a_reason_for_everything_that_does_not_apply(home: pathlib.Path) -> None:
    rows = json.loads(advise("workflows", "--json", "--gpu", "cpu", home=home).stdout)
    assert all(row["status"] == "applies" or row["reason"] for row in rows)
    assert next(row for row in rows if row["id"] == "tensorrt-llm")["status"] == "unsupported"


def test_doctor_fails_without_torch_and_says_how_to_get_it(
    home: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    bare = tmp_path / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", bare], check=True)
    answer = advise("doctor", "--python", str(bare / "bin" / "python"), home=home)
    assert answer.returncode == 3
    assert "next: " in answer.stdout
    refused = advise("--json", "--python", str(bare / "bin" / "python"), home=home)
    assert refused.returncode == 3
    assert "pip install" in refused.stderr


def test_a_reader_that_leaves_early_gets_no_traceback(
    finished_run: str, home: pathlib.Path
) -> None:
    environment = {**os.environ, "P3_ADVISOR_HOME": str(home)}
    answer = subprocess.run(
        f"{COMMAND} show {finished_run} --json | head -c 10",
        shell=True,
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert answer.stdout == '{\n  "schem'
    assert answer.stderr == ""


def test_explain_shows_the_chain_to_the_score(finished_run: str, home: pathlib.Path) -> None:
    answer = advise("explain", finished_run, "quick", "performance", home=home)
    assert answer.returncode == 0, answer.stderr
    assert "geometric mean over the batch sizes" in answer.stdout
    assert "speedup_low" in answer.stdout
    assert advise("explain", finished_run, "quick", "beauty", home=home).returncode == 2


def test_the_answer_says_what_a_build_costs_and_how_firmly_it_stands(
    finished_run: str, home: pathlib.Path
) -> None:
    said = json.loads(
        advise("decide", finished_run, "--preset", "serving", "--json", home=home).stdout
    )["recommendation"]
    assert 0 < said["simplex_share"] <= 1
    assert said["arm"] in said["pareto"]
    assert {entry["batch_size"] for entry in said["break_even"]} == {1, 2}
    assert {entry["requests"] for entry in said["horizons"]} == {10**power for power in range(2, 8)}
    assert said["guideline"]["says"]


def test_a_gpu_that_is_not_attached_is_answered_from_published_figures(home: pathlib.Path) -> None:
    model = "TinyLlama/TinyLlama-1.1B-Chat-v1.0"
    answer = advise(
        "--json", "--gpu", "RTX 4090", "--model", model, "--preset", "serving", home=home
    )
    assert answer.returncode == 0, answer.stderr
    document = json.loads(answer.stdout)
    jsonschema.validate(document, json.loads(schemas.file_of("run").read_text()))
    assert document["recommendation"]["workflow"] == "tensorrt-llm"
    assert document["recommendation"]["trust"] == "D"
    assert {entry["evidence"] for entry in document["workflows"]} == {"published"}
    assert all(
        rating["evidence"] in {"published", "declared"}
        for entry in document["workflows"]
        for rating in (entry["scores"] or {}).values()
    )


def test_the_command_of_an_answer_that_is_not_stored_gives_it_again(home: pathlib.Path) -> None:
    model = "TinyLlama/TinyLlama-1.1B-Chat-v1.0"
    asked = [
        "--gpu",
        "RTX 4090",
        "--model",
        model,
        "--priority",
        "performance=10,productivity=80,portability=10",
        "--batch-sizes",
        "1,64",
    ]
    text = advise("recommend", *asked, "--require", "portability>=2", home=home).stdout
    command = (
        text.splitlines()[-1]
        .partition("p3-advisor ")[2]
        .removesuffix(" has every figure and its source.")
    )
    again = json.loads(advise(*shlex.split(command), home=home).stdout)
    assert f"Use {again['recommendation']['arm']} for" in text
    assert again["question"]["priorities"]["productivity"] == 80
    assert again["question"]["batch_sizes"] == [1, 64]
    assert again["question"]["constraints"] == [{"criterion": "portability", "at_least": 2}]
    assert again["again"] == f"p3-advisor {command}"


def test_as_events_an_answer_without_a_run_is_one_line_too(home: pathlib.Path) -> None:
    asked = ["--gpu", "RTX 4090", "--model", "TinyLlama/TinyLlama-1.1B-Chat-v1.0"]
    (line,) = advise("recommend", *asked, "--jsonl", home=home).stdout.splitlines()
    assert json.loads(line)["document"]["run_id"] == "published"


def test_environments_are_listed_with_what_they_are_for(home: pathlib.Path) -> None:
    rows = {
        row["name"]: row for row in json.loads(advise("env", "list", "--json", home=home).stdout)
    }
    assert rows["openvino"]["workflows"] == ["torch-compile-openvino", "openvino"]
    assert {row["state"] for row in rows.values()} == {"not made"}


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (("env", "path", "openvino"), 3, "p3-advisor env create openvino"),
        (("env", "check", "openvino"), 3, "p3-advisor env create openvino"),
        (("env", "create", "nonsense"), 2, "there is no environment 'nonsense'"),
        (("env", "create", "pytorch-eager"), 2, "no environment of its own"),
        (("env", "remove", "openvino"), 0, "there was none"),
    ],
)
def test_an_environment_that_is_not_there_is_told(
    arguments: tuple[str, ...], status: int, words: str, home: pathlib.Path
) -> None:
    answer = advise(*arguments, home=home)
    assert answer.returncode == status
    assert words in answer.stderr
    assert "Traceback" not in answer.stderr


def test_the_doctor_mends_an_environment_that_is_broken(
    home: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    known = places.own_environments(catalogue.load().workflows)["openvino"]
    digest = places.digest_of(known, places.lock_file(catalogue.rubric_directory(), "openvino"))
    directory = places.directory_of(home / "environments", "openvino", digest)
    (directory / "bin").mkdir(parents=True)
    record = places.Record(
        name="openvino",
        digest=digest,
        python_version="3",
        packages={},
        disk_bytes=1,
        seconds=1,
        made="2026-11-21",
    )
    (directory / places.RECORD).write_bytes(msgspec.json.encode(record))
    found = {
        each["name"]: each for each in json.loads(advise("doctor", "--json", home=home).stdout)
    }
    assert found["environment openvino"]["what"] == "its interpreter is gone"
    assert (
        found["environment openvino"]["fix"]
        == "p3-advisor env create openvino, or p3-advisor doctor --repair"
    )
    # Without anything in uv's cache and without a network it says what it lacks, which shows that
    # it tries.
    nothing = {
        "UV_OFFLINE": "1",
        "UV_CACHE_DIR": str(tmp_path / "cache"),
        "UV_NO_INDEX": "1",
        "UV_FIND_LINKS": str(tmp_path),
    }
    answer = advise("doctor", "--repair", home=home, **nothing)
    assert answer.returncode == 3
    assert "openvino cannot be made" in answer.stderr
