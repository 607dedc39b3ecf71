"""Real resident workers whose speeds are known: the project's worker, harness and session, and the workflow `spin` beside this file."""

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

from advisor import catalogue, machine
from advisor.domain.plan import REFERENCE, Arm
from advisor.probing.conditions import Guard
from advisor.probing.run_config import RunConfig
from advisor.probing.session import Session
from advisor.probing.supervisor import Supervisor

HERE = pathlib.Path(__file__).parent
#: Products in a call of the fastest arm: about half a millisecond.
REPEATS = 300


def arm(name: str, extra: float) -> Arm:
    """Return an arm whose calls do `extra` more work, as a share."""
    return builders.arm(name, workflow="spin", options={"repeats": round(REPEATS * (1 + extra))})


@contextlib.contextmanager
def session(extras: Mapping[str, float]) -> Iterator[Session]:
    """Yield a session in which one worker of each arm is built and warm."""
    with tempfile.TemporaryDirectory() as scratch:
        place = pathlib.Path(scratch)
        probes = place / "probes"
        shutil.copytree(
            catalogue.probes_directory(),
            probes,
            ignore=shutil.ignore_patterns("workflows", "__pycache__"),
        )
        (probes / "workflows").mkdir()
        (probes / "workflows" / "__init__.py").write_text('"""One workflow."""\n')
        shutil.copy(HERE / "spin.py", probes / "workflows")
        site = RunConfig(
            question=builders.question(python=sys.executable, batch_sizes=(1,)),
            machine=msgspec.structs.replace(builders.machine(), cpu=machine.detect_cpu()),
            arms=place / "arms",
            scratch=place / "scratch",
            probes=probes,
            minimum_engaged_share=0.0,
            environment=dict(os.environ),
        )
        arms = [arm(name, extra) for name, extra in extras.items()]
        with Supervisor(catalogue.load().presets.deadlines) as supervisor:
            workers = Session(supervisor, site, Guard())
            for run_events in (
                workers.make_reference(arms[0], 0),
                workers.start([(one, 0) for one in arms]),
            ):
                for _ in run_events:
                    pass
            if workers.is_running(REFERENCE):
                for _ in workers.ask(REFERENCE, "stop"):
                    pass
            for one in arms:
                for _ in workers.build(one.id):
                    pass
                if not workers.is_running(one.id):
                    message = f"the worker of {one.id} ended"
                    raise RuntimeError(message)
            yield workers
