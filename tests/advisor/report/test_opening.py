"""An answer of a file names only commands that work without the run."""

from __future__ import annotations

import pathlib
import shutil

from advisor.report import text_report
from advisor.report.opening import open_answer, read_answer
from advisor.store.store import Store

#: A run of another machine that did not finish.
UNFINISHED = pathlib.Path(__file__).parents[2] / "stacks" / "evidence" / "h100-unet-float16.json"


def test_an_answer_of_a_file_is_printed_again_and_not_resumed(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "a run.json"
    shutil.copyfile(UNFINISHED, file)
    opened = open_answer(str(file), Store(tmp_path / "home"))
    assert opened.rerun_command == f"p3-advisor show '{file}' --json"
    resume, again = f"resume {opened.run_id}", f"show {opened.run_id}"
    for answer, names_run in ((read_answer(str(file)), True), (opened, False)):
        text = text_report.render(answer)
        assert (resume in text, again in text) == (names_run, names_run)
