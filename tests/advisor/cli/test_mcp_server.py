"""The server for coding agents: the client of the official SDK, over a real process."""

from __future__ import annotations

import functools
import os
import pathlib
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

import anyio
import psutil
import pytest
import workers

if TYPE_CHECKING:
    from mcp import Client

pytestmark = pytest.mark.slow

MODEL = """\
import torch


def build():
    torch.manual_seed(0)
    return torch.nn.Linear(64, 64).eval(), (torch.randn(1, 64),)
"""
QUICK = {
    "gpu": "cpu",
    "batch-sizes": "1",
    "workflows": "pytorch-eager/default",
    "budget": "1s",
    "all-arms": True,
}


#: Serves commands that have simulated workflows.
SIMULATED = """
import sys
from advisor.cli import mcp_server

simulate = (
    "import pathlib; from advisor.ask import rubric_files\\n"
    f"rubric_files.probes_directory = lambda: pathlib.Path({sys.argv[1]!r})\\n"
    f"rubric_files.rubric_directory = lambda: pathlib.Path({sys.argv[2]!r})\\n"
)
python, flag, start, *rest = mcp_server.ADVISOR_COMMAND
mcp_server.ADVISOR_COMMAND = (python, flag, start.replace("main()", simulate + "main()"), *rest)
mcp_server.serve()
"""


@pytest.fixture
def simulated(fake_probes: pathlib.Path, fake_rubric: pathlib.Path) -> list[str]:
    return ["-c", SIMULATED, str(fake_probes), str(fake_rubric)]


def talk(
    home: pathlib.Path,
    work: Callable[[Client], Awaitable[None]],
    program: Sequence[str] = ("-m", "advisor", "mcp"),
) -> None:
    """Run `work` with a client of a server whose working directory is `home`."""
    # Every process that collects tests would take a second for it.
    from mcp import Client, StdioServerParameters  # noqa: PLC0415

    server = StdioServerParameters(
        command=sys.executable,
        args=list(program),
        env={**os.environ, "P3_ADVISOR_HOME": str(home / "store")},
        cwd=home,
    )

    async def connect() -> None:
        async with Client(server) as client:
            await work(client)

    anyio.run(connect)


async def call(client: Client, tool: str, **arguments: object) -> Any:
    """Return the structured result of a tool, or its text for an error."""
    result = await client.call_tool(tool, arguments)
    if result.is_error:
        return "".join(each.text for each in result.content if each.type == "text")
    content = result.structured_content
    assert content is not None
    return content.get("result", content)


async def until_stored(client: Client, progress: Any) -> Any:
    """Return the progress of the run that is measured as soon as it has an id."""
    while not progress["run"]:
        progress = await call(client, "follow", wait_seconds=0.1)
    return progress


def unwrapped(text: str) -> str:
    return " ".join(text.split())


def test_an_agent_measures_decides_again_and_takes_the_code(
    tmp_path: pathlib.Path, simulated: list[str]
) -> None:
    (tmp_path / "bench.py").write_text(MODEL)

    async def work(client: Client) -> None:
        started = await call(
            client, "measure", model="bench.py:build", options=QUICK, wait_seconds=1
        )
        assert started["state"] == "measuring"
        for second in ("measure", "resume"):
            given = {"model": "demo", "options": QUICK} if second == "measure" else {}
            refused = await call(client, second, **given)
            assert started["run"] in refused, "a second run would disturb the first"
        ended = await call(client, "follow", wait_seconds=40)
        while ended["state"] != "ended":
            ended = await call(client, "follow", wait_seconds=40)
        run = ended["run"]
        assert ended["answer"] == await call(client, "answer", run=run)
        assert "model(" in await call(client, "recipe", run=run, workflow="pytorch-eager")
        again = await call(client, "decide", run=run, priorities="productivity=100")
        assert again != ended["answer"]
        assert "speedup" in await call(client, "explain", run=run, workflow="pytorch-eager")

    talk(tmp_path, work, simulated)


def test_what_the_user_can_correct_is_an_error_with_its_next_step(tmp_path: pathlib.Path) -> None:
    async def work(client: Client) -> None:
        for tool, arguments in (
            ("measure", {"model": "bench.py:missing"}),
            ("measure", {"model": "demo", "options": {"dtype": "int3"}}),
            ("answer", {"run": "unknown"}),
            ("recipe", {"run": "--output=stolen"}),
            ("follow", {}),
        ):
            found = await call(client, tool, **arguments)
            assert isinstance(found, str), "an error is its text"
            assert tool != "measure" or "next:" in found
        assert not (tmp_path / "stolen").exists(), "a run's name is never an option"

    talk(tmp_path, work)


def test_a_stopped_run_has_its_answer_so_far_and_the_end_of_the_client_ends_it(
    tmp_path: pathlib.Path, simulated: list[str]
) -> None:
    (tmp_path / "bench.py").write_text(MODEL)
    start = functools.partial(call, tool="measure", model="bench.py:build", options=QUICK)

    async def work(client: Client) -> None:
        run = (await until_stored(client, await start(client, wait_seconds=0)))["run"]
        shown = await call(client, "answer")
        assert "still being measured, and it has no answer yet" in unwrapped(shown)
        stopped = await call(client, "stop")
        assert (stopped["run"], stopped["state"]) == (run, "ended")
        assert "No recommendation" in stopped["answer"]
        assert "measurements are kept" in "".join(stopped["latest"])
        resumed = await call(client, "resume", wait_seconds=0)
        resumed = await until_stored(client, resumed)
        assert (resumed["run"], resumed["state"]) == (run, "measuring")

    def is_ended() -> bool:
        home = str(tmp_path / "store")
        environments = (each.info["environ"] or {} for each in psutil.process_iter(["environ"]))
        return all(each.get("P3_ADVISOR_HOME") != home for each in environments)

    talk(tmp_path, work, simulated)
    workers.wait_until(is_ended)
