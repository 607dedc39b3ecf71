"""What a worker answers to each token once everything is built; pretend stacks in real processes."""

from __future__ import annotations

import pathlib
import types
from typing import Any, cast

import pytest
import workers
from workers import WorkerResult

from probes import protocol
from probes.adapter import UnsupportedError
from probes.runtime.service import Cell, Service

SIZES = [2, 4]


class Text:
    """A program that generates nothing at all."""

    def __call__(self, fed: str) -> None:
        """All tokens."""

    def first_token(self, fed: str) -> None:
        """The first."""


class HostLock(Text):
    """One whose prompts do not all have their first token before others are done."""

    def first_token(self, fed: str) -> None:
        message = f"{fed} take turns"
        raise UnsupportedError(message)


@pytest.fixture(scope="module")
def shared(fake_probes: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Where the reference worker has left inputs and right outputs."""
    place = tmp_path_factory.mktemp("shared")
    request = workers.make_request(
        fake_probes / "workflows" / "pytorch_eager.py", place, role="reference", batch_sizes=SIZES
    )
    answer = workers.run_worker(request, place / "control", "build\npeaks\n", probes=fake_probes)
    assert answer.response == {"status": "completed"}, answer.log
    return place


def ask(
    shared: pathlib.Path,
    probes: pathlib.Path,
    place: pathlib.Path,
    tokens: str,
    workflow: str = "narrow",
    **options: Any,
) -> WorkerResult:
    request = workers.make_request(
        probes / "workflows" / f"{workflow}.py",
        shared,
        batch_sizes=SIZES,
        options={"unseen": "served", "milliseconds": 1, **options},
    )
    return workers.run_worker(request, place / "control", f"build\n{tokens}", probes=probes)


def told(answer: WorkerResult, event: str) -> list[dict[str, Any]]:
    return [entry for entry in answer.events if entry["event"] == event]


def phases(answer: WorkerResult) -> list[tuple[str, int | None]]:
    return [(entry["phase"], entry["batch_size"]) for entry in told(answer, "phase")]


def test_a_visit_is_answered_with_its_times(
    shared: pathlib.Path, fake_probes: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    answer = ask(shared, fake_probes, tmp_path, "visit 4 1\nvisit 2 7\nstop\n")
    visits = told(answer, "visited")
    assert [(visit["batch_size"], visit["round"]) for visit in visits] == [(4, 1), (2, 7)]
    for visit in visits:
        assert len(visit["seconds"]) >= 5
        assert min(visit["seconds"]) >= 0.001
        assert 0 < visit["enqueue_seconds"] <= max(visit["seconds"])
    assert answer.response == {"status": "completed"}


def test_sustained_calls_fill_the_time_and_the_worker_is_ready_again(
    shared: pathlib.Path, fake_probes: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    answer = ask(shared, fake_probes, tmp_path, "sustain 4 0.1\nvisit 4 1\nstop\n")
    (sustained,) = told(answer, "sustained")
    assert sustained["batch_size"] == 4
    assert sustained["seconds"] >= 0.1
    assert 1 <= sustained["calls"] <= 100
    assert ("sustain", 4) in phases(answer)
    assert len(told(answer, "ready")) == 2
    assert len(told(answer, "visited")) == 1


def test_without_pytorch_there_is_no_profiler_and_the_worker_goes_on(
    shared: pathlib.Path, fake_probes: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    answer = ask(shared, fake_probes, tmp_path, "diagnose\nvisit 2 1\nstop\n")
    assert told(answer, "diagnosed") == []
    assert [("diagnose", size) for size in SIZES] == [
        entry for entry in phases(answer) if entry[0] == "diagnose"
    ]
    assert len(told(answer, "visited")) == 1


@pytest.mark.parametrize(("task", "profiled"), [("forward", [1, 4, 16]), ("generate", [1, 16])])
def test_of_texts_only_the_smallest_and_the_largest_batch_are_looked_into(
    task: str, profiled: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[Any] = []
    service = Service(
        workflow=types.SimpleNamespace(synchronise=lambda: None),
        subject=cast("Any", None),
        cells={
            size: Cell(cast("Any", kind()), ["prompts"], cast("Any", None))
            for size, kind in ((1, Text), (4, Text), (16, HostLock))
        },
        blocks={},
        request=cast("Any", types.SimpleNamespace(task=task, output_tokens=2)),
        channel=cast("Any", types.SimpleNamespace(tell=told.append, enter=lambda *_: None)),
        attempt=lambda work: work(),
    )
    monkeypatch.setattr(
        "probes.measuring.profile.diagnose",
        lambda call, fed, synchronise, size: size,  # noqa: ARG005 - the profiler's place
    )
    service.diagnose()
    assert [each for each in told if isinstance(each, int)] == profiled
    assert [each.batch_size for each in told if isinstance(each, protocol.Latency)] == (
        [1, 4] if task == "generate" else []
    )


@pytest.mark.parametrize(
    ("unseen", "outcome", "reason"),
    [
        ("served", "served", None),
        ("late", "stalled", None),
        ("eager", "eager", "recompile limit reached"),
        ("refused", "refused", "RuntimeError: Profile 0 has no batch size"),
        ("wrong", "wrong", "above the allowed"),
        ("padded", "wrong", "other shapes"),
    ],
)
def test_shapes_that_were_not_built_are_tried_last(
    unseen: str,
    outcome: str,
    reason: str | None,
    shared: pathlib.Path,
    fake_probes: pathlib.Path,
    tmp_path: pathlib.Path,
) -> None:
    answer = ask(shared, fake_probes, tmp_path, "flex\n", unseen=unseen)
    flexed = told(answer, "flexed")
    assert [entry["batch_size"] for entry in flexed] == [1, 3, 5, 8]
    assert {entry["outcome"] for entry in flexed} == {outcome}
    assert all(
        (entry["reason"] is None) if reason is None else (reason in entry["reason"])
        for entry in flexed
    )
    assert phases(answer)[-5:] == [("done", None), *(("flex", size) for size in (1, 3, 5, 8))]
    assert answer.response == {"status": "completed"}, (
        "whatever comes of it, what was measured counts"
    )


def test_an_output_that_has_become_wrong_is_found_before_shapes_are_tried(
    shared: pathlib.Path, fake_probes: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    answer = ask(
        shared,
        fake_probes,
        tmp_path,
        "visit 2 1\nflex\n",
        workflow="misbehaving",
        misdeed="wrong-later",
    )
    assert (answer.response["status"], answer.response["phase"]) == ("incorrect", "done")
    assert told(answer, "flexed") == []


@pytest.mark.parametrize("token", ["peaks", "nonsense"])
def test_a_token_that_is_not_for_this_worker_ends_it_in_good_order(
    token: str, shared: pathlib.Path, fake_probes: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    assert ask(shared, fake_probes, tmp_path, f"{token}\n").response == {"status": "completed"}


def test_every_token_that_the_protocol_names_is_answered(
    shared: pathlib.Path, fake_probes: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    named = {
        line.split()[0]
        for line in (protocol.__doc__ or "").splitlines()
        if line.startswith("    ") and not line.startswith("     ")
    }
    assert {"build", "visit", "sustain", "diagnose", "flex", "stop"} <= named
    answer = ask(shared, fake_probes, tmp_path, "visit 2 1\nsustain 2 0.01\ndiagnose\nflex\n")
    assert {"visited", "sustained", "flexed", "memory"} <= {
        entry["event"] for entry in answer.events
    }
