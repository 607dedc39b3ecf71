"""Starts in real processes: what is kept, what is shipped, and which replies are right."""

from __future__ import annotations

import pathlib
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from unittest import mock

import builders
import pytest
import sessions
from worker_scripts import CALL, EAGER, LOADING

from advisor.ask import catalogue_files
from advisor.ask.context import Context
from advisor.domain.catalogue import StartWay
from advisor.domain.measurement import CACHE_DIRECTORY, COLD
from advisor.domain.run_events import StartMeasured
from advisor.execute import starts
from advisor.execute.active_run import TimeSpan
from advisor.execute.execution import execute
from advisor.execute.starts import UNCHECKED, Starter
from advisor.probing.snippets import open_session
from advisor.recipes.snippet import StartScripts

pytestmark = pytest.mark.slow

NEVER = TimeSpan(time.monotonic, 0.0, float("inf"))
#: Sleeps unless the cache directory, or the file that was shipped, is there.
COMPILE = LOADING + (
    'cache = pathlib.Path(os.environ["TORCHINDUCTOR_CACHE_DIR"])\n'
    'if not (cache / "kernel").exists() and not pathlib.Path("artefact").exists():\n'
    "    time.sleep(1.5)\n"
    "    cache.mkdir(parents=True, exist_ok=True)\n"
    '    (cache / "kernel").write_bytes(bytes(1000))\n'
)
COLD_SCRIPT = COMPILE + CALL.format("model(*inputs)")
SAVE = 'pathlib.Path("artefact").write_bytes(bytes(3000))\n'
LOAD = LOADING + 'model = torch.load("model.pt", weights_only=False)\n'
WRITE = LOADING + 'torch.save(model, "model.pt")\n'


@pytest.fixture
def starter(tmp_path: pathlib.Path) -> Iterator[Starter]:
    ways: Mapping[str, StartWay] = defaultdict(
        lambda: StartWay(title="way", loads_on="devices", source="page")
    )
    config = sessions.run_config(
        tmp_path, catalogue_files.probes_directory(), catalogue=builders.catalogue(starts=ways)
    )
    with open_session(config) as session:
        yield Starter(session, builders.arm("compiled"), [1e-7], time.monotonic)


def test_each_way_starts_cold_from_what_it_ships_and_its_reply_is_checked(starter: Starter) -> None:
    ways = [
        StartScripts(COLD, COLD_SCRIPT),
        StartScripts(CACHE_DIRECTORY, COLD_SCRIPT),
        StartScripts("saved", COLD_SCRIPT, write=COLD_SCRIPT + SAVE, saves=SAVE, lines=1),
        StartScripts("file", LOAD + CALL.format("model(*inputs)"), write=WRITE, lines=2),
        StartScripts("wrong", LOADING + CALL.format("model(*inputs) + 1")),
        StartScripts("broken", LOADING + CALL.format("model.missing(*inputs)")),
        StartScripts("unwritten", EAGER, write="raise ValueError('no file')\n"),
    ]
    found = {each.way: each for each in starter.start_each(ways, NEVER)}
    assert list(found) == [each.way for each in ways]
    seconds = {way: each.seconds or 0.0 for way, each in found.items()}
    assert seconds[COLD] > 1.5
    assert found[CACHE_DIRECTORY].shipped_bytes == 1000
    assert found["saved"].shipped_bytes == 3000
    assert found["saved"].write_seconds is None
    assert found["file"].shipped_bytes > 100
    assert found["file"].write_seconds
    assert found["saved"].lines == 1
    assert "missing" in str(found["broken"].failure)
    assert "no file" in str(found["unwritten"].failure)
    assert all(each.call_seconds for each in found.values() if each.seconds)

    eager, starts = starter.check(StartScripts(COLD, EAGER), "", list(found.values()))
    assert eager.seconds
    checked = {each.way: each for each in starts}
    counted = {COLD, CACHE_DIRECTORY, "saved", "file"}
    assert {way for way, each in checked.items() if each.failure is None} == counted
    assert all((each.seconds is None) == (way not in counted) for way, each in checked.items())
    assert "allowed error" in str(checked["wrong"].failure)
    assert "missing" in str(checked["broken"].failure)


@pytest.mark.parametrize("put", ["write_bytes(b'')", "symlink_to(here.with_name('moved'))"])
def test_a_folder_that_a_script_replaced_is_not_written_to(starter: Starter, put: str) -> None:
    replace = f"here = pathlib.Path.cwd()\nhere.rename(here.with_name('moved'))\nhere.{put}\n"
    script = LOADING + replace + CALL.format("model(*inputs)")
    ways = [StartScripts(COLD, script), StartScripts("second", EAGER)]
    first, second = starter.start_each(ways, NEVER)
    assert first.seconds
    assert second.failure


def test_a_cache_directory_is_kept_for_its_own_way_alone(starter: Starter) -> None:
    """The script that finds no cache waits, which its own clock shows."""
    timed = COMPILE.replace("    time.sleep(1.5)", '    pathlib.Path("colds").open("a").write("x")')
    script = timed + CALL.format("model(*inputs)")
    ways = [StartScripts(way, script) for way in (COLD, CACHE_DIRECTORY, "again")]
    assert len(list(starter.start_each(ways, NEVER))) == 3
    assert (starter.files / "colds").read_text() == "xx"


def test_without_a_cache_there_is_no_such_way_and_after_the_end_no_other(starter: Starter) -> None:
    ways = [StartScripts(COLD, EAGER), StartScripts(CACHE_DIRECTORY, EAGER)]
    assert [each.way for each in starter.start_each(ways, NEVER)] == [COLD]
    late = [*ways, StartScripts("file", EAGER)]
    assert [each.way for each in starter.start_each(late, NEVER._replace(seconds=0.0))] == [COLD]


def test_after_a_failed_cold_start_no_other_is_tried(starter: Starter) -> None:
    ways = [
        StartScripts(COLD, "raise ValueError('no model')\n# Each call:\n"),
        StartScripts("x", EAGER),
    ]
    (found,) = starter.start_each(ways, NEVER)
    assert "no model" in str(found.failure)


def test_replies_that_nothing_could_check_are_not_right(starter: Starter) -> None:
    found = list(starter.start_each([StartScripts(COLD, EAGER)], NEVER))
    gone = StartScripts(COLD, "raise ValueError('gone')\n# Each call:\n")
    _, (start,) = starter.check(gone, "", found)
    assert "gone" in str(start.failure)
    assert start.seconds is None


def test_replies_that_are_compared_with_nothing_are_not_right(starter: Starter) -> None:
    starter = Starter(starter._session, builders.arm("compiled"), None, time.monotonic)
    (cold,) = starter.start_each([StartScripts(COLD, EAGER)], NEVER)
    _, (start,) = starter.check(StartScripts(COLD, EAGER), "", [cold])
    assert cold.seconds
    assert (start.failure, start.seconds) == (UNCHECKED, None)


def test_a_start_of_a_run_counts_once_its_reply_is_checked(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripts = [
        StartScripts(COLD, EAGER),
        StartScripts("regional", LOADING + CALL.format("model(*inputs) + 1")),
    ]
    monkeypatch.setattr(starts, "compose_starts", lambda *_: scripts)
    asked = sessions.short_options("quick", model="demo", cold_start=True)
    run = sessions.create_run(context, asked)
    started = sessions.of_kind([each.run_event for each in execute(run, context)], StartMeasured)
    *first, cold, wrong = (each.start for each in started if each.arm == "quick")
    assert [each.way for each in first] == [COLD, "regional"]
    assert all(each.seconds and each.failure == UNCHECKED for each in first)
    assert cold.seconds
    assert cold.failure is None
    assert cold.title == builders.shipped_catalogue().starts[COLD].title
    assert wrong.seconds is None
    stored = run.state().starts
    assert stored["quick"] == (cold, wrong)
    assert [each.way for each in stored[builders.BASELINE]] == [COLD]


def test_starts_import_packages_as_they_were_installed(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = builders.replace(sessions.run_config(tmp_path, tmp_path), bytecode=mock.Mock())
    active = mock.Mock(question=builders.question(), session=mock.Mock(config=config))
    monkeypatch.setattr(starts, "open_session", opened := mock.Mock(side_effect=InterruptedError))
    with pytest.raises(InterruptedError):
        next(starts._measure_arm(active, builders.arm("x"), None, [mock.Mock()], NEVER))
    assert opened.call_args.args[0].bytecode is None
