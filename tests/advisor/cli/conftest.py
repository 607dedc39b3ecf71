"""A recorded run of simulated workflows, and the command line in this process."""

from __future__ import annotations

import functools
import os
import pathlib
import signal
import subprocess
from collections.abc import Callable, Iterator

import pytest

from advisor import cli
from advisor.context import Context
from advisor.pipeline.draft import prepare
from advisor.pipeline.execution import execute
from advisor.question.answers import Answers
from advisor.store.store import Store

RunCli = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def recorded(
    fake_probes: pathlib.Path, fake_rubric: pathlib.Path, copy_of: Callable[..., pathlib.Path]
) -> pathlib.Path:
    """A finished run in which `quick` is four times as fast as the baseline."""

    def record(home: pathlib.Path) -> None:
        context = Context(
            environment=dict(os.environ),
            store=Store(home),
            probes=fake_probes,
            rubric=fake_rubric,
        )
        run = prepare(Answers(gpu="cpu", batch_sizes="1", budget="4", workflows="quick"), context)
        for _ in execute(run, context):
            pass

    (run,) = (copy_of("recorded-for-commands", record) / "runs").glob("*-*")
    return run


@pytest.fixture
def run_cli(
    recorded: pathlib.Path,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Iterator[RunCli]:
    """Run commands in this process, because starting a process for each is slow."""
    monkeypatch.chdir(tmp_path)
    handlers = {
        number: signal.getsignal(number)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    }

    def run(
        *arguments: str,
        home: pathlib.Path = recorded.parents[1],
        probes: pathlib.Path | None = None,
    ) -> subprocess.CompletedProcess[str]:
        monkeypatch.setenv("P3_ADVISOR_HOME", str(home))
        if probes is not None:
            monkeypatch.setattr(
                "advisor.context.Context", functools.partial(Context, probes=probes)
            )
        capsys.readouterr()
        with pytest.raises(SystemExit) as exit_info:
            cli.main(arguments)
        printed = capsys.readouterr()
        return subprocess.CompletedProcess(
            list(arguments), int(exit_info.value.code or 0), printed.out, printed.err
        )

    yield run
    for number, handler in handlers.items():
        signal.signal(number, handler)
