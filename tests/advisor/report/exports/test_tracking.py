"""Runs for experiment trackers, read back with the library of each."""

from __future__ import annotations

import json
import pathlib
import socket

import builders
import built_answers
import msgspec
import pytest
from report_runs import with_measurement

from advisor.domain.answer import Answer
from advisor.errors import NoExportError
from advisor.report.exports import tracking

INSTALL = "the tracker is not installed: pip install 'p3-advisor[tracking]'"


def two_arms() -> Answer:
    """Return an answer with a measured arm at two batch sizes and a failed one."""
    made = built_answers.answer()
    (cell,) = made.ranked[0].cells
    made = with_measurement(
        made, "compiled", cells=(cell, msgspec.structs.replace(cell, batch_size=16))
    )
    failed = builders.unmeasured("failed", status="crashed", reason="x" * 9999)
    return msgspec.structs.replace(made, scores=made.scores[:1], unmeasured=(failed,))


def test_an_arm_is_one_record_with_a_step_for_each_batch_size() -> None:
    made = two_arms()
    measured, failed = tracking.arm_records(made)
    assert [step for step, _ in measured.steps] == [1, 16]
    assert measured.steps[0][1]["speedup"] == made.ranked[0].cells[0].speedup.value
    assert measured.texts["model"] == made.question.model.name
    assert failed.texts["status"] == "crashed"
    assert [step for step, _ in failed.steps] == [0]


@pytest.mark.filterwarnings("ignore")
def test_mlflow_reads_the_runs(tmp_path: pathlib.Path) -> None:
    mlflow = pytest.importorskip("mlflow", reason=INSTALL)
    made = msgspec.structs.replace(two_arms(), run_id="' OR tags.run_id != '")
    file = tracking.track("mlflow", made, tmp_path)
    assert tracking.track("mlflow", made, tmp_path) == file, "the second time adds nothing"
    client = mlflow.MlflowClient(tracking_uri=f"sqlite:///{file}")
    (experiment,) = client.search_experiments(filter_string=f"name = '{tracking.PROJECT}'")
    runs = {run.info.run_name: run for run in client.search_runs([experiment.experiment_id])}
    assert set(runs) == {"failed", made.ranked[0].arm}
    history = client.get_metric_history(runs[made.ranked[0].arm].info.run_id, "speedup")
    assert [(metric.step, metric.value) for metric in history] == [
        (cell.batch_size, cell.speedup.value) for cell in made.ranked[0].cells
    ]
    assert runs["failed"].data.params["status"] == "crashed"
    assert runs["failed"].info.status == "FINISHED"


@pytest.mark.filterwarnings("ignore")
def test_wandb_writes_offline_runs(tmp_path: pathlib.Path) -> None:
    pytest.importorskip("wandb", reason=INSTALL)
    made = two_arms()
    folder = tracking.track("wandb-offline", made, tmp_path)
    found = sorted(folder.glob("offline-run-*/run-*.wandb"))
    assert len(found) == 2
    contents = b"".join(file.read_bytes() for file in found)
    assert made.run_id.encode() in contents
    assert socket.gethostname().encode() not in contents
    assert json.dumps(made.ranked[0].arm).encode() in contents


def test_a_missing_library_is_a_user_error(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(*_: object) -> pathlib.Path:
        raise ModuleNotFoundError(name="mlflow")

    monkeypatch.setitem(tracking.TRACKERS, "mlflow", write)
    with pytest.raises(NoExportError):
        tracking.track("mlflow", two_arms(), tmp_path)
