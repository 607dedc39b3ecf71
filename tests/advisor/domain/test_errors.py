"""User errors: names, exit codes and next steps."""

from __future__ import annotations

import re

import pytest

from advisor.domain import errors
from advisor.domain.errors import UserError
from probes.outcome import Failure


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
