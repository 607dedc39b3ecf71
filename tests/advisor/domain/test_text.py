"""Numbers with their units, texts that a terminal can show, and the errors of users."""

from __future__ import annotations

import json
import re

import pytest

from advisor.domain import errors
from advisor.domain import text as domain_text
from advisor.domain.errors import UserError
from advisor.domain.measurement import CallSeconds, Interval
from advisor.domain.text import MISSING
from probes.outcome import Failure


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (0.00041, "0.00041"),
        (0.119349, "0.1193"),
        (-3.2, "-3.2"),
        (99.996, "100"),
        (1234.5, "1,234"),
        (1e12, "1,000,000,000,000"),
        (float("inf"), "inf"),
        (None, MISSING),
    ],
)
def test_a_number_has_four_significant_digits_and_no_exponent(
    value: float | None, text: str
) -> None:
    assert domain_text.format_number(value) == text


def test_decimals_and_digits_can_be_chosen() -> None:
    assert domain_text.format_number(1234.5678, decimals=2) == "1,234.57"
    assert domain_text.format_number(0.119349, digits=2) == "0.12"


def test_an_interval_has_its_value_unit_and_bounds() -> None:
    speedup = Interval(value=1.46, low=1.37, high=1.561)
    assert domain_text.format_interval(speedup) == "1.46x (1.37 to 1.56)"
    assert domain_text.format_interval(speedup, unit="", decimals=3) == "1.460 (1.370 to 1.561)"
    assert domain_text.format_speedup(speedup) == "1.46x"
    tiny = Interval(value=0.0018, low=0.0, high=0.01)
    assert domain_text.format_speedup(tiny) == "0.002x"
    assert domain_text.format_interval(tiny) == "0.002x (0.00 to 0.01)"


@pytest.mark.parametrize(("low", "high"), [(None, None), (1.0, None), (None, 2.0)])
def test_an_interval_without_both_bounds_is_marked(low: float | None, high: float | None) -> None:
    found = domain_text.format_interval(Interval(value=1.46, low=low, high=high))
    assert found == f"1.46x {domain_text.NO_INTERVAL}"


def test_call_seconds_become_milliseconds_with_their_interval() -> None:
    seconds = CallSeconds(median=0.0121, low=0.012, high=0.0123, samples=9)
    assert domain_text.format_call_milliseconds(seconds) == "12.1 (12 to 12.3)"
    unbounded = CallSeconds(median=0.0121, low=None, high=None, samples=1)
    assert domain_text.format_call_milliseconds(unbounded) == f"12.1 {domain_text.NO_INTERVAL}"


def test_units_are_converted() -> None:
    assert domain_text.format_seconds(1234.56) == "1,234.6"
    assert domain_text.format_milliseconds(0.1) == "100"
    assert domain_text.format_mebibytes((1234 << 20) + (900 << 10)) == "1,235"
    assert domain_text.format_mebibytes(1 << 18, digits=3) == "0.25"
    assert domain_text.format_share(0.0712) == "7 %"
    assert domain_text.format_share(0.0712, decimals=1) == "7.1 %"


@pytest.mark.parametrize(
    ("share", "text"),
    [(0.005, "0.5 %"), (0.025, "2.5 %"), (0.05, "5 %"), (0.07, "7 %"), (0.9, "90 %"), (0.0, "0 %")],
)
def test_a_share_without_decimals_is_shown_as_it_was_given(share: float, text: str) -> None:
    assert domain_text.format_share(share, decimals=None) == text


def test_a_value_that_is_not_known_is_a_dash() -> None:
    for unit in ("interval", "speedup", "seconds", "milliseconds", "mebibytes", "share"):
        assert getattr(domain_text, f"format_{unit}")(None) == MISSING


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "not known"), (True, "yes"), (False, "no"), (1.23456, "1.235"), (4, "4"), ("a", "a")],
)
def test_a_fact_is_a_number_a_text_or_yes_or_no(
    value: float | str | bool | None, text: str
) -> None:
    assert domain_text.format_fact(value) == text


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [
        (0, 37.2, "less than 37 %"),
        (0, 39.8, "less than 39 %"),
        (0, 40, "any less"),
        (0, 0.25, "less than 0.2 %"),
        (0, 0.0001, "0 %"),
        (40.3, 100, "more than 41 %"),
        (40.96, 100, "more than 41 %"),
        (99.9999, 100, "100 %"),
        (10.2, 37.2, "11 to 37 %"),
        (36.4, 36.9, "36.4 to 36.9 %"),
        (36.401, 36.402, None),
        (10.2, 40, "any less, down to 10.2 %"),
        (40, 60.8, "any more, up to 60.8 %"),
    ],
)
def test_weights_are_written_so_that_all_of_them_are_within_the_bounds(
    low: float, high: float, text: str | None
) -> None:
    assert domain_text.format_weights(low, high, 40.0) == text


@pytest.mark.parametrize(
    ("text", "short"),
    [
        ("a reason.", "a reason"),
        (
            "branching (e.g. `if x:`). Dynamo does not support tracing it.",
            "branching (e.g. `if x:`)",
        ),
        ("the first; the second, which is very long", "the first; the second"),
        ("(e.g. one, two) three four fives six", "(e.g. one, two) three four ..."),
        ("one line\nanother", "one line"),
        ("\n", ""),
    ],
)
def test_a_reason_ends_where_a_sentence_or_a_clause_does(text: str, short: str) -> None:
    assert domain_text.shorten_text(text, 32) == short


@pytest.mark.parametrize("end", [": GuardOnDataDependentSymNode", " (call_function args)"])
def test_a_long_reason_ends_before_its_details(end: str) -> None:
    reason = "a size depends on the values of a tensor whose values are not known at net.py:9"
    assert domain_text.shorten_text(f"{reason}{end} {'x' * 40}") == reason
    assert domain_text.shorten_text(f"failed{end} {'x ' * 80}").endswith(" ...")


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("two\nlines\tand a tab", "two\nlines\tand a tab"),
        ("größer, 速い", "größer, 速い"),
        ("\x1b[2Jgone", "\\u001b[2Jgone"),
        ("\x9b31mred", "\\u009b31mred"),
        ("a\rb\x7f", "a\\u000db\\u007f"),
        ("\u202eright to left", "\\u202eright to left"),
        ("\U000e0041 tag", "\\udb40\\udc41 tag"),
    ],
)
def test_control_and_invisible_characters_are_escaped(text: str, escaped: str) -> None:
    assert domain_text.escape_control_chars(text) == escaped


def test_json_stays_the_same_json() -> None:
    value = {"reason": "\x1b[31m \u202e \U000e0041 \u2028 ü"}
    encoded = json.dumps(value, ensure_ascii=False)
    assert domain_text.escape_control_chars(encoded) != encoded
    assert json.loads(domain_text.escape_control_chars(encoded)) == value


def subclasses_of(parent: type[UserError]) -> list[type[UserError]]:
    return [kind for child in parent.__subclasses__() for kind in (child, *subclasses_of(child))]


KINDS = subclasses_of(UserError)


def test_names_are_unique() -> None:
    names = [kind.name for kind in KINDS]
    assert len(names) > 10
    assert sorted(set(names)) == sorted(names)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_an_error_has_its_own_name_and_a_meaning(kind: type[UserError]) -> None:
    assert re.fullmatch(r"[a-z]+(-[a-z]+)*", kind.name)
    assert "name" in vars(kind), "the name is inherited from another error"
    assert kind.__doc__
    assert kind.__module__ == errors.__name__


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (errors.NothingViableError, 1),
        (errors.OptionValueError, 2),
        (errors.UnknownModelError, 2),
        (errors.NoStackError, 3),
        (errors.NotWritableError, 3),
        (errors.InterpreterError, 3),
        (errors.BudgetSpentError, 4),
    ],
)
def test_exit_codes_are_stable(kind: type[UserError], code: int) -> None:
    assert kind.exit_code == code


def test_a_baseline_that_was_not_reached_is_no_failure_of_it() -> None:
    late = Failure("skipped", "build", "not built", "allow more", skip_cause="out-of-time")
    found = errors.error_of("pytorch-eager", late)
    assert (type(found), found.next_step) == (errors.BudgetSpentError, "allow more")
    assert type(errors.error_of("pytorch-eager", None)) is errors.NothingViableError


@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("servin", "did you mean serving?"),
        ("SERV", "did you mean serving?"),
        ("balnced", "did you mean balanced?"),
        ("xyz", "use one of balanced, serving"),
        ("", "use one of balanced, serving"),
    ],
)
def test_a_misspelt_name_gets_the_nearest_or_all(name: str, step: str) -> None:
    assert errors.choose_among(name, ["balanced", "serving"]) == step
