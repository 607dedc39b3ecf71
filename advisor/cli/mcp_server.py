"""Serve the commands to coding agents over the Model Context Protocol: `p3-advisor mcp`.

Each tool runs a command of the program in a process of its own, so that an agent reads what a user
reads. Values go into an argument list; no shell sees them.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import pathlib
import signal
import subprocess
import tempfile
import time
from collections.abc import Collection, Iterable, Mapping
from typing import Annotated, Any, Literal

import anyio
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import Field

from advisor.ask.run_options import FURTHER_NAMES, RunOptions
from advisor.cli.output import SKILL, describe_latest
from advisor.domain.errors import choose_among
from advisor.domain.import_path import ADVISOR_COMMAND, without_current_directory
from advisor.domain.version import __version__

#: Exit codes of commands that have printed a result: done, or a result that asks for attention.
RESULTS = {0, 1, 4}
#: Clients give up on a call after about a minute.
MOST_WAIT_SECONDS = 45.0
STOP_SECONDS = 20.0
PROGRESS_LINES = 8
#: What `measure` takes as `options`.
OPTIONS = [
    *(name.replace("_", "-") for name in RunOptions.__struct_fields__ if name != "model"),
    *FURTHER_NAMES,
]
NO_RUN = "No answer, and no run is stored: the measurement had only begun."

RunName = Annotated[str, Field(description="a run's id, or latest")]
ArmName = Annotated[str, Field(description="a workflow or arm; default: the recommended one")]


@dataclasses.dataclass
class Progress:
    """How far a run is. `answer` is what `show` prints when it has ended."""

    run: str
    state: Literal["measuring", "ended"]
    seconds: float
    #: Seconds left of the run's limit, which a busy machine may exceed; null without a limit.
    seconds_left: float | None
    latest: list[str]
    answer: str = ""


class MeasuringProcess:
    """A process of `recommend` or `resume`, and the files that it writes."""

    def __init__(self, arguments: list[str], folder: pathlib.Path) -> None:
        self._is_stopped = False
        self._events = folder / "events"
        self._log = folder / "log"
        self._started = time.monotonic()
        with self._events.open("wb") as events, self._log.open("wb") as log:
            self.process = subprocess.Popen(  # noqa: S603 - an argument list, no shell
                [*ADVISOR_COMMAND, *arguments],
                env=without_current_directory(os.environ),
                stdin=subprocess.DEVNULL,
                stdout=events,
                stderr=log,
                start_new_session=True,
            )

    @property
    def is_running(self) -> bool:
        return self.process.poll() is None

    @property
    def beginning(self) -> dict[str, Any]:
        """The first line that it prints; empty until the run is stored, and if it is refused."""
        with self._events.open("rb") as file:
            line = file.readline()
        return json.loads(line) if line.endswith(b"\n") else {}

    @property
    def run(self) -> str:
        return str(self.beginning.get("run_id", ""))

    @property
    def lines(self) -> list[str]:
        return self._log.read_text(encoding="utf-8", errors="replace").splitlines()

    async def wait(self, seconds: float) -> None:
        def wait() -> None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(min(seconds, MOST_WAIT_SECONDS))

        await anyio.to_thread.run_sync(wait)

    async def progress(self) -> Progress:
        """Return how far it is; raise `ToolError` with what the program said if it failed."""
        is_running, run, limit = self.is_running, self.run, self.beginning.get("limit_seconds")
        seconds = time.monotonic() - self._started
        is_done = self._is_stopped or (run and self.process.returncode in RESULTS)
        if not (is_running or is_done):
            raise ToolError("\n".join(self.lines))
        return Progress(
            run,
            "measuring" if is_running else "ended",
            round(seconds, 1),
            max(round(limit - seconds, 1), 0.0) if limit and is_running else None,
            self.lines[-PROGRESS_LINES:],
            "" if is_running else await self.answer(),
        )

    async def answer(self) -> str:
        """Return what `show` prints of the run, which also says whether it has ended."""
        return await read("show", "--", self.run) if self.run else NO_RUN

    def end(self) -> None:
        """Ask the process to end with the answer so far; kill it if it does not."""
        self._is_stopped = True
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


async def read(*arguments: str) -> str:
    """Return what a command prints; raise `ToolError` with its message if it has no result."""
    command, variables = [*ADVISOR_COMMAND, *arguments], without_current_directory(os.environ)
    done = await anyio.run_process(command, check=False, stdin=subprocess.DEVNULL, env=variables)
    if done.returncode not in RESULTS or not done.stdout:
        raise ToolError((done.stderr or done.stdout).decode(errors="replace"))
    return done.stdout.decode(errors="replace")


async def read_run(command: str, run: str, *arguments: str, **options: str | int) -> str:
    """Return what a command prints of a run, after a line if `latest` is not the newest one."""
    text = await read(command, *given(options), "--", run, *arguments)
    return "\n\n".join(filter(None, (describe_latest(run), text)))


class AdvisorServer(MCPServer):
    """A server that refuses unknown arguments, which its base class leaves out."""

    async def call_tool(self, name: str, arguments: dict[str, Any], context: Any = None) -> Any:  # noqa: ANN401 - as its base class
        for tool in await self.list_tools():
            if tool.name == name:
                known = tool.input_schema["properties"]
                refuse_unknown("argument", arguments, known, f"{name} takes {', '.join(known)}")
        return await super().call_tool(name, arguments, context)


def refuse_unknown(
    kind: str, names: Iterable[str], known: Collection[str], next_step: str = ""
) -> None:
    for name in names:
        if name not in known:
            raise ToolError(f"unknown {kind} {name!r}: {next_step or choose_among(name, known)}")


def given(options: Mapping[str, object]) -> list[str]:
    return [
        f"--{name.replace('_', '-')}" + ("" if value is True else f"={value}")
        for name, value in options.items()
        if value
    ]


def _add_measuring_tools(
    server: MCPServer, measurements: list[MeasuringProcess], folder: pathlib.Path
) -> None:
    async def start(arguments: list[str], wait_seconds: float) -> Progress:
        if measurements and measurements[-1].is_running:
            raise ToolError(f"{measurements[-1].run} is being measured: follow or stop it first")
        place = folder / str(len(measurements))
        place.mkdir()
        measurements.append(MeasuringProcess(arguments, place))
        return await follow(wait_seconds)

    @server.tool()
    async def measure(
        model: Annotated[
            str,
            Field(
                description="file.py:function that returns a module and example inputs, an .onnx "
                "or .pt2 file, a name of Hugging Face, or demo"
            ),
        ],
        options: Annotated[
            dict[str, str | bool | int | float] | None,
            Field(
                description="further options of p3-advisor recommend without their dashes, such as "
                '{"dtype": "bfloat16", "batch-sizes": "1,16", "gpu": "cpu", "sandbox": true, '
                '"priority": "performance=60,productivity=25,portability=15"}'
            ),
        ] = None,
        wait_seconds: float = 10.0,
    ) -> Progress:
        """Start to measure the workflows for a model on this machine; runs the model's code.

        Takes one to two minutes; `follow` waits for the answer. One run at a time.
        """
        refuse_unknown("option", (name.replace("_", "-") for name in options or {}), OPTIONS)
        arguments = given({"model": model, **(options or {})})
        return await start(["recommend", "--jsonl", *arguments], wait_seconds)

    @server.tool()
    async def resume(run: str = "", wait_for_quiet: str = "", wait_seconds: float = 10) -> Progress:
        """Go on with a stopped run, by default the newest, or measure an unclear one again."""
        options = given({"wait-for-quiet": wait_for_quiet})
        return await start(["resume", "--jsonl", *options, "--", run], wait_seconds)

    @server.tool()
    async def follow(wait_seconds: float = 30.0) -> Progress:
        """Wait up to 45 s for the run that was started last; call it until it has ended."""
        if not measurements:
            raise ToolError("no run was started here: start one with measure")
        await measurements[-1].wait(wait_seconds)
        return await measurements[-1].progress()

    @server.tool()
    async def stop() -> Progress:
        """End the run that was started last with its answer so far; what it measured is kept."""
        if measurements and measurements[-1].is_running:
            await anyio.to_thread.run_sync(measurements[-1].end)
        return await follow(0.0)


def _add_reading_tools(server: MCPServer, measurements: list[MeasuringProcess]) -> None:
    @server.tool()
    async def show(run: RunName = "latest", *, full: bool = False) -> str:
        """Show what a run recommends (so far), and how sure that is; all figures with `full`."""
        if measurements and measurements[-1].is_running and run == "latest":
            return await measurements[-1].answer()
        return await read_run("show", run, full=full)

    @server.tool()
    async def decide(priority: str = "", preset: str = "", run: RunName = "latest") -> str:
        """Score a stored run again with the weights of `measure`; measures nothing."""
        return await read_run("decide", run, priority=priority, preset=preset)

    @server.tool()
    async def explain(run: RunName = "latest", arm: ArmName = "") -> str:
        """Explain the score of a workflow: each figure, its rule and its source."""
        return await read_run("explain", run, arm)

    @server.tool()
    async def recipe(run: RunName = "latest", arm: ArmName = "", batch_size: int = 0) -> str:
        """Return the code of an arm as it was measured, by default at the best batch size."""
        return await read_run("recipe", run, arm, batch_size=batch_size)

    @server.tool()
    async def verify(run: RunName = "latest", arm: ArmName = "", batch_size: int = 0) -> str:
        """Run the code of `recipe`, check its outputs, and time it next to the baseline's."""
        return await read_run("verify", run, arm, batch_size=batch_size)

    @server.tool()
    async def workflows(model: str = "demo") -> str:
        """List the workflows that apply to a model on this machine, and how to install others."""
        return await read("workflows", f"--model={model}")


def serve() -> None:
    """Serve until the client is gone; end the measurement that runs then."""
    instructions = SKILL.read_text(encoding="utf-8")
    server = AdvisorServer("p3-advisor", version=__version__, instructions=instructions)
    measurements: list[MeasuringProcess] = []
    with tempfile.TemporaryDirectory(prefix="p3-mcp-") as folder:
        _add_measuring_tools(server, measurements, pathlib.Path(folder))
        _add_reading_tools(server, measurements)
        try:
            server.run("stdio")
        finally:
            for each in measurements:
                if each.is_running:
                    each.end()
