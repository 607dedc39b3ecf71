"""Start real resident workers that run the workflow `spin` with a known amount of work."""

from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping

import builders
import msgspec

from advisor.catalogue import rubric_files
from advisor.domain.plan import REFERENCE, Arm
from advisor.machine import detection
from advisor.probing.conditions import ConditionsMonitor
from advisor.probing.run_config import RunConfig
from advisor.probing.session import Session
from advisor.probing.supervisor import Supervisor

HERE = pathlib.Path(__file__).parent
#: Matrix products in a call of the fastest arm: about half a millisecond.
REPEATS = 300


def arm(name: str, extra: float) -> Arm:
    """Return an arm whose calls do a share of `extra` more work."""
    return builders.arm(name, workflow="spin", options={"repeats": round(REPEATS * (1 + extra))})


@contextlib.contextmanager
def session(extras: Mapping[str, float]) -> Iterator[Session]:
    """Yield a session with one resident worker of each arm, built and warmed up."""
    with tempfile.TemporaryDirectory() as scratch:
        directory = pathlib.Path(scratch)
        probes = directory / "probes"
        shutil.copytree(
            rubric_files.probes_directory(),
            probes,
            ignore=shutil.ignore_patterns("workflows", "__pycache__"),
        )
        (probes / "workflows").mkdir()
        (probes / "workflows" / "__init__.py").write_text('"""Contains one workflow."""\n')
        shutil.copy(HERE / "spin.py", probes / "workflows")
        run_config = RunConfig(
            question=builders.question(python=sys.executable, batch_sizes=(1,)),
            machine=msgspec.structs.replace(builders.machine(), cpu=detection.detect_cpu()),
            arms_directory=directory / "arms",
            scratch_directory=directory / "scratch",
            probes_directory=probes,
            minimum_engaged_share=0.0,
            accuracy=rubric_files.read_shipped_accuracy(),
            environment=dict(os.environ),
        )
        arms = [arm(name, extra) for name, extra in extras.items()]
        with Supervisor(rubric_files.load().presets.deadlines) as supervisor:
            workers = Session(supervisor, run_config, ConditionsMonitor())
            for run_events in (
                workers.start_reference(arms[0], 0),
                workers.start([(each, 0) for each in arms]),
            ):
                for _ in run_events:
                    pass
            if workers.is_running(REFERENCE):
                for _ in workers.send_and_wait(REFERENCE, "stop"):
                    pass
            for each in arms:
                for _ in workers.build(each.id):
                    pass
                if not workers.is_running(each.id):
                    message = f"the worker of {each.id} ended"
                    raise RuntimeError(message)
            yield workers
