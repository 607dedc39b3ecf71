"""`recommend --fleet` and `fleet`, with a recorded run in place of a cluster."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec
import pytest
import recorded_fleet
import recorded_runs
from forks import RunProgram
from recorded_fleet import answered

from advisor.ask.answers import Answers
from advisor.cli import fleet as fleets
from advisor.cli.execution import InterruptedRunError
from advisor.cli.output import OutputFormat
from advisor.context import Context
from advisor.domain.answer import FleetRecord, Pool
from advisor.errors import FleetRequestError
from advisor.fleet.node import Ended, Task
from advisor.fleet.run_fleet import Progress, Started, TaskEvent
from advisor.report import fleet_matrix
from advisor.store.runs import Run
from advisor.store.store import Store

COMMAND = pathlib.Path(sys.executable).with_name("p3-advisor")


@pytest.fixture
def fleet(home: pathlib.Path) -> FleetRecord:
    """A fleet with two results, one of them without a run."""
    store = Store(home)
    run = recorded_runs.make_run(store, finished=True)
    record = recorded_fleet.record(
        answered("H200", run.header().run_id),
        answered("H200", model="other", number=2, reason=recorded_fleet.LOST),
        fleet_id="20261121-120000-f1ee",
    )
    store.fleets.save(record)
    return record


def test_the_matrix_of_a_stored_fleet_is_shown(fleet: FleetRecord, run_program: RunProgram) -> None:
    shown = run_program("fleet")
    assert shown.returncode == 0, shown.stderr
    assert "the fleet has lost its last H200" in shown.stdout
    document = json.loads(run_program("fleet", fleet.request.fleet_id[:12], "--json").stdout)
    assert [cell["model"] for cell in document["cells"]] == ["demo", "other"]
    assert (
        document["cells"][0]["run_id"]
        in run_program("show", document["cells"][0]["run_id"], "--json").stdout
    )


def test_an_unknown_fleet_is_an_error(run_program: RunProgram) -> None:
    failed = run_program("fleet", "2025")
    assert failed.returncode == 2
    assert "2025" in failed.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--models", "a,b"], "--models and --on need a fleet"),
        (["--on", "cpu"], "--models and --on need a fleet"),
        (["--fleet", "local", "--on", "colour=red"], "names no device"),
    ],
)
def test_an_invalid_request_is_an_error_before_a_cluster_is_joined(
    arguments: list[str], words: str, run_program: RunProgram
) -> None:
    failed = run_program("recommend", *arguments)
    assert failed.returncode == 2
    assert words in failed.stderr
    assert failed.stdout == ""


@pytest.mark.parametrize("arguments", [["--fleet", "local"], ["--gpu", "all"]])
def test_without_the_extra_the_error_says_what_to_install(
    arguments: list[str], home: pathlib.Path
) -> None:
    without_ray = (
        "import sys; sys.modules['ray'] = None; from advisor.cli import main; main(sys.argv[1:])"
    )
    failed = subprocess.run(
        [sys.executable, "-c", without_ray, "recommend", *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "P3_ADVISOR_HOME": str(home), "XDG_CONFIG_HOME": str(home)},
        check=False,
    )
    assert failed.returncode == 3
    assert failed.stderr.splitlines() == [
        "p3-advisor: a fleet needs the package ray",
        "  next: in a checkout of p3-advisor: pip install '.[fleet]'",
    ]


def test_a_negative_price_in_the_settings_is_an_error(
    home: pathlib.Path, run_program: RunProgram
) -> None:
    file = home / "settings" / "p3-advisor" / "config.toml"
    file.parent.mkdir(parents=True)
    file.write_text("[prices]\nH200 = -1\n")
    failed = run_program("recommend", "--fleet", "local")
    assert failed.returncode == 2
    assert "prices" in failed.stderr


class FakeCluster:
    """A cluster that returns the recorded run for every assignment."""

    available: Mapping[str, int] = {"H200": 2, "cpu": 1}

    def __init__(self, run: Run) -> None:
        self.recorded_run = run
        #: Races that complete before the program is interrupted.
        self.completed_runs = 1000
        self.tasks: Mapping[int, Task] = {}
        self.pools: tuple[Pool, ...] = ()

    def __call__(self, address: str, work: Callable[..., object]) -> FakeCluster:
        assert (address, callable(work)) == ("local", True)
        return self

    def devices(self) -> Mapping[str, int]:
        return self.available

    def run(self, tasks: Mapping[int, Task], pools: tuple[Pool, ...]) -> Iterator[TaskEvent]:
        self.tasks, self.pools = tasks, pools
        header, events = self.recorded_run.header(), tuple(self.recorded_run.events())
        for index, number in enumerate(tasks):
            yield Started(number=number, token="a", node="n1", device="0", header=header)
            yield Progress(number=number, token="a", logged_event=events[-1])
            if index == self.completed_runs:
                raise InterruptedRunError(2)
            yield Ended(number=number, token="a", events=events)

    def close(self) -> None:
        pass


@pytest.fixture
def cluster(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    recorded = FakeCluster(recorded_runs.make_run(Store(tmp_path / "node"), finished=True))
    monkeypatch.setitem(
        sys.modules,
        "advisor.fleet.cluster",
        types.SimpleNamespace(LOCAL="local", RayCluster=recorded),
    )
    monkeypatch.setattr(fleets, "REQUIRED_PACKAGES", ())
    monkeypatch.setattr(fleet_matrix, "to_parquet", lambda *_: b"PAR1")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    return recorded


def recommend(
    context: Context,
    *,
    on: tuple[str, ...] = (),
    output_format: OutputFormat = "json",
    **answers: object,
) -> int:
    converted = msgspec.convert(answers, Answers)
    return fleets.recommend(converted, "demo,other", on, "", context, output_format)


@pytest.fixture
def context(home: pathlib.Path) -> Context:
    return Context(environment={}, store=Store(home))


def test_gpu_all_measures_every_gpu_and_stores_the_figures(
    cluster: FakeCluster, context: Context, home: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert recommend(context, gpu="all") == 0
    printed = capsys.readouterr()
    document = json.loads(printed.out)
    assert [(cell["model"], cell["kind"], cell["attempts"]) for cell in document["cells"]] == [
        ("demo", "H200", 1),
        ("other", "H200", 1),
    ]
    assert all(cell["answer"]["arm"] for cell in document["cells"])
    assert "on 2 x H200\n" in printed.err
    assert [file.read_bytes() for file in (home / "fleets").glob("*.parquet")] == [b"PAR1"]
    assert {task.answers.gpu for task in cluster.tasks.values()} == {""}


def test_a_fleet_does_not_split_models(cluster: FakeCluster, context: Context) -> None:
    with pytest.raises(FleetRequestError):
        recommend(context, gpus_per_model=2)
    assert not cluster.tasks


def test_gpu_all_without_gpus_is_an_error(cluster: FakeCluster, context: Context) -> None:
    cluster.available = {"cpu": 1}
    with pytest.raises(FleetRequestError, match="no GPU is attached"):
        recommend(context, gpu="all")


@pytest.mark.parametrize(
    ("on", "answers", "price"),
    [((), {}, 3.5), (("gpu=H200,price=2",), {}, 2.0), ((), {"price_per_hour": 1.0}, 1.0)],
)
def test_a_price_comes_from_on_the_option_or_the_settings(
    cluster: FakeCluster,
    context: Context,
    tmp_path: pathlib.Path,
    on: tuple[str, ...],
    answers: dict[str, Any],
    price: float,
) -> None:
    (tmp_path / "p3-advisor").mkdir()
    (tmp_path / "p3-advisor" / "config.toml").write_text("[prices]\nH200 = 3.5\n")
    recommend(context, on=on, **answers)
    assert {task.answers.price_per_hour for task in cluster.tasks.values()} == {price}


def test_with_jsonl_the_document_follows_the_events(
    cluster: FakeCluster, context: Context, capsys: pytest.CaptureFixture[str]
) -> None:
    recommend(context, output_format="json-lines")
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line.get("event") for line in lines] == [
        *["started", "progress", "assignment_result"] * len(cluster.tasks),
        None,
    ]
    assert set(lines[-1]) == {"document"}


def test_an_interrupted_fleet_is_resumed_with_the_missing_runs(
    cluster: FakeCluster, context: Context, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.completed_runs = 1
    with pytest.raises(InterruptedRunError) as interruption:
        recommend(context, batch_sizes="2,4")
    (interrupted,) = [context.store.fleets.find(name) for name in context.store.fleets.ids()]
    assert (
        interruption.value.resume_command
        == f"p3-advisor fleet {interrupted.request.fleet_id} --resume"
    )
    assert [one.assignment.model for one in interrupted.answered] == ["demo"]
    cluster.completed_runs, cluster.available = 1000, {"H200": 1}
    assert fleets.resume_fleet(interrupted, context, "json") == 0
    assert [(task.number, task.answers.batch_sizes) for task in cluster.tasks.values()] == [
        (2, "2,4")
    ]
    printed = capsys.readouterr()
    assert "on 1 x H200\n" in printed.err
    whole = context.store.fleets.find("latest")
    assert [one.assignment.model for one in whole.answered] == ["demo", "other"]
    assert [one.attempts[-1].run_id[-6:] for one in whole.answered] == ["0001-1", "0002-2"], (
        "the interrupted attempt keeps its run"
    )
    assert context.store.find(f"{interrupted.request.fleet_id}-0002-1").events()


def test_resuming_needs_only_the_devices_of_the_missing_runs(
    cluster: FakeCluster, context: Context, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.available = {"H200": 2, "L40S": 1}
    recommend(context, on=("gpu=H200", "gpu=L40S"))
    whole = context.store.fleets.find("latest")
    lost = msgspec.structs.replace(whole.answered[2], reason="the fleet has lost its last H200")
    context.store.fleets.save(
        msgspec.structs.replace(whole, answered=(*whole.answered[:2], lost, whole.answered[3]))
    )
    cluster.available = {"H200": 1}
    capsys.readouterr()
    assert fleets.resume_fleet(context.store.fleets.find("latest"), context, "json") == 0
    assert [(number, task.kind) for number, task in cluster.tasks.items()] == [(3, "H200")]
    assert "on 1 x H200\n" in capsys.readouterr().err
    resumed = context.store.fleets.find("latest")
    assert [(pool.kind, pool.count) for pool in resumed.request.pools] == [("H200", 1), ("L40S", 1)]
    assert [(one.assignment.number, one.reason) for one in resumed.answered] == [
        (number, None) for number in (1, 2, 3, 4)
    ]


def test_an_assignment_whose_run_is_deleted_is_repeated_and_no_other_one(
    cluster: FakeCluster, context: Context, capsys: pytest.CaptureFixture[str]
) -> None:
    recommend(context)
    first_tasks = cluster.tasks
    whole = context.store.fleets.find("latest")
    capsys.readouterr()
    assert fleets.resume_fleet(whole, context, "json") == 0
    assert cluster.tasks is first_tasks
    assert " x H200" not in capsys.readouterr().err
    shutil.rmtree(context.store.find(whole.answered[1].attempts[-1].run_id).directory)
    capsys.readouterr()
    assert fleets.resume_fleet(whole, context, "json") == 0
    assert list(cluster.tasks) == [2]
    assert [cell["answer"]["arm"] for cell in json.loads(capsys.readouterr().out)["cells"]] == [
        "compiled",
        "compiled",
    ]


def test_a_fleet_without_its_question_cannot_be_resumed(
    cluster: FakeCluster, context: Context, fleet: FleetRecord
) -> None:
    with pytest.raises(FleetRequestError, match="does not contain its question"):
        fleets.resume_fleet(fleet, context, "json")
    assert not cluster.tasks
