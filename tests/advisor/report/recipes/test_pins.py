"""A script asks for the distributions it needs, each at the version of the worker's environment."""

from __future__ import annotations

import dataclasses
import functools

import msgspec
import pytest
from packaging.requirements import Requirement

from advisor.report.recipes.found_recipe import pin
from probes.runtime.environment import read_environment
from probes.wire.events import Environment


def environment(
    distributions: dict[str, str], providers: dict[str, tuple[str, ...]]
) -> Environment:
    return Environment(
        python="3.11",
        interpreter="python3",
        distributions=distributions,
        providers=providers,
    )


@functools.cache
def this_environment() -> Environment:
    """Return the environment of the tests, as a worker in it reports it."""
    return msgspec.convert(dataclasses.asdict(read_environment()), Environment)


def test_the_providers_of_imports_and_the_installed_versions_are_pinned() -> None:
    pins = [
        Requirement(each)
        for each in pin(
            {"msgspec", "packaging", "json"},
            {"psutil": "1", "cuda": "13.0"},
            this_environment(),
            {},
        )
    ]
    assert [each.name for each in pins] == ["msgspec", "packaging", "psutil"]
    assert all(
        str(each.specifier).startswith("==") and "+" not in str(each.specifier) for each in pins
    )


def test_the_extras_of_a_distribution_are_required() -> None:
    (found,) = map(
        Requirement,
        pin(
            {"msgspec"},
            {},
            this_environment(),
            {"msgspec": ("toml", "yaml"), "elsewhere": ("more",)},
        ),
    )
    assert (found.name, found.extras) == ("msgspec", {"toml", "yaml"})


@pytest.mark.parametrize("name", ["torch_xla", "Torch.XLA", "torch-xla"])
def test_names_are_compared_normalised_and_local_versions_left_out(name: str) -> None:
    found = environment({"torch-xla": "2.9.0+cpu"}, {})
    assert pin((), {name: "2.9.0"}, found, {}) == [f"{name}==2.9.0"]


def test_of_several_providers_the_first_is_pinned_and_a_broken_one_is_not() -> None:
    found = environment(
        {"onnxruntime": "1.0", "onnxruntime-gpu": "1.1"},
        {"onnxruntime": ("onnxruntime-gpu", "onnxruntime"), "broken": ("gone",)},
    )
    assert pin({"onnxruntime", "broken"}, {}, found, {}) == ["onnxruntime==1.0"]
