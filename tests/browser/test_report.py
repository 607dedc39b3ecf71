"""The HTML report in Chromium, opened from disk without a network; skipped without Chromium."""

from __future__ import annotations

import pathlib
import random
import re
import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import builders
import built_answers
import pytest
from kept.runs import decide_run

from advisor.ask.option_values import choose_priorities
from advisor.ask.run_options import RunOptions
from advisor.decide.answers import answer_from_results
from advisor.domain.answer import Answer
from advisor.domain.catalogue import Catalogue
from advisor.domain.constraints import PILLARS, Constraint
from advisor.domain.measurement import BuildSeconds, MemoryBytes
from advisor.report import page

if TYPE_CHECKING:
    from playwright.sync_api import Browser

NAMES = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM = next(filter(None, map(shutil.which, NAMES)), None)
# Chromium does not come with the Python packages. `.ci/run` tries to install it; without it these
# tests are skipped with the reason.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is missing: apt-get install chromium"),
]

ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
]
#: Moves a slider with the event that a user causes.
MOVE = "(slider, value) => { slider.value = value; slider.dispatchEvent(new Event('input')); }"
RANKING = """() => [...document.querySelectorAll("#reranked tr")].map(row =>
  [row.querySelector("th").innerText, row.querySelector(".score").innerText])"""
HOSTILE = "</script><img src=x onerror=\"document.title='owned'\">"
SIDES = ("top", "right", "bottom", "left")
#: By how much the page is wider than the window.
BEYOND = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    sync_api = pytest.importorskip("playwright.sync_api")
    with sync_api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield started
        started.close()


class OpenReport:
    """A report in a browser with its console messages, its errors and its requests."""

    def __init__(self, browser: Browser, file: pathlib.Path, **settings: Any) -> None:
        self.context = browser.new_context(offline=True, **settings)
        self.page = self.context.new_page()
        self.problems: list[str] = []
        self.page.on("console", lambda message: self.problems.append(message.text))
        self.page.on("pageerror", lambda problem: self.problems.append(str(problem)))
        self.page.on(
            "request",
            lambda request: (
                self.problems.append(request.url) if request.url != file.as_uri() else None
            ),
        )
        self.page.goto(file.as_uri())

    def ranking(self) -> list[tuple[str, str]]:
        return [(name, score) for name, score in self.page.evaluate(RANKING)]

    def weights(self) -> dict[str, float]:
        command = self.page.locator("#command").inner_text()
        given = {
            name: float(value)
            for name, _, value in (
                part.partition("=") for part in command.split(" ")[-1].split(",")
            )
        }
        return {name: given[name] for name in PILLARS}


#: Declared facts and the measured speed-up of the arms; `barred` needs too much memory.
ARMS: dict[str, tuple[float, dict[str, Any]]] = {
    "fast": (6.37, {"lines_changed": 40, "vendors": 1, "new_shapes": "recompiles"}),
    "easy": (1.13, {"vendors": 2}),
    "everywhere": (1.61, {"lines_changed": 7, "new_shapes": "refused"}),
    "slow": (0.43, {"architectures": "listed"}),
    "barred": (9.41, {}),
    # Equal in every figure: their order is that of the program.
    "twin-one": (1.21, {"lines_changed": 12}),
    "twin-two": (1.21, {"lines_changed": 12}),
}
BOUND = (Constraint("memory", "<=", 1 << 30),)


def known_arms() -> Catalogue:
    return builders.catalogue(
        *(
            builders.workflow(arm, declared=builders.declared(**facts))
            for arm, (_, facts) in ARMS.items()
        )
    )


def several_arms() -> Answer:
    """Return an answer between arms with different strengths and one that is barred."""
    asked = builders.question(
        priorities=builders.priorities(50, 30, 20, input_flexibility=20.0), constraints=BOUND
    )
    measurements = [
        builders.measurement(
            arm,
            speedup=speedup,
            build_seconds=BuildSeconds(cold=47.0, warm=None, worst=40.0 + 10 * len(facts)),
            memory_bytes=MemoryBytes(peak=(2 if arm == "barred" else 1) << 30, source="a test"),
        )
        for arm, (speedup, facts) in ARMS.items()
    ]
    results = builders.results(builders.measurement(builders.BASELINE, speedup=1.0), *measurements)
    return built_answers.answer_of(results, builders.header(question=asked, catalogue=known_arms()))


def decided(answer: Answer, command: str) -> tuple[list[tuple[str, str]], str]:
    """Return ranking and answer of `decide` for the weights in the command that the page shows."""
    priorities = choose_priorities(
        RunOptions(priority=command.rsplit(" ", maxsplit=1)[-1]), builders.shipped_catalogue()
    )
    again = answer_from_results(answer, known_arms(), priorities=priorities)
    ranking = [(each.arm, f"{round(each.score, 9):.2f}") for each in again.scores]
    return ranking, builders.known(again.recommendation).arm


@pytest.fixture
def report(tmp_path: pathlib.Path) -> pathlib.Path:
    file = tmp_path / "report.html"
    file.write_text(page.render(several_arms(), HOSTILE), encoding="utf-8")
    return file


def test_the_page_opens_from_disk_without_errors_or_requests(
    browser: Browser, report: pathlib.Path
) -> None:
    for settings in (
        {"color_scheme": "light"},
        {"color_scheme": "dark"},
        {"viewport": {"width": 360, "height": 800}},
    ):
        opened = OpenReport(browser, report, **settings)
        assert opened.problems == []
        assert opened.page.title() != "owned"
        assert opened.page.evaluate(BEYOND) <= 0, settings
        opened.context.close()


def test_a_slider_ranks_like_the_program(browser: Browser, report: pathlib.Path) -> None:
    answer = several_arms()
    opened = OpenReport(browser, report)
    wanted = [(each.arm, f"{round(each.score, 9):.2f}") for each in answer.scores]
    assert opened.ranking() == wanted
    leaders = set()
    draw = random.Random(0)
    moves = [(pillar, value) for pillar in PILLARS for value in (0, 12.5, 33.5, 61, 100)]
    moves += [(draw.choice(PILLARS), draw.randrange(201) / 2) for _ in range(40)]
    for pillar, value in moves:
        opened.page.locator(f"#weight-{pillar}").evaluate(MOVE, value)
        weights = opened.weights()
        assert weights[pillar] == value
        assert sum(weights.values()) == pytest.approx(100)
        ranking, advised = decided(answer, opened.page.locator("#command").inner_text())
        assert opened.ranking() == ranking
        leaders.add(advised)
        assert opened.page.locator("#answer").inner_text() == f"Use {advised}."
    assert len(leaders) > 2
    assert opened.ranking()[-1][0] == "barred"
    opened.page.locator("#reset").click()
    assert opened.weights() == {name: getattr(answer.question.priorities, name) for name in PILLARS}
    assert opened.problems == []
    opened.context.close()


KEPT_RUNS = [
    "cpu-demo",
    "h200-ffn-multilayer-tinyllama-bfloat16",
    "h200-generate-tinyllama-bfloat16",
]
#: Tables and code of the text that is not folded whose content is wider than they are.
SCROLLING = """() => [...document.querySelectorAll('.scroll, pre')]
  .filter((each) => !each.closest('details, #method') && each.scrollWidth > each.clientWidth + 1)
  .map((each) => each.textContent.slice(0, 80))"""


def audit(opened: OpenReport) -> None:
    """Assert that axe finds no violation; of what passes it describes no element, which is slow."""
    from axe_playwright_python.sync_playwright import Axe  # noqa: PLC0415 - imports playwright

    found = Axe().run(opened.page, options={"resultTypes": ["violations"]}).response
    assert [
        (each["id"], [node["html"] for node in each["nodes"]][:3]) for each in found["violations"]
    ] == []
    assert {"color-contrast", "heading-order", "svg-img-alt", "th-has-data-cells"} <= {
        each["id"] for each in found["passes"]
    }


@pytest.mark.parametrize("name", KEPT_RUNS)
def test_a_kept_run_is_readable_on_wide_and_narrow_screens_on_paper_and_to_an_audit(
    browser: Browser, name: str, tmp_path: pathlib.Path
) -> None:
    file = tmp_path / "report.html"
    file.write_text(page.render(decide_run(name), "print('served')"))
    for width in (1280, 390):
        opened = OpenReport(browser, file, viewport={"width": width, "height": 900})
        if width == 390:
            assert opened.page.evaluate(SCROLLING) == []
            speedup = opened.page.locator("table.cards td").first
            assert speedup.evaluate("each => getComputedStyle(each, '::before').content") != "none"
        else:
            printed = opened.page.pdf(format="A4", margin=dict.fromkeys(SIDES, "12mm"))
            assert len(re.findall(rb"/Type\s*/Page\b", printed)) <= 2
        for details in opened.page.locator("details").all():
            details.evaluate("each => { each.open = true; }")
        assert opened.problems == []
        assert opened.page.evaluate(BEYOND) <= 0, width
        if width == 1280:
            audit(opened)
        if width == 1280 and name == KEPT_RUNS[0]:
            opened.page.emulate_media(color_scheme="dark")
            audit(opened)
        opened.context.close()


def test_without_scripts_only_the_sliders_are_missing(
    browser: Browser, report: pathlib.Path
) -> None:
    opened = OpenReport(browser, report, java_script_enabled=False)
    assert not opened.page.locator("#sliders").is_visible()
    assert opened.page.locator("#reranked").is_visible()
    assert opened.page.locator("h2").count() == opened.page.locator("nav a").count()
    opened.context.close()


def test_the_printed_page_has_no_sliders_and_no_cut_text(
    browser: Browser, report: pathlib.Path
) -> None:
    opened = OpenReport(browser, report)
    opened.page.emulate_media(media="print")
    assert not opened.page.locator("#sliders").is_visible()
    assert not opened.page.locator("nav").is_visible()
    assert opened.page.locator("pre").evaluate(
        "element => element.scrollHeight <= element.clientHeight + 1"
    )
    assert opened.page.pdf()[:4] == b"%PDF"
    opened.context.close()
