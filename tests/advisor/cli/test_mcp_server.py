"""The program in the hands of coding agents and of continuous integration."""

from __future__ import annotations

import functools
import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

import anyio
import pytest
import workers
from forks import run_command
from kept.runs import EVIDENCE

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
    "batch-sizes": 1,
    "workflows": "pytorch-eager/default",
    "budget": "1s",
    "all-arms": True,
}
#: Serves commands that have simulated workflows.
SIMULATED = """
import sys
from advisor.cli import mcp_server

simulate = (
    "import pathlib; from advisor.ask import catalogue_files\\n"
    f"catalogue_files.probes_directory = lambda: pathlib.Path({sys.argv[1]!r})\\n"
    f"catalogue_files.catalogue_directory = lambda: pathlib.Path({sys.argv[2]!r})\\n"
)
python, flag, start, *rest = mcp_server.ADVISOR_COMMAND
mcp_server.ADVISOR_COMMAND = (python, flag, start.replace("main()", simulate + "main()"), *rest)
mcp_server.serve()
"""


@pytest.fixture
def simulated(fake_probes: pathlib.Path, fake_catalogue: pathlib.Path) -> list[str]:
    return ["-c", SIMULATED, str(fake_probes), str(fake_catalogue)]


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
        env={
            **os.environ,
            "P3_ADVISOR_HOME": str(home / "store"),
            workers.MARK_VARIABLE: str(home),
        },
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


def test_an_agent_measures_decides_again_and_takes_the_code(
    tmp_path: pathlib.Path, simulated: list[str]
) -> None:
    (tmp_path / "bench.py").write_text(MODEL)

    async def work(client: Client) -> None:
        started = await call(
            client, "measure", model="bench.py:build", options=QUICK, wait_seconds=1
        )
        assert started["state"] == "measuring"
        assert started["seconds_left"] is None, "all arms have no limit"
        for second in ("measure", "resume"):
            given = {"model": "demo", "options": QUICK} if second == "measure" else {}
            refused = await call(client, second, **given)
            assert started["run"] in refused, "a second run would disturb the first"
        ended = await call(client, "follow", wait_seconds=40)
        while ended["state"] != "ended":
            ended = await call(client, "follow", wait_seconds=40)
        run = ended["run"]
        assert ended["answer"] == await call(client, "show", run=run)
        assert len(await call(client, "show", run=run, full=True)) > len(ended["answer"])
        assert "model(" in await call(client, "recipe", run=run, arm="pytorch-eager")
        assert "batch size 7" in await call(client, "recipe", run=run, batch_size=7)
        again = await call(client, "decide", run=run, priority="productivity=100")
        assert again != ended["answer"]
        assert "speedup" in await call(client, "explain", run=run, arm="pytorch-eager")

    talk(tmp_path, work, simulated)


def test_what_the_user_can_correct_is_an_error_with_its_next_step(tmp_path: pathlib.Path) -> None:
    async def work(client: Client) -> None:
        for tool, arguments, told in (
            ("measure", {"model": "bench.py:missing"}, "next:"),
            ("measure", {"model": "demo", "options": {"dtype": "int3"}}, "next:"),
            ("measure", {"model": "demo", "options": {"batch_size": 2}}, "mean batch-sizes?"),
            ("decide", {"options": {"preset": "serving"}}, "takes priority, preset, run"),
            ("show", {"run": "unknown"}, "unknown"),
            ("recipe", {"run": "--output=stolen"}, "--output=stolen"),
            ("follow", {}, "int3"),
        ):
            found = await call(client, tool, **arguments)
            assert isinstance(found, str), "an error is its text"
            assert told in found
        assert not (tmp_path / "stolen").exists(), "a run's name is never an option"

    talk(tmp_path, work)


def test_a_stopped_run_has_its_answer_so_far_and_the_end_of_the_client_ends_it(
    tmp_path: pathlib.Path, simulated: list[str]
) -> None:
    (tmp_path / "bench.py").write_text(MODEL)
    start = functools.partial(call, tool="measure", model="bench.py:build", options=QUICK)

    async def work(client: Client) -> None:
        run = (await until_stored(client, await start(client, wait_seconds=0)))["run"]
        shown = await call(client, "show")
        assert "still being measured, and it has no answer yet" in " ".join(shown.split())
        stopped = await call(client, "stop")
        assert (stopped["run"], stopped["state"]) == (run, "ended")
        assert "No recommendation" in stopped["answer"]
        assert "what was measured is kept" in "".join(stopped["latest"])
        resumed = await call(client, "resume", wait_seconds=0)
        resumed = await until_stored(client, resumed)
        assert (resumed["run"], resumed["state"]) == (run, "measuring")

    talk(tmp_path, work, simulated)
    workers.wait_until(lambda: not workers.find_marked(str(tmp_path)))


ACTION = pathlib.Path(__file__).parents[3] / ".github" / "actions" / "compare"
MEASURED = EVIDENCE / "cpu-demo.json"
ARM = "torch-compile-inductor"
#: A command line that measures nothing: `latest` is a kept run.
STUB = """\
#!/bin/sh
[ "$1" = recommend ] && exit 0
for word; do shift; [ "$word" = latest ] && word="$MEASURED"; set -- "$@" "$word"; done
exec {python} -m advisor "$@"
"""
#: A client of GitHub that notes its calls and the body, and lists the comments in COMMENTS.
GH_STUB = """\
#!/bin/sh
[ -n "$REFUSED" ] && exit 1
echo "$@" >> calls
for word; do
  case "$word" in
    --jq) echo "$COMMENTS" ;;
    body=*) cp "${word#body=@}" body ;;
  esac
done
"""


def test_the_action_has_the_form_that_github_expects() -> None:
    check = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.github-actions"]
    subprocess.run([*check, str(ACTION / "action.yml")], check=True)


def test_the_script_writes_the_comparison(tmp_path: pathlib.Path) -> None:
    answer = run_action(tmp_path, 1.0)
    assert answer.returncode == 0, answer.stderr
    output = (tmp_path / "output").read_text()
    assert output.strip().removeprefix("conclusion=") in {"no-regression", "undecided"}
    text = (tmp_path / "summary.md").read_text()
    assert text.startswith("## p3-advisor:")
    assert text.count(f"| {ARM}") >= 2, "the comparison and the report"
    assert not (tmp_path / "calls").exists(), "no comment was asked for"


@pytest.mark.parametrize(
    ("comments", "calls"),
    [
        ("", ["repos/o/r/issues/7/comments", "repos/o/r/issues/7/comments"]),
        ("41\n42", ["repos/o/r/issues/7/comments", "repos/o/r/issues/comments/41"]),
    ],
)
def test_a_regression_fails_and_is_one_comment_of_the_pull_request(
    comments: str, calls: list[str], tmp_path: pathlib.Path
) -> None:
    answer = run_action(tmp_path, 1000.0, COMMENT="true", PULL_REQUEST="7", COMMENTS=comments)
    assert answer.returncode == 1, answer.stderr
    assert (tmp_path / "output").read_text().strip() == "conclusion=regression"
    made = [line.split() for line in (tmp_path / "calls").read_text().splitlines()]
    assert [call[1] for call in made] == calls
    assert ("PATCH" in made[1]) == bool(comments)
    body = (tmp_path / "body").read_text()
    assert body.startswith("<!-- p3-advisor compare -->\n## p3-advisor:")


def test_runs_that_are_not_comparable_fail_with_a_summary(tmp_path: pathlib.Path) -> None:
    answer = run_action(tmp_path, 1.0, BASELINE=str(EVIDENCE / "cpu-vit-base-float32.json"))
    assert answer.returncode == 2, answer.stderr
    assert (tmp_path / "output").read_text().strip() == "conclusion=not-comparable"
    assert "No verdict" in (tmp_path / "summary.md").read_text()


def test_a_comment_that_is_refused_does_not_change_the_result(tmp_path: pathlib.Path) -> None:
    answer = run_action(tmp_path, 1.0, COMMENT="true", PULL_REQUEST="7", REFUSED="1")
    assert answer.returncode == 0, answer.stderr
    assert "::warning::" in answer.stdout


def run_action(
    place: pathlib.Path, factor: float, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run the script of the action against a baseline in which `ARM` is `factor` times as fast."""
    baseline = place / "baseline.json"
    baseline.write_text(faster(MEASURED.read_text(), factor))
    programs = place / "bin"
    programs.mkdir()
    for name, text in (("p3-advisor", STUB.format(python=sys.executable)), ("gh", GH_STUB)):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    asked = {
        "MEASURED": str(MEASURED),
        "PATH": f"{programs}:{os.environ['PATH']}",
        "MODEL": "demo",
        "OPTIONS": "--budget quick",
        "BASELINE": str(baseline),
        "THRESHOLD": "5%",
        "FAIL_ON_UNDECIDED": "false",
        "COMMENT": "false",
        "PULL_REQUEST": "",
        "GITHUB_REPOSITORY": "o/r",
        "GITHUB_STEP_SUMMARY": str(place / "summary.md"),
        "GITHUB_OUTPUT": str(place / "output"),
    }
    script = str(ACTION / "compare.sh")
    return run_command(["bash", script], {**of_home(place), **asked, **variables}, place)


def of_home(home: pathlib.Path) -> dict[str, str]:
    return {"P3_ADVISOR_HOME": str(home), "PYTHONPATH": str(pathlib.Path(__file__).parents[3])}


def faster(document: str, factor: float) -> str:
    """Return the document of an earlier run with the speed-ups of `ARM` times `factor`."""
    values = json.loads(document)
    values["run_id"] = "20261101-120000-0000"
    for entry in values["results"]["measurements"]:
        for cell in entry["cells"] if entry["arm"] == ARM else ():
            for name in ("value", "low", "high"):
                if cell["speedup"][name] is not None:
                    cell["speedup"][name] *= factor
            for name in ("median", "low", "high"):
                if cell["seconds"][name] is not None:
                    cell["seconds"][name] /= factor
    return json.dumps(values)


def test_a_shell_gets_completions(tmp_path: pathlib.Path) -> None:
    variables = {
        **of_home(tmp_path),
        "_P3_ADVISOR_COMPLETE": "complete_bash",
        "COMP_WORDS": "p3-advisor rec",
        "COMP_CWORD": "1",
    }
    answer = run_command([sys.executable, "-m", "advisor"], variables)
    assert {"recipe", "recommend"} <= set(answer.stdout.split())
