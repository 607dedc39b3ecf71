"""The HTML report in Chromium, opened from disk without a network; skipped without Chromium."""

from __future__ import annotations

import pathlib
import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import builders
import msgspec
import pytest

from advisor import score
from advisor.domain.question import PILLARS
from advisor.pipeline.decision import Decision
from advisor.question.answers import Answers
from advisor.question.priorities import choose_priorities
from advisor.report import document, measured_document, page

if TYPE_CHECKING:
    from playwright.sync_api import Browser

sync_api = pytest.importorskip("playwright.sync_api")
CHROMIUM = next(
    (
        found
        for name in ("chromium", "chromium-browser", "google-chrome")
        if (found := shutil.which(name))
    ),
    None,
)
# Chromium does not come with the Python packages. CI installs it, so no test is skipped there.
pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="Chromium is missing: apt-get install chromium"
)

ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
]
#: Moves a slider with the event that a user causes.
MOVE = "(slider, value) => { slider.value = value; slider.dispatchEvent(new Event('input')); }"
EVIDENCE = pathlib.Path(__file__).parents[1] / "stacks" / "evidence"
HOSTILE = "</script><img src=x onerror=\"document.title='owned'\">"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
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
        rows = self.page.locator("#reranked tr").all()
        return [
            (row.locator("th").inner_text(), row.locator(".score").inner_text()) for row in rows
        ]

    def weights(self) -> dict[str, float]:
        command = self.page.locator("#command").inner_text()
        given = {
            name: float(value)
            for name, _, value in (
                part.partition("=") for part in command.split(" ")[-1].split(",")
            )
        }
        return {name: given[name] for name in PILLARS}


def three_arms() -> Decision:
    """Return a decision between three arms with different strengths and a barred one."""
    tiers = {
        "fast": (3, 1, 1, 2, 2),
        "easy": (1, 3, 2, 3, 3),
        "everywhere": (2, 1, 3, 1, 2),
        "barred": (3, 3, 3, 3, 3),
    }
    measurements = [
        builders.measurement(arm, speedup=1 + place / 7) for place, arm in enumerate(tiers)
    ]
    known = builders.catalogue(*(builders.workflow(arm) for arm in tiers))
    asked = builders.question(priorities=builders.priorities(50, 30, 20, input_flexibility=20.0))
    results = builders.results(builders.measurement(builders.BASELINE, speedup=1.0), *measurements)
    header = builders.header(question=asked, catalogue=known)
    fails = {"barred": ("too slow",)}
    arms = [
        builders.scored_arm(
            arm,
            asked.priorities,
            tiers=ratings,
            speedup=1 + place / 7,
            rank=place + 1,
            fails=fails.get(arm, ()),
        )
        for place, (arm, ratings) in enumerate(tiers.items())
    ]
    return Decision(header, builders.decision().state, results, tuple(arms), None, None)


def decided_ranking(decision: Decision, command: str) -> list[tuple[str, str]]:
    """Return the ranking of `decide` for the weights in the command that the page shows."""
    priorities = choose_priorities(
        Answers(priority=command.rsplit(" ", maxsplit=1)[-1]), builders.shipped_catalogue()
    )
    weighed = [
        builders.scored_arm(
            arm.arm,
            priorities,
            tiers=[rating.tier for rating in arm.ratings.values()],
            speedup=arm.speedup,
            fails=arm.fails,
        )
        for arm in decision.scored
    ]
    return [(arm.arm, f"{round(arm.score, 9):.2f}") for arm in score.rank(weighed)]


@pytest.fixture
def report(tmp_path: pathlib.Path) -> pathlib.Path:
    decision = three_arms()
    composed = measured_document.compose(decision)
    file = tmp_path / "report.html"
    file.write_text(page.render(composed, HOSTILE), encoding="utf-8")
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
        width = opened.page.evaluate(
            "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        )
        assert width <= 0, settings
        opened.context.close()


def test_a_slider_ranks_like_the_program(browser: Browser, report: pathlib.Path) -> None:
    decision = three_arms()
    opened = OpenReport(browser, report)
    leaders = set()
    for pillar in PILLARS:
        for value in (0, 12.5, 33.5, 61, 100):
            opened.page.locator(f"#weight-{pillar}").evaluate(MOVE, value)
            weights = opened.weights()
            assert weights[pillar] == value
            assert sum(weights.values()) == pytest.approx(100)
            assert opened.ranking() == decided_ranking(
                decision, opened.page.locator("#command").inner_text()
            )
            leaders.add(opened.ranking()[0][0])
            assert opened.page.locator("#answer").inner_text() == f"Use {opened.ranking()[0][0]}."
    assert len(leaders) > 1
    assert opened.ranking()[-1][0] == "barred"
    opened.page.locator("#reset").click()
    assert opened.weights() == {
        name: getattr(decision.header.question.priorities, name) for name in PILLARS
    }
    assert opened.problems == []
    opened.context.close()


@pytest.mark.parametrize(
    ("kept", "scheme"),
    [
        ("cpu-demo.json", "light"),
        ("cpu-demo.json", "dark"),
        ("h200-generate-demo-llama.json", "light"),
    ],
)
def test_the_page_passes_an_accessibility_audit(
    browser: Browser, kept: str, scheme: str, tmp_path: pathlib.Path
) -> None:
    from axe_playwright_python.sync_playwright import Axe  # noqa: PLC0415 - imports playwright

    file = tmp_path / "report.html"
    file.write_text(
        page.render(
            msgspec.json.decode((EVIDENCE / kept).read_bytes(), type=document.RunDocument),
            "print('served')",
        )
    )
    opened = OpenReport(browser, file, color_scheme=scheme)
    for details in opened.page.locator("details").all():
        details.evaluate("each => { each.open = true; }")
    found = Axe().run(opened.page).response
    assert [
        (each["id"], [node["html"] for node in each["nodes"]][:3]) for each in found["violations"]
    ] == []
    assert {"color-contrast", "heading-order", "svg-img-alt", "th-has-data-cells"} <= {
        each["id"] for each in found["passes"]
    }
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
