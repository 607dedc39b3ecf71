"""Whatever a worker puts into its messages or their files, only that worker fails."""

from __future__ import annotations

import pathlib

import pytest
from sessions import expect_failure
from worker_scripts import SECONDS, VISIT, Clock, messages_until_end, start

from advisor.probing import processes, worker_process
from advisor.probing import supervisor as supervisor_module
from advisor.probing.supervisor import Supervisor


@pytest.mark.parametrize(
    "mischief",
    [
        "os.mkfifo(file)",
        "os.mkdir(file)",
        "os.symlink('/dev/zero', file)",
        "open(file, 'w').truncate(6 << 30)",
        "open(file, 'w').write('x' * (5 << 20) + '\\n')",
    ],
    ids=["fifo", "directory", "link", "sparse", "long line"],
)
@pytest.mark.parametrize("name", ["events.jsonl", "response.json"])
def test_a_file_of_another_kind_or_size_is_the_failure_of_its_worker(
    name: str,
    mischief: str,
    supervisor: Supervisor,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(supervisor_module, "EXIT_GRACE_SECONDS", 0.1)
    log = "os.unlink(directory / 'log'); os.mkfifo(directory / 'log')"
    source = f"file = directory / {name!r}\n{log}\n{mischief}\nnotify()\ntime.sleep(3600)\n"
    expect_failure(
        messages_until_end(supervisor, start(supervisor, tmp_path, source))[-1], "crashed"
    )


def test_more_events_than_a_run_may_have_are_the_failure_of_their_worker(
    supervisor: Supervisor, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_process, "MAX_RUN_BYTES", 5000)
    source = "while True:\n    send_event('engagement', share=1.0, proof='x' * 1000, facts={})\n"
    messages = messages_until_end(supervisor, start(supervisor, tmp_path, source))
    expect_failure(messages[-1], "crashed")
    assert len(messages) < 10


@pytest.mark.parametrize(
    "event",
    [
        "send_event('imported', versions={}, settings={})",
        "send_event('prepared')",
        f"send_event('visited', **{VISIT})",
        "enter_phase('import')",
        "enter_phase('done')",
        "send_event('phase_started', phase='queued', shape=None)",
        "while True: enter_phase('build')",
        "send_event('ready'); send_event('ready')",
    ],
)
def test_an_event_that_does_not_belong_to_the_token_is_the_failure_of_its_worker(
    event: str, supervisor: Supervisor, tmp_path: pathlib.Path
) -> None:
    worker = start(supervisor, tmp_path, f"{event}\ntime.sleep(3600)\n", token="build")
    expect_failure(messages_until_end(supervisor, worker)[-1], "crashed")


def test_a_token_that_comes_early_leaves_the_deadline_of_the_present_phase(
    supervisor: Supervisor, clock: Clock, tmp_path: pathlib.Path
) -> None:
    worker = start(supervisor, tmp_path, "time.sleep(3600)\n")
    supervisor.send(worker, "build")
    clock.now += SECONDS["start"]
    ((_, outcome),) = supervisor.poll()
    assert expect_failure(outcome, "timed-out").phase == "start"


def test_a_link_in_place_of_the_mark_of_a_skipped_worker_is_not_followed(
    tmp_path: pathlib.Path,
) -> None:
    (tmp_path / processes.SKIPPED_FILE).symlink_to(tmp_path / "elsewhere")
    processes.skip(tmp_path)
    assert not (tmp_path / "elsewhere").exists()
