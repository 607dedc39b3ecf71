"""A document of a file names only commands that work without the run."""

from __future__ import annotations

import pathlib
import shutil

from advisor.report.documents.opening import open_document, read_document

from advisor.report import text_report
from advisor.store.store import Store

#: A run of another machine that did not finish.
UNFINISHED = pathlib.Path(__file__).parents[3] / "stacks" / "evidence" / "h100-unet-float16.json"


def test_a_document_of_a_file_is_printed_again_and_not_resumed(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "a run.json"
    shutil.copyfile(UNFINISHED, file)
    opened = open_document(str(file), Store(tmp_path / "home"))
    assert opened.rerun_command == f"p3-advisor show '{file}' --json"
    resume, again = f"resume {opened.run_id}", f"show {opened.run_id}"
    for document, names_run in ((read_document(str(file)), True), (opened, False)):
        text = text_report.render(document)
        assert (resume in text, again in text) == (names_run, names_run)
