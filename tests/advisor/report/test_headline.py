"""Every output begins with the same lines of the headline."""

from __future__ import annotations

import html
import re
from collections.abc import Callable

import builders
import built_answers
import msgspec
import pytest
from built_answers import advice_of, with_advice, without_advice

from advisor.domain.answer import Answer, HeadlineLine, Problem, encode
from advisor.domain.recommendation import Flip
from advisor.report import markdown, page, text_report
from advisor.report.answer import confidence, flip_lines
from advisor.text_format import NO_BREAK_SPACE

FIRST_LINES = 5
LINES = (
    "Use ONNX Runtime (IO binding) for demo_model on AMD EPYC, 2 cores.",
    "CLEAR: best with 99 % certainty. 1.52x PyTorch eager (1.41 to 1.60).",
    "It would be PyTorch eager if performance weighed less than 37 % (now 40 %).",
    "PyTorch & co <fast> are slower at batch size 16 (0.82x).",
)


def of_text(made: Answer) -> str:
    return "\n".join(text_report.render(made).splitlines()[:FIRST_LINES])


def of_markdown(made: Answer) -> str:
    """Return the lines above the table as a reader sees them."""
    above = markdown.render(made).partition("\n|")[0]
    assert above.startswith("## ")
    return html.unescape(re.sub(r"\\(.)", r"\1", above))


def of_page(made: Answer) -> str:
    header = builders.known(re.search(r"<header>(.*?)</header>", page.render(made), re.DOTALL))
    return html.unescape(re.sub(r"<[^>]+>", "", header[1])).replace(NO_BREAK_SPACE, " ")


def of_json(made: Answer) -> str:
    encoded = msgspec.json.decode(encode(made))
    return "\n".join(line["text"] for line in encoded["headline"])


Reader = Callable[[Answer], str]


@pytest.mark.parametrize("first_lines", [of_text, of_markdown, of_page, of_json])
@pytest.mark.parametrize("finished", [True, False])
def test_every_output_begins_with_all_lines_of_the_headline(
    first_lines: Reader, *, finished: bool
) -> None:
    headline = tuple(HeadlineLine(part="answer", text=line) for line in LINES)
    shown = first_lines(built_answers.answer(headline=headline, finished=finished))
    assert all(line in shown for line in LINES)
    places = [shown.index(line) for line in LINES]
    assert places == sorted(places)


def test_texts_name_arms_by_their_titles() -> None:
    made = built_answers.answer()
    runner_up = builders.known(advice_of(made).runner_up)
    flip = Flip(criterion="performance", weight=50.0, when="more", to=runner_up)
    made = with_advice(made, flips=(flip,))
    title = made.titles[runner_up]
    assert title != runner_up
    assert title in "\n".join(confidence(made))
    (line,) = flip_lines(made)
    assert title in line


@pytest.mark.parametrize("first_lines", [of_text, of_markdown, of_page])
def test_an_answer_without_a_recommendation_begins_with_the_reason(first_lines: Reader) -> None:
    problem = Problem(
        name="nothing-viable", what="all failed", next_step="ask for less", exit_code=1
    )
    shown = first_lines(without_advice(built_answers.answer(), problem))
    assert problem.what in shown
    assert problem.next_step in shown
