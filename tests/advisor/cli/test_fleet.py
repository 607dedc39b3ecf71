"""What a fleet has answered, shown again; and what is refused before any cluster is asked."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
import sys
import types
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import pytest
import recorded_runs

from advisor.cli import fleet as fleets
from advisor.cli.interruption import InterruptedRunError
from advisor.context import Context
from advisor.domain.fleet import (
    FLEET_SCHEMA,
    Answered,
    Assignment,
    Attempt,
    Contention,
    FleetRecord,
    Order,
    Pool,
)
from advisor.errors import FleetOrderError
from advisor.fleet import Begun, Delivered, Notice, Told
from advisor.fleet.node import Packed, Task
from advisor.question.answers import Answers
from advisor.report import parquet
from advisor.store import Run, Store

COMMAND = pathlib.Path(sys.executable).with_name("p3-advisor")


def advise(*arguments: str, home: pathlib.Path) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "P3_ADVISOR_HOME": str(home),
        "XDG_CONFIG_HOME": str(home / "settings"),
    }
    return subprocess.run(
        [COMMAND, *arguments], capture_output=True, text=True, env=environment, check=False
    )


@pytest.fixture
def fleet(home: pathlib.Path) -> FleetRecord:
    """Two answers, one of them without a run."""
    store = Store(home)
    run = recorded_runs.make_run(store, finished=True)
    order = Order(
        fleet_id="20261121-120000-f1ee",
        created="2026-11-21T12:00:00+00:00",
        models=("demo", "other"),
        pools=(Pool(kind="H200"),),
    )
    kept = FleetRecord(
        schema=FLEET_SCHEMA,
        order=order,
        answered=(
            Answered(
                assignment=Assignment(number=1, model="demo", kind="H200"),
                attempts=(Attempt(run_id=run.header().run_id, node="n1", device="0"),),
            ),
            Answered(
                assignment=Assignment(number=2, model="other", kind="H200"),
                attempts=(),
                reason="the fleet has lost its last H200",
            ),
        ),
        contentions=(
            Contention(node="n1", kind="H200", model="demo", free=False, words="races take turns"),
        ),
    )
    store.fleets.keep(kept)
    return kept


def test_the_matrix_is_shown_again(fleet: FleetRecord, home: pathlib.Path) -> None:
    shown = advise("fleet", home=home)
    assert shown.returncode == 0, shown.stderr
    assert "the fleet has lost its last H200" in shown.stdout
    assert "demo on H200, node n1: races take turns" in shown.stdout
    document = json.loads(advise("fleet", fleet.order.fleet_id[:12], "--json", home=home).stdout)
    assert [cell["model"] for cell in document["cells"]] == ["demo", "other"]
    assert (
        document["cells"][0]["run_id"]
        in advise("show", document["cells"][0]["run_id"], "--json", home=home).stdout
    )


def test_a_fleet_that_is_not_there(home: pathlib.Path) -> None:
    refused = advise("fleet", "2025", home=home)
    assert refused.returncode == 2
    assert "there is no fleet '2025'" in refused.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--models", "a,b"], "--models and --on are asked of a fleet"),
        (["--on", "cpu"], "--models and --on are asked of a fleet"),
        (["--fleet", "local", "--on", "colour=red"], "names no device"),
    ],
)
def test_what_cannot_be_asked_is_refused_at_once(
    arguments: list[str], words: str, home: pathlib.Path
) -> None:
    refused = advise("recommend", *arguments, home=home)
    assert refused.returncode == 2
    assert words in refused.stderr
    assert refused.stdout == ""


@pytest.mark.parametrize("arguments", [["--fleet", "local"], ["--gpu", "all"]])
def test_without_the_extra_one_line_says_what_to_install(
    arguments: list[str], home: pathlib.Path
) -> None:
    hide = "import sys; sys.modules['ray'] = None; from advisor.cli import main; main(sys.argv[1:])"
    refused = subprocess.run(
        [sys.executable, "-c", hide, "recommend", *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "P3_ADVISOR_HOME": str(home), "XDG_CONFIG_HOME": str(home)},
        check=False,
    )
    assert refused.returncode == 3
    assert refused.stderr.splitlines() == [
        "p3-advisor: a fleet needs ray",
        "  next: pip install 'p3-advisor[fleet]'",
    ]


def test_a_price_that_cannot_be_is_refused(home: pathlib.Path) -> None:
    file = home / "settings" / "p3-advisor" / "config.toml"
    file.parent.mkdir(parents=True)
    file.write_text("[prices]\nH200 = -1\n")
    refused = advise("recommend", "--fleet", "local", home=home)
    assert refused.returncode == 2
    assert "prices" in refused.stderr


def test_the_record_reads_back(fleet: FleetRecord, home: pathlib.Path) -> None:
    assert msgspec.structs.asdict(Store(home).fleets.find("latest")) == msgspec.structs.asdict(
        fleet
    )


class Recorded:
    """Stands for the cluster: every race is the recorded one."""

    there: Mapping[str, int] = {"H200": 2, "cpu": 1}

    def __init__(self, run: Run) -> None:
        self.run_made = run
        #: Races after which the cluster is gone.
        self.lasts = 1000
        self.tasks: Mapping[int, Task] = {}

    def __call__(self, address: str) -> Recorded:
        assert address == "local"
        return self

    def devices(self) -> Mapping[str, int]:
        return self.there

    def run(
        self, tasks: Mapping[int, Task], pools: tuple[Pool, ...]
    ) -> Iterator[Notice | Contention]:
        self.tasks = tasks
        yield Contention(
            node="n1",
            kind=pools[0].kind,
            model="demo",
            free=True,
            words="races may run side by side",
        )
        header, events = self.run_made.header(), tuple(self.run_made.events())
        for made, number in enumerate(tasks):
            yield Begun(number=number, token="a", node="n1", device="0", header=header)
            yield Told(number=number, token="a", event=events[-1])
            if made == self.lasts:
                raise InterruptedRunError(2)
            yield Delivered(
                number=number,
                token="a",
                packed=Packed(node="n1", device="0", header=header, events=events),
            )

    def close(self) -> None:
        pass


@pytest.fixture
def cluster(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Recorded:
    recorded = Recorded(recorded_runs.make_run(Store(tmp_path / "node"), finished=True))
    monkeypatch.setitem(
        sys.modules,
        "advisor.fleet.cluster",
        types.SimpleNamespace(LOCAL="local", RayCluster=recorded),
    )
    monkeypatch.setattr(fleets, "NEEDED", ())
    monkeypatch.setattr(parquet, "encode", lambda *_: b"PAR1")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    return recorded


def ask(
    world: Context, *, on: tuple[str, ...] = (), as_events: bool = False, **answers: object
) -> int:
    asked = msgspec.convert(answers, Answers)
    return fleets.recommend(asked, "demo,other", on, "", world, as_json=True, as_events=as_events)


@pytest.fixture
def world(home: pathlib.Path) -> Context:
    return Context(environment={}, store=Store(home))


def test_all_gpus_are_asked_and_their_figures_kept(
    cluster: Recorded, world: Context, home: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ask(world, gpu="all") == 0
    printed = capsys.readouterr()
    document = json.loads(printed.out)
    assert [(cell["model"], cell["kind"], cell["attempts"]) for cell in document["cells"]] == [
        ("demo", "H200", 1),
        ("other", "H200", 1),
    ]
    assert all(cell["arm"] for cell in document["cells"])
    assert document["contentions"][0]["free"]
    assert "2 races on 2 x H200" in printed.err
    assert [file.read_bytes() for file in (home / "fleets").glob("*.parquet")] == [b"PAR1"]
    assert {task.answers.gpu for task in cluster.tasks.values()} == {""}


def test_without_gpus_all_of_them_are_none(cluster: Recorded, world: Context) -> None:
    cluster.there = {"cpu": 1}
    with pytest.raises(FleetOrderError, match="no GPU is attached"):
        ask(world, gpu="all")


@pytest.mark.parametrize(
    ("on", "answers", "price"),
    [((), {}, 3.5), (("gpu=H200,price=2",), {}, 2.0), ((), {"price_per_hour": 1.0}, 1.0)],
)
def test_a_price_comes_from_the_order_the_answers_or_the_settings(
    cluster: Recorded,
    world: Context,
    tmp_path: pathlib.Path,
    on: tuple[str, ...],
    answers: dict[str, Any],
    price: float,
) -> None:
    (tmp_path / "p3-advisor").mkdir()
    (tmp_path / "p3-advisor" / "config.toml").write_text("[prices]\nH200 = 3.5\n")
    ask(world, on=on, **answers)
    assert {task.answers.price_per_hour for task in cluster.tasks.values()} == {price}


def test_events_come_as_lines_and_the_document_last(
    cluster: Recorded, world: Context, capsys: pytest.CaptureFixture[str]
) -> None:
    ask(world, as_events=True)
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line.get("type") for line in lines] == [
        "contention",
        *["begun", "told", "answered"] * len(cluster.tasks),
        None,
    ]
    assert set(lines[-1]) == {"document"}


def test_a_fleet_that_was_interrupted_goes_on_with_what_has_no_answer(
    cluster: Recorded, world: Context, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.lasts = 1
    with pytest.raises(InterruptedRunError) as interruption:
        ask(world, batch_sizes="2,4")
    (half,) = [world.store.fleets.find(name) for name in world.store.fleets.names()]
    assert interruption.value.command == f"p3-advisor fleet {half.order.fleet_id} --resume"
    assert [one.assignment.model for one in half.answered] == ["demo"]
    cluster.lasts, cluster.there = 1000, {"H200": 1}
    assert fleets.go_on(half, world, as_json=True) == 0
    assert [(task.number, task.answers.batch_sizes) for task in cluster.tasks.values()] == [
        (2, "2,4")
    ]
    printed = capsys.readouterr()
    assert "1 races on 1 x H200" in printed.err
    whole = world.store.fleets.find("latest")
    assert [one.assignment.model for one in whole.answered] == ["demo", "other"]
    assert [one.attempts[-1].run_id[-6:] for one in whole.answered] == ["0001-1", "0002-2"], (
        "the attempt nobody saw the end of is kept"
    )
    assert world.store.find(f"{half.order.fleet_id}-0002-1").events()


def test_what_is_answered_is_not_asked_again(
    cluster: Recorded, world: Context, capsys: pytest.CaptureFixture[str]
) -> None:
    ask(world)
    asked = cluster.tasks
    assert fleets.go_on(world.store.fleets.find("latest"), world, as_json=True) == 0
    assert cluster.tasks is asked
    assert "0 races" not in capsys.readouterr().err


def test_only_the_kinds_that_are_due_have_to_be_there(
    cluster: Recorded, world: Context, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.there = {"H200": 2, "L40S": 1}
    ask(world, on=("gpu=H200", "gpu=L40S"))
    whole = world.store.fleets.find("latest")
    lost = msgspec.structs.replace(whole.answered[2], reason="the fleet has lost its last H200")
    world.store.fleets.keep(
        msgspec.structs.replace(whole, answered=(*whole.answered[:2], lost, whole.answered[3]))
    )
    cluster.there = {"H200": 1}
    capsys.readouterr()
    assert fleets.go_on(world.store.fleets.find("latest"), world, as_json=True) == 0
    assert [(number, task.kind) for number, task in cluster.tasks.items()] == [(3, "H200")]
    assert "1 races on 1 x H200\n" in capsys.readouterr().err
    now = world.store.fleets.find("latest")
    assert [(pool.kind, pool.count) for pool in now.order.pools] == [("H200", 1), ("L40S", 1)]
    assert [(one.assignment.number, one.reason) for one in now.answered] == [
        (number, None) for number in (1, 2, 3, 4)
    ]


def test_a_race_whose_run_is_gone_is_made_again(
    cluster: Recorded, world: Context, capsys: pytest.CaptureFixture[str]
) -> None:
    ask(world)
    whole = world.store.fleets.find("latest")
    shutil.rmtree(world.store.find(whole.answered[1].attempts[-1].run_id).directory)
    capsys.readouterr()
    assert fleets.go_on(whole, world, as_json=True) == 0
    assert list(cluster.tasks) == [2]
    assert [cell["arm"] for cell in json.loads(capsys.readouterr().out)["cells"]] == [
        "compiled",
        "compiled",
    ]


def test_a_fleet_whose_question_was_not_kept_cannot_go_on(
    cluster: Recorded, world: Context, fleet: FleetRecord
) -> None:
    with pytest.raises(FleetOrderError, match="did not keep the question"):
        fleets.go_on(fleet, world, as_json=True)
    assert not cluster.tasks
