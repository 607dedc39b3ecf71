"""What a user is told has one name and one exit code for each thing that can go wrong."""

from __future__ import annotations

import re

import pytest

from advisor import errors
from advisor.errors import UserError


def kinds(parent: type[UserError] = UserError) -> list[type[UserError]]:
    return [kind for child in parent.__subclasses__() for kind in (child, *kinds(child))]


def test_names_are_unique() -> None:
    names = [kind.name for kind in kinds()]
    assert len(names) > 10
    assert sorted(set(names)) == sorted(names)


@pytest.mark.parametrize("kind", kinds(), ids=lambda kind: kind.__name__)
def test_an_error_has_a_name_a_meaning_and_an_exit_code(kind: type[UserError]) -> None:
    assert re.fullmatch(r"[a-z]+(-[a-z]+)*", kind.name)
    assert "name" in vars(kind), "its own name, not that of another error"
    assert kind.exit_code in {1, 2, 3, 4}
    assert kind.__doc__
    assert kind.__module__ == errors.__name__


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (errors.NothingViableError, 1),
        (errors.SizeError, 2),
        (errors.UnknownModelError, 2),
        (errors.NoStackError, 3),
        (errors.NotWritableError, 3),
        (errors.InterpreterError, 3),
        (errors.BudgetSpentError, 4),
    ],
)
def test_exit_codes_are_those_that_scripts_rely_on(kind: type[UserError], code: int) -> None:
    assert kind.exit_code == code


def test_an_error_says_what_is_wrong_and_what_to_do() -> None:
    error = errors.SizeError("it is too large", "make it smaller")
    assert (str(error), error.what, error.next_step) == (
        "it is too large",
        "it is too large",
        "make it smaller",
    )
