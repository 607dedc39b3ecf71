"""Render kept runs of the task `serve` as Markdown: goodput, latency by rate, and failures."""

from __future__ import annotations

from kept.run_tables import EVIDENCE_LINK, failures
from kept.runs import device_of, read_run, versions_of

from advisor.domain.answer import Answer
from advisor.report.formatting import markdown_table
from advisor.report.sections import serving_tables
from advisor.system.number_format import format_share_of_draws


def serving_introduction(document: Answer, file: str) -> str:
    """Return the question, the load, the device, the versions and the answer of a run."""
    load, question = document.question.load, document.question
    assert load is not None, file
    lengths = ", ".join(
        f"{each.input_tokens} in and {each.output_tokens} out" for each in load.lengths
    )
    count, date = (
        len(document.results.serving.arms) if document.results.serving else 0,
        document.created[:10],
    )
    servers = "1 server" if count == 1 else f"{count} servers"
    advice = document.recommendation
    answer = (
        f"Recommendation with the default priorities: {advice.arm}, certainty "
        f"{format_share_of_draws(advice.certainty.share)}, trust {advice.trust}."
        if advice and advice.certainty is not None
        else "No recommendation."
    )
    return f"""\
Servers under load (`--task serve`), one command, {servers}: `{question.model.name}` in
{question.dtype}, requests of {lengths} tokens, {load.limits}, on {device_of(document)},
{date} ([kept run]({EVIDENCE_LINK}/{file})).
Versions: {versions_of(document)}.
{answer}
"""


def serving_section(file: str) -> list[str]:
    """Return the goodput and the latency of each server of a run, best first, and its failures."""
    document = read_run(file)
    tables = [
        line
        for title, (head, *rows) in serving_tables.titled_tables(document)
        for line in (f"{title}:", "", *markdown_table(head, rows, text_columns={0}), "")
    ]
    failed = failures(document) or ["Every requested server was put under load."]
    return [serving_introduction(document, file), *tables, *failed, ""]
