"""A recipe is heard while it lives and leaves nothing behind, however it or the advisor ends; real processes."""

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

from advisor import catalogue
from advisor.errors import VerificationError
from advisor.probing.rerun import Found, run_recipe

PROBES = catalogue.probes_directory()
FOUND = (
    "import json\nprint(json.dumps(dict(batch_size=1, unit='sequences', throughput=2.0, seconds=0.5, build_seconds=1.0,"
    " error_against_eager=0.0, speedup=None, versions={})), flush=True)\n"
)
CHILD = "import subprocess\nsubprocess.Popen(['sleep', '3600'], start_new_session=%s)\n"
#: An advisor that runs a recipe, so that a test can kill it.
ADVISOR = """
import os, pathlib, sys
from advisor.probing.rerun import run_recipe
run_recipe({!r}, sys.executable, os.environ, 1.0, 600.0, pathlib.Path({!r}))
"""


def run(script: str, patience_seconds: float = 60.0) -> list[Found]:
    return run_recipe(script, sys.executable, os.environ, 1.0, patience_seconds, PROBES)


def test_what_a_recipe_reaches_is_read_line_by_line() -> None:
    assert [found.throughput for found in run(FOUND + FOUND)] == [2.0, 2.0]


@pytest.mark.parametrize("unknown", ["error_against_eager", "speedup"])
def test_what_a_recipe_does_not_know_is_null(unknown: str) -> None:
    (known,) = run(FOUND)
    (found,) = run(f"print({json.dumps({**msgspec.structs.asdict(known), unknown: None})!r})")
    assert found == msgspec.structs.replace(known, **{unknown: None})


def test_a_recipe_is_its_own_main_program_with_its_arguments_and_nothing_to_read() -> None:
    run(
        FOUND
        + "import sys\nassert __name__ == '__main__' and sys.argv[1:] == ['--json', '--seconds', '1.0'] and not sys.stdin.read()\n"
    )


@pytest.mark.parametrize("of_its_own", [False, True])
def test_a_child_that_stays_is_neither_waited_for_nor_left(of_its_own: bool) -> None:
    begun = time.monotonic()
    with workers.mark("recipe") as environment:
        (found,) = run_recipe(
            FOUND + CHILD % of_its_own, sys.executable, environment, 1.0, 60.0, PROBES
        )
        assert found.batch_size == 1
        assert time.monotonic() - begun < 30
        workers.wait_until(lambda: not workers.marked("recipe"))


def test_a_recipe_that_takes_too_long_is_ended_with_all_that_it_started() -> None:
    with (
        workers.mark("recipe") as environment,
        pytest.raises(VerificationError, match="took longer than 1 seconds"),
    ):
        run_recipe(
            CHILD % True + "import time\ntime.sleep(3600)\n",
            sys.executable,
            environment,
            1.0,
            1.0,
            PROBES,
        )
    workers.wait_until(lambda: not workers.marked("recipe"))


def test_an_advisor_that_is_killed_leaves_no_recipe(tmp_path: pathlib.Path) -> None:
    reached = tmp_path / "reached"
    script = (
        CHILD % True
        + f"import pathlib, time\npathlib.Path({str(reached)!r}).touch()\ntime.sleep(3600)\n"
    )
    code = ADVISOR.format(script, str(PROBES))
    with (
        workers.mark("recipe") as environment,
        subprocess.Popen([sys.executable, "-c", code], env=environment) as advisor,
    ):
        workers.wait_until(reached.exists)
        advisor.kill()
        advisor.wait()
        workers.wait_until(lambda: not workers.marked("recipe"))


def test_what_a_recipe_says_last_is_told_where_it_fails() -> None:
    with pytest.raises(
        VerificationError, match="the recipe did not get through: ValueError: no such operator"
    ):
        run("raise ValueError('no such operator')\n")


def test_an_interpreter_that_is_gone_and_words_that_are_none_are_told(
    tmp_path: pathlib.Path,
) -> None:
    with pytest.raises(VerificationError, match="gone cannot be started: No such file"):
        run_recipe("", str(tmp_path / "gone"), os.environ, 1.0, 60.0, PROBES)
    with pytest.raises(VerificationError, match="said what cannot be read"):
        run("print('ready')\n")
