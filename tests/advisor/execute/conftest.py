from __future__ import annotations

import pathlib

import pytest
import sessions

from advisor.ask.context import Context


@pytest.fixture(scope="module")
def module_home(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The directory of the runs that the tests of one module share."""
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def module_context(
    module_home: pathlib.Path, fake_probes: pathlib.Path, fake_catalogue: pathlib.Path
) -> Context:
    """A context with the fake workflows and a store that the tests of one module share."""
    return sessions.fake_context(module_home, fake_probes, fake_catalogue)
