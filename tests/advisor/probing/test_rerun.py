"""Running recipes in real processes: their results, and no process left behind."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import time

import msgspec
import pytest
import workers

from advisor.catalogue import rubric_files
from advisor.errors import VerificationError
from advisor.probing.rerun import RecipeResult, run_recipe

PROBES = rubric_files.probes_directory()
PRINT_RESULT = """
import json
print(json.dumps(dict(batch_size=1, unit='sequences', throughput=2.0, seconds=0.5,
    build_seconds=1.0, error_against_eager=0.0, speedup=None, versions={})), flush=True)
"""
START_CHILD = "import subprocess\nsubprocess.Popen(['sleep', '3600'], start_new_session=%s)\n"
#: An advisor that runs a recipe, so that a test can kill it.
ADVISOR = """
import os, pathlib, sys
from advisor.probing.rerun import run_recipe
run_recipe({!r}, sys.executable, os.environ, 1.0, 600.0, pathlib.Path({!r}))
"""


def run(script: str, timeout_seconds: float = 60.0) -> list[RecipeResult]:
    return run_recipe(script, sys.executable, os.environ, 1.0, timeout_seconds, PROBES)


def test_a_recipe_prints_one_result_a_line() -> None:
    assert [result.throughput for result in run(PRINT_RESULT + PRINT_RESULT)] == [2.0, 2.0]


@pytest.mark.parametrize("missing", ["error_against_eager", "speedup"])
def test_a_missing_value_is_null(missing: str) -> None:
    (complete,) = run(PRINT_RESULT)
    (result,) = run(f"print({json.dumps({**msgspec.structs.asdict(complete), missing: None})!r})")
    assert result == msgspec.structs.replace(complete, **{missing: None})


def test_a_recipe_is_a_main_program_with_arguments_and_empty_input() -> None:
    run(
        PRINT_RESULT + "import sys\n"
        "assert __name__ == '__main__'\n"
        "assert sys.argv[1:] == ['--json', '--seconds', '1.0']\n"
        "assert not sys.stdin.read()\n"
    )


@pytest.mark.parametrize("new_session", [False, True])
def test_a_remaining_child_is_killed_and_not_waited_for(new_session: bool) -> None:
    started = time.monotonic()
    with workers.mark_processes("recipe") as environment:
        (result,) = run_recipe(
            PRINT_RESULT + START_CHILD % new_session, sys.executable, environment, 1.0, 60.0, PROBES
        )
        assert result.batch_size == 1
        assert time.monotonic() - started < 30
        workers.wait_until(lambda: not workers.find_marked("recipe"))


def test_a_recipe_beyond_its_timeout_is_killed_with_its_children() -> None:
    with (
        workers.mark_processes("recipe") as environment,
        pytest.raises(VerificationError, match="took longer than 1 seconds"),
    ):
        run_recipe(
            START_CHILD % True + "import time\ntime.sleep(3600)\n",
            sys.executable,
            environment,
            1.0,
            1.0,
            PROBES,
        )
    workers.wait_until(lambda: not workers.find_marked("recipe"))


def test_an_advisor_that_is_killed_leaves_no_recipe(tmp_path: pathlib.Path) -> None:
    reached = tmp_path / "reached"
    script = (
        START_CHILD % True
        + f"import pathlib, time\npathlib.Path({str(reached)!r}).touch()\ntime.sleep(3600)\n"
    )
    code = ADVISOR.format(script, str(PROBES))
    with (
        workers.mark_processes("recipe") as environment,
        subprocess.Popen([sys.executable, "-c", code], env=environment) as advisor,
    ):
        workers.wait_until(reached.exists)
        advisor.kill()
        advisor.wait()
        workers.wait_until(lambda: not workers.find_marked("recipe"))


def test_the_error_of_a_failed_recipe_has_its_exception() -> None:
    with pytest.raises(VerificationError, match="the recipe failed: ValueError: no such operator"):
        run("raise ValueError('no such operator')\n")


def test_a_missing_interpreter_and_unreadable_output_are_errors(
    tmp_path: pathlib.Path,
) -> None:
    with pytest.raises(VerificationError, match="missing cannot be started: No such file"):
        run_recipe("", str(tmp_path / "missing"), os.environ, 1.0, 60.0, PROBES)
    with pytest.raises(VerificationError, match="output of the recipe cannot be read"):
        run("print('ready')\n")
