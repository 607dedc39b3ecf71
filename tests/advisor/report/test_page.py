"""The HTML report: valid, self-contained, and safe against hostile text."""

from __future__ import annotations

import itertools
import re
from typing import Any

import builders
import built_answers
import html5lib
import msgspec
from built_measurements import platform
from kept.runs import decide_run

from advisor.decide import performance_portability
from advisor.domain.answer import Answer
from advisor.domain.constraints import CRITERIA
from advisor.domain.errors import NothingViableError
from advisor.domain.recommendation import ShapeAdvice
from advisor.domain.text import MISSING
from advisor.domain.workflow import CountedLines
from advisor.report import markdown, page
from advisor.report.tables import BEST_BY_SHAPE, list_tables
from advisor.report.text_report import measured_at

HOSTILE = "</script><img src=x onerror=alert(1)>{{ 7*7 }}\"'&\u202e\n# ]]>"
NAMESPACE = "{http://www.w3.org/1999/xhtml}"
SVG = "{http://www.w3.org/2000/svg}"


def parse(text: str) -> Any:
    """Return the tree of the page; fail on any parse error of the HTML standard."""
    return html5lib.HTMLParser(strict=True, namespaceHTMLElements=True).parse(text)


def elements(tree: Any, name: str, namespace: str = NAMESPACE) -> list[Any]:
    return list(tree.iter(f"{namespace}{name}"))


def poison(value: Any) -> Any:
    """Replace every text by a hostile one, except under the keys in `KEPT_KEYS`."""
    if isinstance(value, str):
        return HOSTILE
    if isinstance(value, list):
        return [poison(each) for each in value]
    if isinstance(value, dict):
        return {name: each if name in KEPT_KEYS else poison(each) for name, each in value.items()}
    return value


#: Keys of closed sets and of names that connect parts of the document.
KEPT_KEYS = {
    "schema",
    "run_id",
    "created",
    "kind",
    "status",
    "evidence",
    "verdict",
    "trust",
    "basis",
    "bound",
    "unit",
    "gpu",
    "block",
    "task",
    "dtype",
    "device",
    "criterion",
    "outcome",
    "word",
    "chosen_for",
    "repeated",
    "part",
}


def two_platforms() -> Answer:
    """Return an answer with a second platform that refuses `broken` and lacks the baseline."""
    platforms = [
        platform("CPU", compiled=1.0, pytorch_eager=0.5, broken=0.25),
        platform("GPU", ("broken",), compiled=0.25),
    ]
    same = CountedLines(lines_changed=1, source="import torch\n")
    workflows = [
        builders.workflow(name, integration=same)
        for name in ("compiled", builders.BASELINE, "broken")
    ]
    found = performance_portability.compare_platforms(platforms, workflows)
    return built_answers.with_results(built_answers.answer(), portability=found)


def poisoned() -> Answer:
    """Return an answer in which every free text is hostile."""
    builtins = msgspec.to_builtins(two_platforms())
    made: Answer = msgspec.convert(poison(builtins), Answer)
    return made


def test_the_page_is_valid_and_has_every_section() -> None:
    tree = parse(page.render(built_answers.answer(), "print('recipe')"))
    sections = [section.get("id") for section in elements(tree, "section")]
    assert sections == [
        "why",
        "comparison",
        "weights",
        "speed",
        "build",
        "limits",
        "evidence",
        "unranked",
        "method",
        "recipe",
    ]
    assert [link.get("href") for link in elements(tree, "a")] == [f"#{name}" for name in sections]
    top = "".join(elements(tree, "header")[0].itertext())
    assert measured_at(built_answers.answer()) in top


def test_the_page_makes_no_request() -> None:
    text = page.render(built_answers.answer(), "print('recipe')")
    tree = parse(text)
    for element in tree.iter():
        assert not {"src", "srcset", "style", "action"} & set(element.attrib), element.attrib
        assert element.get("href", "#").startswith("#")
        assert not any(name.startswith("on") for name in element.attrib)
    assert "http:" not in re.sub(r"xmlns\S+", "", text)
    assert not re.search(r"url\(|@import", text)
    policy = next(meta.get("content") for meta in elements(tree, "meta") if meta.get("http-equiv"))
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy


def test_the_advised_arm_is_marked_and_leads_though_a_less_exact_one_scores_more() -> None:
    answer = decide_run("cpu-quantised-demo-llama-again")
    tree = parse(page.render(answer))
    marked = [row for row in elements(tree, "tr") if row.get("class") == "best"]
    assert answer.scores[0].arm == "openvino/int4"
    assert [elements(row, "th")[0].text for row in marked] == ["openvino"]
    assert elements(marked[0], "td")[0].text.endswith("*")
    titles = ["".join(each.itertext()) for each in elements(tree, "title", SVG)]
    leaders = {title.split()[0] for title in titles if " of all weightings" in title}
    assert leaders == {"openvino", "pytorch-eager", "llama-cpp"}


def test_the_advice_of_a_guideline_is_followed_by_its_agreement_and_source() -> None:
    tree = parse(page.render(decide_run("cpu-quantised-demo-llama-again")))
    further = [each.text.strip() for each in elements(tree, "li") if each.get("class") == "further"]
    assert further[0] == "the measurement agrees"
    assert [each.partition(":")[0] for each in further[1:]] == ["source"]


def test_a_load_has_the_lengths_of_its_requests_alone_and_a_shell_script() -> None:
    text = page.render(decide_run("h100-served-llama3.1-8b-bfloat16"), "#!/bin/sh")
    assert "1020 + 129 tokens" in text
    assert "32 input tokens" not in text
    assert "-o server.sh" in text


def test_the_best_arm_of_a_batch_size_is_named_where_it_is_another_one() -> None:
    made = built_answers.answer()
    (cell,) = made.results.by_arm["compiled"].cells
    other = ShapeAdvice(shape=cell.shape, arm=builders.BASELINE, speedup=1.0, advised_speedup=4.0)
    criteria, table = list_tables(built_answers.with_advice(made, advice_by_shape=(other,)))
    assert table.title == BEST_BY_SHAPE, "a slower arm is not called the best one"
    assert table.rows[1] == ["1", builders.BASELINE, "1.00x", "4.00x"]
    assert [row[0].replace(" ", "_") for row in criteria.rows[1:]] == [*CRITERIA]
    assert {row[-1] for row in criteria.rows[1:]} <= {"measured", "declared"}
    same = builders.replace(other, arm=built_answers.advice_of(made).arm)
    assert list_tables(built_answers.with_advice(made, advice_by_shape=(same,))) == [criteria]


def test_the_code_stands_with_the_answer_and_nothing_in_it_is_markup() -> None:
    code = f"import torch\n{HOSTILE}\n# Each call:\noutput = compiled(x)\n"
    made = built_answers.with_measurement(built_answers.answer(), "compiled", integration=code)
    (shown,) = elements(parse(page.render(made)), "pre")
    lines = [HOSTILE.split("\n", maxsplit=1)[0], "# Each call:", "output = compiled(x)"]
    assert all(line in str(shown.text) for line in lines)
    assert f"\n    {lines[-1]}\n" in markdown.render(made)


def test_hostile_text_stays_text() -> None:
    tree = parse(page.render(poisoned(), HOSTILE))
    assert elements(tree, "img") == []
    assert [script.get("type") for script in elements(tree, "script")] == ["application/json", None]
    assert not any(name.startswith("on") for element in tree.iter() for name in element.attrib)
    assert "49" not in "".join(heading.text or "" for heading in elements(tree, "h1"))
    assert any(HOSTILE in (cell.text or "") for cell in elements(tree, "td"))
    assert elements(tree, "code")[-1].text == HOSTILE


def test_headings_tables_and_pictures_are_accessible() -> None:
    tree = parse(page.render(built_answers.answer()))
    levels = [
        int(element.tag[-1])
        for element in tree.iter()
        if re.fullmatch(rf"{re.escape(NAMESPACE)}h[1-6]", str(element.tag))
    ]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in itertools.pairwise(levels))
    for table in elements(tree, "table"):
        assert elements(table, "caption")
        assert all(head.get("scope") in {"row", "col"} for head in elements(table, "th"))
    for picture in elements(tree, "svg", SVG):
        # The marks in a key are followed by their names.
        if picture.get("aria-hidden") != "true":
            assert picture.get("role") == "img"
            assert picture.get("aria-label")
    labelled = {label.get("for") for label in elements(tree, "label")}
    assert {element.get("id") for element in elements(tree, "input")} <= labelled
    assert elements(tree, "html")[0].get("lang") == "en"
    identities = [element.get("id") for element in tree.iter() if element.get("id")]
    assert len(set(identities)) == len(identities)


def test_a_run_without_an_answer_has_its_failures_and_no_script() -> None:
    bare = built_answers.answer(scores=(), results=builders.results(races=()))
    made = built_answers.without_advice(bare, NothingViableError("all failed", "less"))
    tree = parse(page.render(made))
    assert [section.get("id") for section in elements(tree, "section")] == ["unranked", "method"]
    assert elements(tree, "script") == []


def test_the_data_of_the_script_is_that_of_the_answer() -> None:
    made = built_answers.answer()
    data = page._ranking_data(made)
    assert [each["arm"] for each in data["arms"]] == ["compiled", builders.BASELINE]
    for each, scored in zip(data["arms"], made.scores, strict=True):
        assert each["grades"] == [scored.ratings[name].grade for name in CRITERIA]
    assert data["weights"]["performance"] == made.question.priorities.performance


def test_platforms_have_their_efficiencies_and_harmonic_means() -> None:
    tree = parse(page.render(two_platforms()))
    (section,) = [
        section for section in elements(tree, "section") if section.get("id") == "platforms"
    ]
    head, *rows = [["".join(cell.itertext()) for cell in row] for row in elements(section, "tr")]
    assert head == ["application", "[1]", "[2]", "portability", "of peak", "same code"]
    # The harmonic mean is 2 / (1 / 1 + 1 / 0.25); the arithmetic mean would be 0.62.
    assert rows[0] == ["compiled", "1.00", "0.25", "0.40", "0.20", "1.00"]
    assert ["broken", "0.25", "0.00", "0.00", "0.00", MISSING] in rows
    assert [builders.BASELINE, "0.50", MISSING, MISSING, MISSING, MISSING] in rows
    named = "".join(section.itertext())
    assert all(run in named for run in ("run-CPU", "run-GPU"))
    titles = [
        "".join(title.itertext())
        for title in elements(elements(section, "svg", SVG)[0], "title", SVG)
    ]
    assert [each for each in titles if "compiled" in each] == ["compiled: 100 %", "compiled: 25 %"]
    assert [each for each in titles if builders.BASELINE in each] == [f"{builders.BASELINE}: 50 %"]
