"""A recorded run of simulated workflows, and the command line in this or another process."""

from __future__ import annotations

import os
import pathlib
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping

import pytest
from builders import replace
from forks import ForkServer, RunCli, RunProgram

from advisor import cli
from advisor.ask.context import Context
from advisor.store.runs import Run

#: A start takes half a second, most of it for these modules, which commands import when they run.
COMMAND_MODULES = ("advisor.api", "advisor.cli", "numpy")


@pytest.fixture(scope="session")
def command_server() -> Iterator[ForkServer]:
    server = ForkServer(*COMMAND_MODULES)
    yield server
    server.close()


@pytest.fixture
def run_program(
    command_server: ForkServer, home: pathlib.Path, tmp_path: pathlib.Path
) -> RunProgram:
    def run(
        *arguments: str,
        home: pathlib.Path = home,
        environment: Mapping[str, str] | None = None,
        **streams: str,
    ) -> subprocess.CompletedProcess[str]:
        return command_server.run(
            "from advisor.cli import main; main()",
            *arguments,
            environment={
                **os.environ,
                "P3_ADVISOR_HOME": str(home),
                "XDG_CONFIG_HOME": str(home / "settings"),
                **(environment or {}),
            },
            directory=tmp_path,
            **streams,
        )

    return run


@pytest.fixture(scope="session")
def recorded(recorded_home: pathlib.Path) -> pathlib.Path:
    """The finished run of `recorded_home`."""
    (run,) = (recorded_home / "runs").glob("*-*")
    return run


@pytest.fixture
def stored(recorded: pathlib.Path, home: pathlib.Path) -> Run:
    """A copy of the recorded run in a home of the test's own."""
    return Run(shutil.copytree(recorded, home / "runs" / recorded.name))


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
            found = replace(Context.of_process(), probes=probes)
            monkeypatch.setattr(Context, "of_process", lambda: found)
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
