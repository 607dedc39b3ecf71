"""Write a run for experiment trackers: MLflow, and Weights & Biases in its offline mode.

Each arm is a run of the tracker, and the step of its metrics is the batch size. Nothing is sent:
MLflow gets a database in the folder of the reports, Weights & Biases a folder for `wandb sync`.
The libraries come with the extra `tracking`.
"""

from __future__ import annotations

import os
import pathlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import msgspec

from advisor.domain.answer import Answer
from advisor.errors import NoExportError
from advisor.report.exports import csv_rows
from advisor.version import how_to_install

if TYPE_CHECKING:
    from mlflow import MlflowClient

PROJECT = "p3-advisor"
#: Name of the MLflow database.
DATABASE = "mlflow.db"
#: Longest value of a parameter that every version of MLflow stores.
LONGEST_PARAMETER = 500
#: Keeps the libraries from reporting their use and their errors.
SEND_NOTHING = {"MLFLOW_DISABLE_TELEMETRY": "true", "WANDB_ERROR_REPORTING": "false"}
#: Columns that are the step rather than a metric.
STEP = "batch_size"


class ArmRecord(msgspec.Struct, frozen=True):
    """One arm: its texts, and its figures by batch size."""

    name: str
    texts: dict[str, str]
    #: An arm without a measurement has its figures at step 0.
    steps: tuple[tuple[int, dict[str, float]], ...]


def arm_records(answer: Answer) -> list[ArmRecord]:
    """Return every arm with the columns of the CSV, those without a value left out."""
    rows: dict[str, list[dict[str, csv_rows.Value]]] = {}
    for row in csv_rows.rows(answer):
        rows.setdefault(str(row["arm"]), []).append(row)
    return [
        ArmRecord(
            name,
            {key: value for key, value in found[0].items() if isinstance(value, str)},
            tuple((_step(row), dict(_figures(row))) for row in found),
        )
        for name, found in rows.items()
    ]


def _step(row: dict[str, csv_rows.Value]) -> int:
    size = row.get(STEP)
    return size if isinstance(size, int) else 0


def _figures(row: dict[str, csv_rows.Value]) -> Iterator[tuple[str, float]]:
    for key, value in row.items():
        if isinstance(value, (int, float)) and key != STEP:
            yield key, float(value)


def write_mlflow(answer: Answer, directory: pathlib.Path) -> pathlib.Path:
    """Add the arms to the MLflow database of the folder and return its path.

    A run that it has already is not added again.
    """
    import mlflow  # noqa: PLC0415 - an extra and slow to import
    from mlflow.entities import Metric, Param, RunTag  # noqa: PLC0415 - as above

    file = (directory / DATABASE).absolute()
    client = mlflow.MlflowClient(tracking_uri=f"sqlite:///{file}")
    experiment = client.get_experiment_by_name(PROJECT)
    experiment_id = (
        experiment.experiment_id
        if experiment
        else client.create_experiment(PROJECT, artifact_location=file.with_suffix("").as_uri())
    )
    if answer.run_id in _stored_run_ids(client, experiment_id):
        return file
    for record in arm_records(answer):
        tags = {"run_id": answer.run_id}
        run_id = client.create_run(experiment_id, run_name=record.name, tags=tags).info.run_id
        client.log_batch(
            run_id,
            metrics=[
                Metric(name, value, 0, step)
                for step, figures in record.steps
                for name, value in figures.items()
            ],
            params=[Param(name, text[:LONGEST_PARAMETER]) for name, text in record.texts.items()],
            tags=[RunTag("arm", record.name)],
        )
        client.set_terminated(run_id)
    return file


def _stored_run_ids(client: MlflowClient, experiment_id: str) -> set[str]:
    """Return the runs that the database has.

    They are compared here, because the id of a foreign document may be any text, and MLflow's
    filters have no way to quote it.
    """
    found, token = [], None
    while token != "":
        page = client.search_runs([experiment_id], page_token=token)
        found += page
        token = page.token or ""
    return {run.data.tags.get("run_id", "") for run in found}


def write_wandb_offline(answer: Answer, directory: pathlib.Path) -> pathlib.Path:
    """Write an offline run for each arm into the folder and return the folder of all of them."""
    import wandb  # noqa: PLC0415 - an extra and slow to import

    settings = wandb.Settings(
        silent=True,
        console="off",
        disable_git=True,
        save_code=False,
        host="",
        x_disable_machine_info=True,
        x_disable_meta=True,
        x_disable_stats=True,
    )
    for record in arm_records(answer):
        with wandb.init(
            mode="offline",
            dir=str(directory),
            project=PROJECT,
            group=answer.run_id,
            name=record.name,
            config=record.texts,
            reinit="create_new",
            settings=settings,
        ) as run:
            run.define_metric(STEP)
            run.define_metric("*", step_metric=STEP)
            for step, figures in record.steps:
                run.log({STEP: step, **figures})
    return directory / "wandb"


TRACKERS: dict[str, Callable[[Answer, pathlib.Path], pathlib.Path]] = {
    "mlflow": write_mlflow,
    "wandb-offline": write_wandb_offline,
}


def track(tracker: str, answer: Answer, directory: pathlib.Path) -> pathlib.Path:
    """Write the run for a tracker; raise `NoExportError` if its library is not installed."""
    directory.mkdir(parents=True, exist_ok=True)
    os.environ |= SEND_NOTHING
    try:
        return TRACKERS[tracker](answer, directory)
    except ModuleNotFoundError as problem:
        raise NoExportError(
            f"the package {problem.name} is not installed", how_to_install("tracking")
        ) from problem
