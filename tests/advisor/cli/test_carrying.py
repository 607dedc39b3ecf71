"""The commands with which an answer leaves the terminal, on a run of pretend workflows: `quick` is four times as fast as the baseline."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
from collections.abc import Callable

import pytest

Advise = Callable[..., subprocess.CompletedProcess[str]]


def test_a_report_is_written_in_every_format(advise: Advise, recorded: pathlib.Path, tmp_path: pathlib.Path) -> None:
    answer = advise("report", recorded.name, "--format", "html,md,csv,json", "-o", "reports")
    assert answer.returncode == 0, answer.stderr
    files = [tmp_path / line for line in answer.stdout.splitlines()]
    assert [file.suffix for file in files] == [".html", ".md", ".csv", ".json"]
    assert "quick" in files[0].read_text()
    assert files[3].read_text() == advise("show", recorded.name, "--json").stdout
    assert advise("report", recorded.name, "--format", "pdf").returncode == 2
    assert "cannot be written" in advise("report", recorded.name, "-o", str(files[0])).stderr


def test_the_baseline_s_recipe_runs_and_its_throughput_is_verified(advise: Advise, recorded: pathlib.Path, tmp_path: pathlib.Path) -> None:
    written = advise("recipe", recorded.name, "--workflow", "pytorch-eager", "-o", "serve.py")
    assert written.returncode == 0, written.stderr
    answer = subprocess.run([sys.executable, "serve.py", "--seconds", "0.1"], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert "agrees with eager" in answer.stdout
    assert "p3-advisor measured" in answer.stdout
    verified = advise("verify", recorded.name, "--workflow", "pytorch-eager", "--seconds", "0.1", "--tolerance", "99%", "--json")
    assert verified.returncode == 0, verified.stdout + verified.stderr
    assert [check["batch_size"] for check in json.loads(verified.stdout)["checks"]] == [1]
    assert advise("recipe", recorded.name, "--workflow", "absent").returncode == 2


def test_a_run_compared_with_itself_has_not_changed(advise: Advise, recorded: pathlib.Path) -> None:
    answer = advise("compare", recorded.name, recorded.name, "--fail-on-regression", "90%", "--format", "json")
    assert answer.returncode == 0, answer.stderr
    found = json.loads(answer.stdout)
    assert found["differences"] == []
    assert {change["speed"]["value"] for change in found["changes"]} == {1.0}
    assert "Nothing differs." in advise("compare", recorded.name, recorded.name).stdout
    assert advise("compare", recorded.name, recorded.name, "--fail-on-regression", "much").returncode == 2


def slowed(recorded: pathlib.Path, home: pathlib.Path, **question: object) -> str:
    """Copy the run to `home` as a later one in which every call takes twice as long; return its id."""
    run_id = "20991231-000000-0000"
    place = home / "runs" / run_id
    place.mkdir(parents=True)
    header = json.loads((recorded / "run.json").read_text())
    header |= {"run_id": run_id, "question": {**header["question"], **question}}
    (place / "run.json").write_text(json.dumps(header))
    lines = []
    for line in (recorded / "events.jsonl").read_text().splitlines():
        event = json.loads(line)
        said = event["happening"].get("said", {})
        if said.get("event") == "visited":
            said["seconds"] = [2 * each for each in said["seconds"]]
        lines.append(json.dumps(event))
    (place / "events.jsonl").write_text("\n".join(lines) + "\n")
    return str(place)


def test_a_regression_is_told_by_the_exit_code(advise: Advise, recorded: pathlib.Path, tmp_path: pathlib.Path) -> None:
    later = slowed(recorded, tmp_path)
    answer = advise("compare", recorded.name, later, "--fail-on-regression", "1%", "--format", "json")
    found = json.loads(answer.stdout)
    assert all(change["speed"]["value"] == pytest.approx(0.5) for change in found["changes"])
    slower = [change for change in found["changes"] if change["judgement"] == "slower"]
    assert answer.returncode == (1 if slower else 0)
    other = slowed(recorded, tmp_path / "other", dtype="float16")
    refused = advise("compare", recorded.name, other, "--fail-on-regression", "1%")
    assert refused.returncode == 2
    assert "No verdict" in refused.stdout
    assert advise("compare", recorded.name, other).returncode == 0
