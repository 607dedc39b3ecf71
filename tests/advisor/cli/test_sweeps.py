"""`recommend` with several lengths, and `resume`, `show` and `report` of a sweep."""

from __future__ import annotations

import functools
import json
import pathlib
import shutil
import signal
import subprocess
from collections.abc import Callable
from typing import Any

import jsonschema
import msgspec
import pytest

from advisor import schemas
from advisor.cli import run_host, sweeps
from advisor.cli.interruption import InterruptedRunError
from advisor.context import Context
from advisor.domain.answer import Answer
from advisor.domain.sweep import RECORD_SCHEMA, Lengths, MixedLengths, SweepRecord, SweepRun
from advisor.pipeline.stored import remaining
from advisor.question.answers import Answers
from advisor.report.sweeps.sweep_document import SweepDocument
from advisor.store.store import Store

RunCli = Callable[..., subprocess.CompletedProcess[str]]

SWEEP = "sweep-20261121-120000-f1ee"
SHORT, LONG = (Lengths(input_tokens=tokens, output_tokens=32) for tokens in (32, 128))
#: The question of the recorded run.
ANSWERS = Answers(gpu="cpu", batch_sizes="1", budget="4", workflows="quick")


@pytest.fixture
def store(recorded: pathlib.Path, home: pathlib.Path) -> Store:
    """A copy of the recorded run."""
    shutil.copytree(recorded, home / "runs" / recorded.name)
    return Store(home)


@pytest.fixture
def simulated(
    fake_probes: pathlib.Path, fake_rubric: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Commands use the simulated workflows."""
    context = functools.partial(Context, probes=fake_probes, rubric=fake_rubric)
    monkeypatch.setattr("advisor.context.Context", context)


def save_sweep(store: Store, run_id: str, *measured: Lengths, **changes: Any) -> SweepRecord:
    """Store a sweep over two lengths; the recorded run stands for those that are measured."""
    record = SweepRecord(
        schema=RECORD_SCHEMA,
        sweep_id=SWEEP,
        created="2026-11-21T12:00:00+00:00",
        answers=msgspec.to_builtins(ANSWERS),
        mix=(MixedLengths(lengths=SHORT, share=0.75), MixedLengths(lengths=LONG, share=0.25)),
        runs=tuple(SweepRun(lengths=each, run_id=run_id) for each in measured),
    )
    record = msgspec.structs.replace(record, **changes)
    store.sweeps.save(record)
    return record


def document_of(answer: subprocess.CompletedProcess[str]) -> SweepDocument:
    """Return the document that a command printed."""
    jsonschema.validate(
        json.loads(answer.stdout), json.loads(schemas.schema_file("sweep").read_text())
    )
    return msgspec.json.decode(answer.stdout, type=SweepDocument)


@pytest.mark.usefixtures("simulated")
def test_a_sweep_measures_every_length_and_answers_for_the_mix(
    run_cli: RunCli, home: pathlib.Path
) -> None:
    options = ("--gpu", "cpu", "--batch-sizes", "1", "--budget", "3")
    lengths = ("--input-tokens", "32,8,16", "--length-mix", "8:1,16:2,32:1")
    answer = run_cli("recommend", "--json", *options, *lengths, "--workflows", "quick", home=home)
    assert answer.returncode == 0, answer.stderr
    found = document_of(answer)
    assert found.finished
    assert [each.lengths.input_tokens for each in found.lengths] == [8, 16, 32]
    assert [each.share for each in found.lengths] == [0.25, 0.5, 0.25]
    assert found.recommendation is not None
    assert {entry.arm for entry in found.ranked} >= {"pytorch-eager", found.recommendation.arm}
    assert all([cell.batch_size for cell in each.cells] == [1] for each in found.lengths)
    (record,) = (Store(home).sweeps.find(name) for name in Store(home).sweeps.ids())
    assert [run.lengths.input_tokens for run in record.runs] == [8, 32, 16]

    shortest, middle, longest = found.lengths
    ends = {(each.answer.decision_word, each.answer.arm) for each in (shortest, longest)}
    agree = len(ends) == 1 and shortest.answer.decision_word == "CLEAR"
    assert bool(middle.limited_to) == agree
    assert middle.between == ((shortest.lengths, longest.lengths) if agree else ())
    seconds = [
        Store(home).find(run.run_id).header().question.budget.measuring_seconds
        for run in record.runs
    ]
    assert seconds[0] == pytest.approx(1)

    shown = run_cli("show", found.sweep_id[:9], "--json", home=home)
    assert document_of(shown) == found
    one = run_cli("show", str(longest.run_id), "--json", home=home)
    assert msgspec.json.decode(one.stdout, type=Answer).question.input_tokens == 32


@pytest.mark.usefixtures("simulated")
def test_an_interrupted_sweep_continues_where_it_stopped(
    run_cli: RunCli,
    recorded: pathlib.Path,
    store: Store,
    home: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    save_sweep(store, recorded.name, SHORT)

    def interrupt(*_: object) -> None:
        raise InterruptedRunError(signal.SIGINT)

    with monkeypatch.context() as patched:
        patched.setattr(run_host, "execute_controlled", interrupt)
        stopped = run_cli("resume", SWEEP, home=home)
    assert stopped.returncode == 128 + signal.SIGINT
    assert f"resume with: p3-advisor resume {SWEEP}\n" in stopped.stderr
    started = store.sweeps.find(SWEEP).run_at(LONG)
    assert started is not None

    unfinished = run_cli("show", SWEEP, "--json", home=home)
    assert unfinished.returncode == 4
    problem = document_of(unfinished).problem
    assert problem is not None
    assert problem.name == "sweep-unfinished"

    resumed = run_cli("resume", SWEEP, "--json", home=home)
    assert resumed.returncode == 0, resumed.stderr
    assert [each.run_id for each in document_of(resumed).lengths] == [
        recorded.name,
        started.run_id,
    ]


def test_an_error_at_one_length_names_the_command_that_continues(
    run_cli: RunCli,
    recorded: pathlib.Path,
    store: Store,
    home: pathlib.Path,
) -> None:
    # The shipped catalogue does not have the workflow of the simulated ones.
    save_sweep(store, recorded.name, SHORT)
    ended = run_cli("resume", SWEEP, home=home)
    assert ended.returncode == 2
    assert f"p3-advisor resume {SWEEP}\n" in ended.stderr


def test_a_mix_of_one_length_has_the_answer_of_its_run(
    run_cli: RunCli, recorded: pathlib.Path, store: Store, home: pathlib.Path
) -> None:
    mix = (MixedLengths(lengths=SHORT, share=1), MixedLengths(lengths=LONG, share=0))
    save_sweep(store, recorded.name, SHORT, mix=mix)
    found = document_of(run_cli("show", SWEEP, "--json", home=home))
    run = run_cli("show", recorded.name, "--json", home=home)
    document = msgspec.json.decode(run.stdout, type=Answer)
    assert found.recommendation == document.recommendation
    assert found.ranked == document.ranked
    assert not found.finished


def test_a_measured_sweep_is_not_measured_again(
    run_cli: RunCli, recorded: pathlib.Path, store: Store, home: pathlib.Path
) -> None:
    save_sweep(store, recorded.name, SHORT, LONG)
    (line,) = run_cli("resume", SWEEP, "--jsonl", home=home).stdout.splitlines()
    assert json.loads(line)["document"]["sweep_id"] == SWEEP


def test_a_deleted_run_is_a_length_that_is_not_measured(
    run_cli: RunCli, recorded: pathlib.Path, store: Store, home: pathlib.Path
) -> None:
    save_sweep(store, recorded.name, SHORT, LONG)
    assert run_cli("show", SWEEP, home=home).returncode == 0
    assert run_cli("delete", recorded.name, home=home).returncode == 0
    gone = run_cli("show", SWEEP, "--json", home=home)
    assert gone.returncode == 4
    assert not any(each.finished for each in document_of(gone).lengths)


def test_a_sweep_has_reports_as_markdown_and_json(
    run_cli: RunCli,
    recorded: pathlib.Path,
    store: Store,
    home: pathlib.Path,
    tmp_path: pathlib.Path,
) -> None:
    save_sweep(store, recorded.name, SHORT, LONG)
    written = run_cli("report", SWEEP, "--format", "md,json", home=home)
    assert written.returncode == 0, written.stderr
    files = [tmp_path / line for line in written.stdout.split()]
    assert [file.name for file in files] == [f"{SWEEP}.md", f"{SWEEP}.json"]
    assert f" {SHORT.input_tokens} |" in files[0].read_text()
    assert msgspec.json.decode(files[1].read_bytes(), type=SweepDocument).sweep_id == SWEEP
    refused = run_cli("report", SWEEP, "--format", "junit", home=home)
    assert refused.returncode == 2


def test_resume_without_a_name_continues_the_sweep_of_the_newest_run(
    run_cli: RunCli,
    recorded: pathlib.Path,
    store: Store,
    home: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    save_sweep(store, recorded.name, SHORT, LONG)
    resumed: list[str] = []
    monkeypatch.setattr(remaining, "newest_resumable", lambda own: own.find(recorded.name))
    monkeypatch.setattr(sweeps, "resume", lambda name, _: resumed.append(name))
    newest = run_cli("resume", home=home)
    assert newest.returncode == 0
    assert SWEEP in newest.stderr
    assert resumed == [SWEEP]
    assert run_cli("resume", recorded.name, home=home).returncode == 0
    assert resumed == [SWEEP]


def test_a_sweep_is_decided_again_with_other_priorities(
    run_cli: RunCli, recorded: pathlib.Path, store: Store, home: pathlib.Path
) -> None:
    save_sweep(store, recorded.name, SHORT, LONG)
    found = [
        document_of(run_cli("decide", SWEEP, "--json", "--priority", weights, home=home))
        for weights in (
            "performance=98,productivity=1,portability=1",
            "performance=1,productivity=98,portability=1",
        )
    ]
    answers = [[each.answer.arm for each in one.lengths] for one in found]
    assert answers[0] == ["quick"] * 2
    assert "quick" not in answers[1]
    arms = [one.recommendation.arm for one in found if one.recommendation]
    assert arms == [one[0] for one in answers]


def test_the_history_lists_sweeps_and_a_deleted_one_leaves_its_runs(
    run_cli: RunCli, recorded: pathlib.Path, store: Store, home: pathlib.Path
) -> None:
    save_sweep(store, recorded.name, SHORT, LONG)
    assert SWEEP in run_cli("history", home=home).stdout
    assert run_cli("delete", SWEEP, home=home).stdout == f"{SWEEP}\n"
    left = run_cli("history", home=home).stdout
    assert SWEEP not in left
    assert recorded.name in left
    assert run_cli("show", SWEEP, home=home).returncode == 2


@pytest.mark.usefixtures("simulated")
@pytest.mark.parametrize(
    "arguments",
    [
        ("--length-mix", "32:100"),
        ("--input-tokens", "8,16", "--length-mix", "32:100"),
        ("--input-tokens", "8,16", "--task", "serve"),
        ("--input-tokens", "8,16", "--fleet", "local"),
        ("--input-tokens", "8,16", "--gpu", "all"),
        ("--input-tokens", "8,16", "--gpu", "H100"),
        ("--output-tokens", "8,16", "--gpu", "cpu"),
        ("--input-tokens", "8,x"),
    ],
)
def test_what_cannot_be_swept_is_a_usage_error_and_stores_nothing(
    arguments: tuple[str, ...], run_cli: RunCli, home: pathlib.Path
) -> None:
    refused = run_cli("recommend", *arguments, home=home)
    assert refused.returncode == 2
    assert "\n  next: " in refused.stderr
    assert not Store(home).sweeps.ids()
    assert Store(home).is_empty()


def test_the_plain_prompts_refuse_several_lengths(run_cli: RunCli, home: pathlib.Path) -> None:
    refused = run_cli("ask", "--plain", "--input-tokens", "8,16", home=home)
    assert refused.returncode == 2
    assert Store(home).is_empty()


@pytest.mark.parametrize("command", ["recipe", "explain", "verify"])
def test_commands_of_one_run_refuse_a_sweep(
    command: str, run_cli: RunCli, recorded: pathlib.Path, store: Store, home: pathlib.Path
) -> None:
    save_sweep(store, recorded.name, SHORT, LONG)
    refused = run_cli(command, SWEEP, home=home)
    assert refused.returncode == 2
    assert SWEEP in refused.stderr
