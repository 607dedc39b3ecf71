from __future__ import annotations

import pathlib
import shutil

import builders
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


@pytest.fixture
def own_context(context: Context, tmp_path: pathlib.Path) -> Context:
    """The context with copies of the fake workflows and of their catalogue, which may change."""
    ignored = shutil.ignore_patterns("__pycache__")
    probes = shutil.copytree(context.probes, tmp_path / "probes", ignore=ignored)
    catalogue = shutil.copytree(context.catalogue_directory, tmp_path / "catalogue")
    return builders.replace(context, probes=probes, catalogue_directory=catalogue)
