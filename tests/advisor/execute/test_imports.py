"""Commands on a stored run do not load the modules that start workers."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
import recorded_runs

from advisor.store.store import Store

RUNS = ("20261120-000000-0000", "20261121-000000-0000")
COMMANDS = {
    "show": ["show", "--json"],
    "decide": ["decide", "--preset", "serving"],
    "explain": ["explain"],
    "report": ["report", "--format", "html,md,csv,json"],
    "compare": ["compare", *RUNS],
}
#: Runs the commands one after the other; writes the loaded modules after each into a file.
RUN_AND_LIST_MODULES = """
import json, pathlib, sys
from advisor.cli.command_line import main
loaded = {}
for name, command in json.loads(sys.argv[2]).items():
    try:
        main(command)
    except SystemExit as end:
        assert not end.code, (name, end.code)
    loaded[name] = sorted(sys.modules)
pathlib.Path(sys.argv[1]).write_text(json.dumps(loaded))
"""


@pytest.fixture(scope="module")
def loaded_modules(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """The modules that are loaded after each of `COMMANDS`, by name of the command."""
    home = tmp_path_factory.mktemp("home")
    for run_id in RUNS:
        recorded_runs.make_run(Store(home), finished=True, run_id=run_id)
    file = home / "modules.json"
    arguments = (RUN_AND_LIST_MODULES, str(file), json.dumps(COMMANDS))
    answer = subprocess.run(
        [sys.executable, "-c", *arguments],
        cwd=home,
        env={**os.environ, "P3_ADVISOR_HOME": str(home)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr
    loaded: dict[str, list[str]] = json.loads(file.read_text())
    return loaded


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_on_a_stored_run_loads_no_module_of_probing(
    loaded_modules: dict[str, list[str]], command: str
) -> None:
    loaded = loaded_modules[command]
    assert "advisor.decide.decision" in loaded
    assert [name for name in loaded if name.startswith("advisor.probing")] == []
