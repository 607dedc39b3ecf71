"""Every user error has a unique name, a meaning and an exit code."""

from __future__ import annotations

import re

import pytest

from advisor import errors
from advisor.errors import UserError


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
        (errors.SizeError, 2),
        (errors.UnknownModelError, 2),
        (errors.NoStackError, 3),
        (errors.NotWritableError, 3),
        (errors.InterpreterError, 3),
        (errors.BudgetSpentError, 4),
    ],
)
def test_exit_codes_are_stable(kind: type[UserError], code: int) -> None:
    assert kind.exit_code == code


def test_the_exit_code_of_a_stored_problem_is_that_of_its_error() -> None:
    assert {kind.name: errors.exit_code_of(kind.name) for kind in KINDS} == {
        kind.name: kind.exit_code for kind in KINDS
    }
    assert errors.exit_code_of("an-error-of-a-later-version") == 1
