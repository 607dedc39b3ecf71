"""What a fleet has answered, shown again; and what is refused before any cluster is asked."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys

import handmade
import msgspec
import pytest

from advisor.domain.fleet import FLEET_SCHEMA, Answered, Assignment, Attempt, Contention, FleetRecord, Order, Pool
from advisor.store import Store

COMMAND = pathlib.Path(sys.executable).with_name("p3-advisor")


def advise(*arguments: str, home: pathlib.Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "P3_ADVISOR_HOME": str(home), "XDG_CONFIG_HOME": str(home / "settings")}
    return subprocess.run([COMMAND, *arguments], capture_output=True, text=True, env=environment, check=False)


@pytest.fixture
def fleet(home: pathlib.Path) -> FleetRecord:
    """Two answers, one of them without a run."""
    store = Store(home)
    run = handmade.make_run(store, finished=True)
    order = Order(
        fleet_id="20261121-120000-f1ee", created="2026-11-21T12:00:00+00:00", models=("demo", "other"), pools=(Pool(kind="H200"),)
    )
    kept = FleetRecord(
        schema=FLEET_SCHEMA,
        order=order,
        answered=(
            Answered(
                assignment=Assignment(number=1, model="demo", kind="H200"),
                attempts=(Attempt(run_id=run.header().run_id, node="n1", device="0"),),
            ),
            Answered(assignment=Assignment(number=2, model="other", kind="H200"), attempts=(), reason="the fleet has lost its last H200"),
        ),
        contentions=(Contention(node="n1", kind="H200", model="demo", free=False, words="races take turns"),),
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
    assert document["cells"][0]["run_id"] in advise("show", document["cells"][0]["run_id"], "--json", home=home).stdout


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
def test_what_cannot_be_asked_is_refused_at_once(arguments: list[str], words: str, home: pathlib.Path) -> None:
    refused = advise("recommend", *arguments, home=home)
    assert refused.returncode == 2
    assert words in refused.stderr
    assert refused.stdout == ""


@pytest.mark.parametrize("arguments", [["--fleet", "local"], ["--gpu", "all"]])
def test_without_the_extra_one_line_says_what_to_install(arguments: list[str], home: pathlib.Path) -> None:
    hide = "import sys; sys.modules['ray'] = None; from advisor.cli import main; main(sys.argv[1:])"
    refused = subprocess.run(
        [sys.executable, "-c", hide, "recommend", *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "P3_ADVISOR_HOME": str(home), "XDG_CONFIG_HOME": str(home)},
        check=False,
    )
    assert refused.returncode == 3
    assert refused.stderr.splitlines() == ["p3-advisor: a fleet needs ray", "  next: pip install 'p3-advisor[fleet]'"]


def test_a_price_that_cannot_be_is_refused(home: pathlib.Path) -> None:
    file = home / "settings" / "p3-advisor" / "config.toml"
    file.parent.mkdir(parents=True)
    file.write_text("[prices]\nH200 = -1\n")
    refused = advise("recommend", "--fleet", "local", home=home)
    assert refused.returncode == 2
    assert "prices" in refused.stderr


def test_the_record_reads_back(fleet: FleetRecord, home: pathlib.Path) -> None:
    assert msgspec.structs.asdict(Store(home).fleets.find("latest")) == msgspec.structs.asdict(fleet)
