"""What identifies an environment, and which ones count as made."""

from __future__ import annotations

import pathlib

import builders
import msgspec
import pytest

from advisor import catalogue
from advisor.domain.workflow import Environment
from advisor.errors import UnknownEnvironmentError
from advisor.probing.environments import places

APART = Environment(kind="own", name="apart", requirements=("rare-stack==2.1",))
WORKFLOWS = (
    builders.workflow("one", environment=APART),
    builders.workflow("two", environment=APART),
    builders.workflow("shared"),
)


def put(root: pathlib.Path, digest: str) -> pathlib.Path:
    directory = places.directory_of(root, "apart", digest)
    places.python_in(directory).parent.mkdir(parents=True)
    places.python_in(directory).touch()
    record = places.Record(
        name="apart",
        digest=digest,
        python_version="3.11.7",
        packages={},
        disk_bytes=1,
        seconds=1,
        made="2026-11-21",
    )
    (directory / places.RECORD).write_bytes(msgspec.json.encode(record))
    return directory


def digest(rubric: pathlib.Path, environment: Environment = APART) -> str:
    return places.digest_of(environment, places.lock_file(rubric, "apart"))


def test_environments_lie_beside_the_runs_where_a_home_is_named() -> None:
    assert places.default_root({"P3_ADVISOR_HOME": "/home/p3"}) == pathlib.Path(
        "/home/p3/environments"
    )
    # What makes an environment works in another directory than the user's.
    assert (
        places.default_root({"P3_ADVISOR_HOME": "state"})
        == pathlib.Path.cwd() / "state" / "environments"
    )
    assert places.default_root({}).parts[-2:] == ("p3-advisor", "environments")


def test_the_lock_and_what_is_asked_for_identify_it(tmp_path: pathlib.Path) -> None:
    before = digest(tmp_path)
    assert digest(tmp_path) == before
    assert (
        digest(tmp_path, msgspec.structs.replace(APART, requirements=("rare-stack==2.2",)))
        != before
    )
    assert digest(tmp_path, msgspec.structs.replace(APART, licence="MIT")) == before
    lock = places.lock_file(tmp_path, "apart")
    lock.parent.mkdir(parents=True)
    lock.write_text("rare-stack==2.1\n")
    assert digest(tmp_path) != before


def test_only_what_was_made_from_this_lock_is_usable(tmp_path: pathlib.Path) -> None:
    assert places.find_made(tmp_path, WORKFLOWS, tmp_path) == {}
    put(tmp_path, "0" * 12)
    assert places.find_made(tmp_path, WORKFLOWS, tmp_path)["apart"].fault == places.OUTDATED
    directory = put(tmp_path, digest(tmp_path))
    found = places.find_made(tmp_path, WORKFLOWS, tmp_path)["apart"]
    assert (found.fault, found.python) == (None, str(places.python_in(directory)))
    places.python_in(directory).unlink()
    assert places.find_made(tmp_path, WORKFLOWS, tmp_path)["apart"].fault == places.GONE


@pytest.mark.parametrize("content", [b"", b"{", b'{"name": 1}'])
def test_what_has_no_whole_record_counts_for_nothing(
    content: bytes, tmp_path: pathlib.Path
) -> None:
    (put(tmp_path, digest(tmp_path)) / places.RECORD).write_bytes(content)
    assert places.find_made(tmp_path, WORKFLOWS, tmp_path) == {}


def test_a_workflow_and_an_environment_name_the_same() -> None:
    assert places.choose(WORKFLOWS, ["one", "apart", "two"]) == {"apart": APART}


def test_the_environments_of_every_device_are_made() -> None:
    there = Environment(kind="own", name="there", requirements=("rare-stack-cpu==2.1",))
    known = (builders.workflow("one", environment=APART, environment_on={"cpu": there}),)
    assert places.own_environments(known) == {"apart": APART, "there": there}
    assert places.choose(known, ["there"]) == {"there": there}
    assert places.find_others(known, "apart") == {"cpu": "there"}
    assert places.find_others(known, "there") == {}


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("shared", "no environment of its own"),
        ("nothing", "no environment 'nothing'"),
        ("..", "no env"),
    ],
)
def test_another_name_is_refused(name: str, words: str) -> None:
    with pytest.raises(UnknownEnvironmentError, match=words):
        places.choose(WORKFLOWS, [name])


def test_shipped_environments_have_what_makes_them() -> None:
    rubric = catalogue.rubric_directory()
    known = places.own_environments(catalogue.load().workflows)
    for name, environment in known.items():
        assert environment.requirements, name
        assert environment.imports, name
        assert environment.licence, name
    locks = {file.stem for file in (rubric / "locks").rglob("*.txt")}
    assert locks <= set(known)


def test_locks_name_versions_and_no_place() -> None:
    for file in (catalogue.rubric_directory() / "locks").rglob("*.txt"):
        pins = [line for line in file.read_text().splitlines() if not line.startswith("#")]
        assert pins
        assert all(
            "==" in pin and "://" not in pin and "+" not in pin and "/" not in pin for pin in pins
        ), file.name
