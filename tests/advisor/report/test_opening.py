from __future__ import annotations

import csv
import io
import json
import pathlib
import re
import shutil
import subprocess
import sys
from typing import Any

import builders
import built_answers
import msgspec
import pytest
import recorded_runs
from kept.runs import EVIDENCE

from advisor.ask.context import Context
from advisor.ask.run_options import RunOptions
from advisor.domain import errors
from advisor.domain.accuracy import why_unchecked
from advisor.domain.answer import AnswerSummary, Problem
from advisor.domain.plan import EAGER, PLAIN_COMPILE
from advisor.domain.run_events import ArmsPlanned, Finished, Resumed
from advisor.recipes.server import REQUEST
from advisor.report import answer_files, figures, markdown, recipe_text, text_report
from advisor.report.answer_files import open_answer, read_answer
from advisor.report.answer_lines import code_lines
from advisor.store.store import Store
from probes.accuracy import Accuracy
from probes.facts import EACH_CALL

#: A run of another machine that did not finish.
UNFINISHED = EVIDENCE / "h100-unet-float16.json"


def test_an_answer_of_a_file_is_printed_again_and_not_resumed(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "a run.json"
    shutil.copyfile(UNFINISHED, file)
    opened = open_answer(str(file), Context(environment={}, store=Store(tmp_path / "home")))
    assert opened.rerun_command == f"p3-advisor show '{file}' --json"
    resume, again = f"resume {opened.run_id}", f"show {opened.run_id}"
    for answer, names_run in ((read_answer(str(file)), True), (opened, False)):
        text = text_report.render(answer)
        assert (resume in text, again in text) == (names_run, names_run)


@pytest.mark.parametrize("file", [*EVIDENCE.glob("*.json")], ids=lambda file: file.stem)
def test_an_answer_of_a_file_has_its_code_and_names_no_run_of_the_store(
    file: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    answer = open_answer(str(file), Context(environment={}, store=Store(tmp_path)))
    before, now = (AnswerSummary.of(each) for each in (read_answer(str(file)), answer))
    is_changed = (before.arm, before.decision_word) != (now.arm, now.decision_word)
    told = answer_files.describe_change(str(file), answer)
    assert (f"the file says {before.decision_word}" in told) == is_changed
    text = text_report.render_summary(answer, 100)
    full = text_report.render(answer)
    assert f"resume {answer.run_id}" not in text + full
    options = {name.replace("_", "-") for name in RunOptions.__struct_fields__}
    assert {*re.findall(r"allow more with --([a-z-]+)", full)} <= options
    # The recipe loads the model for inference instead.
    notes = ("model.eval()", "p3-advisor recipe")
    lines = [line for line in code_lines(answer) if not any(each in line for each in notes)]
    is_served = answer.question.load is not None
    integration = answer.advised.measured.integration if lines and answer.advised else ""
    calls = EACH_CALL.split(integration)[-1].splitlines()
    last = (code_lines(answer) or [""])[-1].replace("(**inputs)", "(*inputs)")
    assert last.startswith("  --data ") if is_served else [last] == (calls or [""])[-1:]
    arms = [line.split()[1] for line in text.splitlines() if "x  " in line or " to " in line]
    compiled = [each.arm for each in answer.ranking if each.scored.workflow == PLAIN_COMPILE]
    ranked = {each.arm for each in answer.ranking}
    assert {EAGER, *compiled[:1]} & ranked <= {*arms} or len({*arms} & ranked) < 3
    is_changed = answer.recommendation is not None and answer.recommendation.arm != EAGER
    assert bool(lines) == is_changed
    assert all(f"    {line}" in full.splitlines() for line in lines)
    if is_changed:
        code = recipe_text.render_short(answer, *recipe_text.choose_recipe(answer, None, ""))
        start = " ".join(lines[: lines.index(REQUEST)]).replace("\\", "") if is_served else ""
        assert set(start.partition(" --port")[0].split()) <= set(code.split())
        assert is_served or set(lines) <= set(code.splitlines())
        split = f"--tensor-parallel-size {answer.question.devices_per_model}"
        assert (split in start) == (answer.question.devices_per_model > 1)


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_a_byte_order_mark_is_no_part_of_an_answer(encoding: str, tmp_path: pathlib.Path) -> None:
    file = tmp_path / "answer.json"
    file.write_text(UNFINISHED.read_text(encoding="utf-8"), encoding=encoding)
    assert read_answer(str(file)) == read_answer(str(UNFINISHED))


@pytest.mark.parametrize(
    ("schema", "error"),
    [
        ("p3-advisor/run/99", errors.NewerVersionError),
        ("p3-advisor/something/99", errors.ExportFileError),
    ],
)
def test_an_answer_of_a_newer_version_says_so(
    schema: str, error: type[errors.UserError], tmp_path: pathlib.Path
) -> None:
    file = tmp_path / "answer.json"
    file.write_text(json.dumps({"schema": schema, "of": "a newer version"}))
    with pytest.raises(error):
        read_answer(str(file))


def with_further_fields(value: object) -> Any:
    """Return the JSON of a value, with a further field in the object of each struct."""
    if isinstance(value, msgspec.Struct):
        config, fields = value.__struct_config__, msgspec.structs.asdict(value)
        tag = {config.tag_field: config.tag} if config.tag_field else {}
        return {**tag, **{name: with_further_fields(each) for name, each in fields.items()}, "x": 1}
    if isinstance(value, dict):
        return {str(name): with_further_fields(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [with_further_fields(each) for each in value]
    return msgspec.to_builtins(value)


def test_an_answer_and_a_run_with_fields_of_a_later_version_are_opened(home: pathlib.Path) -> None:
    run, answer = recorded_runs.make_run(Store(home), finished=True), read_answer(str(UNFINISHED))
    file, header = home / "later.json", run.header()
    file.write_text(json.dumps(with_further_fields(answer)))
    assert file.read_text().count('"x": 1') > 100
    assert read_answer(str(file)) == answer
    (run.directory / "run.json").write_text(json.dumps(with_further_fields(header)))
    assert run.header() == header


@pytest.mark.parametrize(
    ("field", "value"),
    [("bytes_per_second", 0), ("compute_capability", "x"), ("new_shape_behaviour", "x")],
)
def test_an_answer_with_impossible_figures_is_refused(
    field: str, value: object, tmp_path: pathlib.Path
) -> None:
    changed = re.compile(rf'"{field}":[^,\n]+')
    text, count = changed.subn(f'"{field}": {json.dumps(value)}', UNFINISHED.read_text())
    assert count
    file = tmp_path / "answer.json"
    file.write_text(text)
    with pytest.raises(errors.ExportFileError, match=field):
        read_answer(str(file))


#: The first reads of a new process, in eight threads at once. Threads take turns as often as they
#: can, so that they meet inside msgspec.
FIRST_READS = """
import pathlib, sys, threading
from advisor.report.answer_files import read_answer
from advisor.store.runs import Run

sys.setswitchinterval(1e-6)
begin = threading.Barrier(8)

def read():
    begin.wait()
    assert eval(sys.argv[2])

threads = [threading.Thread(target=read) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""


def test_threads_that_read_for_the_first_time_do_not_crash(home: pathlib.Path) -> None:
    reports = recorded_runs.reports_of("compiled", builders.process(*builders.visits([1.0])))
    planned = ArmsPlanned(plan=builders.plan("compiled"))
    events = builders.events(planned, *reports, Resumed(), Finished())
    run = recorded_runs.make_planned_run(home, recorded_runs.IDS[0], *events).directory
    opened = "Run(pathlib.Path(sys.argv[1]))"
    for path, read in (
        (EVIDENCE / "cpu-demo.json", "read_answer(sys.argv[1]).scores"),
        (run, f"{opened}.events() and {opened}.header()"),
    ):
        for _ in range(3):
            subprocess.run([sys.executable, "-c", FIRST_READS, path, read], check=True)


def test_a_missing_library_is_a_user_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(errors.MissingExtraError):
        answer_files.write("parquet", built_answers.answer())


def test_every_arm_and_batch_size_has_a_row() -> None:
    rows = list(csv.DictReader(io.StringIO(figures.to_csv([built_answers.answer()]))))
    assert [(row["arm"], row["batch_size"], row["status"]) for row in rows] == [
        ("compiled", "1", "completed"),
        (builders.BASELINE, "1", "completed"),
        ("broken", "", "crashed"),
        ("absent", "", "not-installed"),
    ]
    assert float(rows[0]["speedup"]) == pytest.approx(4)
    assert tuple(rows[0]) == figures.COLUMNS


@pytest.mark.parametrize(("noise_floor", "flag"), [(0.3, "0"), (4.0, "1")])
def test_every_row_has_the_decision_and_whether_its_figures_are_fit(
    noise_floor: float, flag: str
) -> None:
    made = built_answers.with_results(built_answers.answer(), noise_floor=noise_floor)
    advice = built_answers.advice_of(made)
    text = figures.to_csv([made])
    for row in csv.DictReader(io.StringIO(text)):
        assert (row["decision"], row["trust"], row["machine_unfit"]) == (
            builders.known(advice.decision).word,
            advice.trust,
            flag,
        )


def test_arms_have_no_rank_where_the_machine_was_too_busy_for_an_answer() -> None:
    problem = Problem.of(errors.MachineUnfitError("the machine was busy", "wait"))
    made = builders.replace(built_answers.answer(), recommendation=None, problem=problem)
    for row in csv.DictReader(io.StringIO(figures.to_csv([made]))):
        assert {row["rank"], row["score"], row["tier_performance"]} == {""}


@pytest.mark.parametrize(("outputs", "named"), [(1, "None of its"), (2, "Not all of its")])
def test_outputs_that_were_not_checked_are_named_without_an_answer_too(
    outputs: int, named: str
) -> None:
    accuracy = Accuracy(fault="uncompared", uncompared={"random": 1}, outputs=outputs)
    checked = builders.checked(accuracy_class="unchecked", accuracy=accuracy)
    made = built_answers.with_measurement(built_answers.answer(), correctness=(checked,))
    assert named in " ".join(text_report.render_summary(made, 80).split())
    problem = Problem.of(errors.MachineUnfitError("the machine was busy", "wait"))
    unanswered = builders.replace(made, recommendation=None, problem=problem)
    summary = text_report.render_summary(unanswered, 80)
    assert why_unchecked(checked) in " ".join(summary.split())


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@x", "\tx"])
def test_texts_that_look_like_formulas_are_quoted(text: str) -> None:
    assert str(figures.escape_formula(text)).startswith("'")
    assert figures.escape_formula(-1.5) == -1.5, "a number is no text"


HOSTILE = "|</td>`=cmd()\n# x"


def cells(line: str) -> list[str]:
    """Return the cells of a table's line, without escaped separators as ends."""
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def test_the_report_has_the_answer_the_ranking_and_the_failures() -> None:
    lines = markdown.render(built_answers.answer()).splitlines()
    assert lines[0].startswith("## Use Compiled for synthetic/ffn\\@8x16")
    rows = [cells(line) for line in lines if line.startswith("|")]
    assert any(text_report.measured_at(built_answers.answer()) in line for line in lines)
    assert rows[2][:3] == ["1\\*", "compiled", "4.00x \\(3.91 to 4.09\\)"]
    assert lines[lines.index("- broken: crashed, it crashed") + 1] == "  - next: update it"


def test_hostile_text_stays_in_its_cell() -> None:
    made = built_answers.answer(unmeasured=(builders.unmeasured(arm=HOSTILE, reason=HOSTILE),))
    made = built_answers.with_advice(built_answers.with_score(made, arm=HOSTILE), arm=HOSTILE)
    text = markdown.render(built_answers.with_measurement(made, arm=HOSTILE))
    assert "# x" in text
    assert "</td>" not in text
    assert not any(line.startswith("# x") for line in text.splitlines())
    ranking = [line for line in text.splitlines() if line.startswith("|")][:4]
    assert len({len(cells(line)) for line in ranking}) == 1
