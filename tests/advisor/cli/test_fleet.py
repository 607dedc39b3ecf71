"""`recommend --fleet` and `fleet`, with a recorded run in place of a cluster."""

from __future__ import annotations

import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
import pytest
import recorded_runs
from forks import RunProgram
from recorded_fleet import LOST, cell, fleet_of

from advisor.ask.answers import Answers
from advisor.cli import fleet as fleets
from advisor.cli.execution import InterruptedRunError
from advisor.cli.output import OutputFormat
from advisor.context import Context
from advisor.domain.answer import Fleet, Pool
from advisor.errors import FleetRequestError
from advisor.fleet.run_fleet import Ended, Task
from advisor.store.runs import Run
from advisor.store.store import Store

COMMAND = pathlib.Path(sys.executable).with_name("p3-advisor")


@pytest.fixture
def fleet(home: pathlib.Path) -> Fleet:
    """A fleet with two cells, one of them without a run."""
    store = Store(home)
    run = recorded_runs.make_run(store, finished=True)
    found = fleet_of(
        cell("H200", run.header().run_id), cell("H200", None, model="other", reason=LOST)
    )
    store.fleets.save(found)
    return found


def test_the_matrix_of_a_stored_fleet_is_shown(fleet: Fleet, run_program: RunProgram) -> None:
    shown = run_program("fleet")
    assert shown.returncode == 0, shown.stderr
    assert "the fleet has lost its last H200" in shown.stdout
    document = json.loads(run_program("fleet", fleet.fleet_id[:12], "--json").stdout)
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
        self.tasks: Sequence[Task] = ()
        self.pools: Sequence[Pool] = ()

    def __call__(self, address: str, work: Callable[..., object]) -> FakeCluster:
        assert (address, callable(work)) == ("local", True)
        return self

    def devices(self) -> Mapping[str, int]:
        return self.available

    def run(self, tasks: Sequence[Task], pools: Sequence[Pool]) -> Iterator[Ended]:
        self.tasks, self.pools = tasks, pools
        header, events = self.recorded_run.header(), tuple(self.recorded_run.events())
        for index, task in enumerate(tasks):
            if index == self.completed_runs:
                raise InterruptedRunError(2)
            yield Ended(number=task.number, node="n1", attempts=1, header=header, events=events)

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
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: True)
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


def test_gpu_all_measures_every_gpu(
    cluster: FakeCluster, context: Context, capsys: pytest.CaptureFixture[str]
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
    assert {task.answers.gpu for task in cluster.tasks} == {""}


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
    assert {task.answers.price_per_hour for task in cluster.tasks} == {price}


def test_with_jsonl_the_document_follows_the_cells(
    cluster: FakeCluster, context: Context, capsys: pytest.CaptureFixture[str]
) -> None:
    recommend(context, output_format="json-lines")
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [set(line) for line in lines] == [*[{"cell"}] * len(cluster.tasks), {"document"}]


def test_an_interrupted_fleet_is_resumed_with_the_missing_runs(
    cluster: FakeCluster, context: Context, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.completed_runs = 1
    with pytest.raises(InterruptedRunError) as interruption:
        recommend(context, batch_sizes="2,4")
    interrupted = context.store.fleets.find("latest")
    assert interruption.value.resume_command == f"p3-advisor fleet {interrupted.fleet_id} --resume"
    assert [each.run_id is None for each in interrupted.cells] == [False, True]
    cluster.completed_runs = 1000
    assert fleets.resume_fleet(interrupted, context, "json") == 0
    assert [(task.number, task.answers.batch_sizes) for task in cluster.tasks] == [(1, "2,4")]
    assert "1 runs on 2 x H200\n" in capsys.readouterr().err
    whole = context.store.fleets.find("latest")
    assert [str(each.run_id)[-6:] for each in whole.cells] == ["0001-1", "0002-1"]


def test_resuming_needs_only_the_devices_of_the_missing_runs(
    cluster: FakeCluster, context: Context, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.available = {"H200": 2, "L40S": 1}
    recommend(context, on=("gpu=H200", "gpu=L40S"))
    whole = context.store.fleets.find("latest")
    lost = msgspec.structs.replace(whole.cells[2], reason=LOST)
    cells = (*whole.cells[:2], lost, whole.cells[3])
    context.store.fleets.save(msgspec.structs.replace(whole, cells=cells))
    capsys.readouterr()
    assert fleets.resume_fleet(context.store.fleets.find("latest"), context, "json") == 0
    assert [(task.number, task.kind) for task in cluster.tasks] == [(2, "H200")]
    assert [pool.kind for pool in cluster.pools] == ["H200"]
    assert "on 2 x H200\n" in capsys.readouterr().err
    resumed = context.store.fleets.find("latest")
    assert [each.reason for each in resumed.cells] == [None] * 4


def test_a_cell_whose_run_is_deleted_is_measured_again_and_no_other_one(
    cluster: FakeCluster, context: Context, capsys: pytest.CaptureFixture[str]
) -> None:
    recommend(context)
    first_tasks = cluster.tasks
    whole = context.store.fleets.find("latest")
    capsys.readouterr()
    assert fleets.resume_fleet(whole, context, "json") == 0
    assert cluster.tasks is first_tasks
    assert " x H200" not in capsys.readouterr().err
    context.store.delete(str(whole.cells[1].run_id))
    assert fleets.resume_fleet(whole, context, "json") == 0
    assert [task.number for task in cluster.tasks] == [1]
    assert [each["answer"]["arm"] for each in json.loads(capsys.readouterr().out)["cells"]] == [
        "compiled",
        "compiled",
    ]
