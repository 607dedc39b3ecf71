"""The panes below the ranking: why, how far to trust it, what to do next, what is missing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.text import Text

from advisor.domain.priorities import FURTHER_CRITERIA
from advisor.report.sections import new_shapes
from advisor.report.sections.answer import flip_lines
from advisor.report.sections.ranking_cells import partly_used
from advisor.report.sections.unranked import unranked
from advisor.system.number_format import format_share
from advisor.tui.answer import RunAnswer
from advisor.tui.rendering import text

EVERYTHING_MEASURED = "Every workflow that applies was measured."
NO_FLIP = "No weighting of the three Ps changes the answer."


def render_why(answer: RunAnswer) -> Text:
    advice, problem = answer.recommendation, answer.document.problem
    if advice is None:
        return _items([problem.next_step] if problem is not None else [], ">")
    lines = _items(advice.reasons, "+")
    if len(advice.advice_by_shape) > 1:
        lines += Text("Best at each shape\n", "bold")
        lines += _items(
            (
                f"batch {best.shape}: {best.arm}, {best.speedup:.2f}x eager"
                + (
                    f" (the advised one {best.advised_speedup:.2f}x)"
                    if best.arm != advice.arm
                    else ""
                )
                for best in advice.advice_by_shape
            ),
            " ",
        )
    for section in (new_shapes.summary(answer.document), partly_used(answer.document)):
        lines += _render_section(section)
    return lines


def _render_section(section: Sequence[str]) -> Text:
    """Return a heading and its indented lines; nothing for an empty section."""
    heading, *lines = section or [""]
    if not heading:
        return Text()
    return text.styled(f"{heading.rstrip(':')}\n", "bold") + _items(map(str.strip, lines), " ")


def render_trust(answer: RunAnswer) -> Text:
    advice, noise_floor = answer.recommendation, answer.document.results.noise_floor
    if advice is None:
        return Text("Nothing is advised, so there is nothing to trust.\n")
    lines = text.styled(f"Trust {advice.trust}", "bold") + Text(" on the scale from A to D.\n")
    lines += _items(advice.trust_reasons, "-")
    found = []
    certainty = advice.certainty
    if certainty is not None:
        found.append(
            f"the best choice in {format_share(certainty.share)} of what the measurements allow"
        )
        found.append(f"if it is wrong, at most {certainty.lost_score:.2f} points are lost (95 %)")
    if certainty is not None and certainty.needed_repetitions is not None:
        plural = "s" if certainty.needed_repetitions > 1 else ""
        found.append(
            f"about {certainty.needed_repetitions} more repetition{plural} in fresh processes would"
            " settle it"
        )
    if noise_floor is not None:
        found.append(
            f"noise floor {format_share(noise_floor, 1)}: two equal workers may differ by this"
        )
    return lines + _items(found, " ")


def render_next(answer: RunAnswer) -> Text:
    advice, problem = answer.recommendation, answer.document.problem
    if advice is None:
        return _items([problem.next_step] if problem is not None else [], ">")
    return _items(advice.next_steps, ">")


def render_unmeasured(answer: RunAnswer) -> Text:
    """Return the arms and workflows without a rank, each with the reason and what enables it."""
    lines = [text.printable(line, 600) for line in unranked(answer.document)]
    return Text("\n".join(lines) or EVERYTHING_MEASURED)


def count_unmeasured(answer: RunAnswer) -> int:
    return len(answer.document.unmeasured)


def describe_weights(answer: RunAnswer) -> Text:
    priorities = answer.priorities
    further = [
        f"{name.replace('_', ' ')} {getattr(priorities, name):g} %" for name in FURTHER_CRITERIA
    ]
    share = 100 - sum(getattr(priorities, name) for name in FURTHER_CRITERIA)
    lines = text.styled(
        f"The three share {share:g} % of the score; {' and '.join(further)}.\n", "dim"
    )
    return lines + _items(flip_lines(answer.document) or [NO_FLIP], " ")


def _items(items: Iterable[str] | Sequence[str], bullet: str) -> Text:
    return Text("".join(f"{bullet} {text.printable(item, 600)}\n" for item in items))
