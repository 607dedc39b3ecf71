"""Definitions of the probes are bundled with everything they refer to, and with nothing else."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest

from advisor.catalogue import rubric_files
from advisor.recipes.bundler import CannotBundleError, SourceBundler

PROBES = rubric_files.probes_directory()


def bundle(tmp_path: pathlib.Path, *names: str, **modules: str) -> str:
    """Return the bundle of these names of the module `main`."""
    files = {}
    for name, text in modules.items():
        module = "probes." + name.replace("__", ".")
        files[module] = tmp_path / f"{name}.py"
        files[module].write_text(text)
    bundler = SourceBundler(PROBES, files)
    for name in names:
        bundler.add("probes.main", name)
    return "\n".join(bundler.imports()) + "\n" + bundler.definitions() + "\n"


def test_only_what_a_definition_refers_to_is_bundled(tmp_path: pathlib.Path) -> None:
    main = """
import json
import math
FACTOR = 2
# Why this is so.
def area(radius: float, *, factor: float = FACTOR) -> float:
    return factor * math.pi * radius  # noqa: X1 - a rule
def other():
    return json.dumps({})
"""
    text = bundle(tmp_path, "area", main=main)
    assert text.splitlines() == [
        "import math",
        "FACTOR = 2",
        "",
        "",
        "# Why this is so.",
        "def area(radius, *, factor=FACTOR):",
        "    return factor * math.pi * radius",
    ]


def test_local_imports_are_bundled_and_unreachable_branches_left_out(
    tmp_path: pathlib.Path,
) -> None:
    main = """
import json
def area(kind, options):
    if kind == "other":
        from probes import other

        return json.loads(other.area(kind))
    if options:
        from probes.measuring.warmup_detection import square  # noqa: X1 - a rule

        return square(options)
    from probes.measuring import warmup_detection
    return warmup_detection.circle(kind)
"""
    shapes = """
import math
def square(value):
    return value**2
def circle(value):
    return math.pi
"""
    files = {
        f"probes.{name}": tmp_path / f"{name}.py" for name in ("main", "measuring.warmup_detection")
    }
    files["probes.main"].write_text(main)
    files["probes.measuring.warmup_detection"].write_text(shapes)
    bundler = SourceBundler(PROBES, files, conditions={"kind == 'other'": False})
    bundler.add("probes.main", "area")
    text = "\n".join([*bundler.imports(), bundler.definitions()])
    assert bundler.imports() == ["import math"]
    area = """\
def area(kind, options):
    if options:
        return square(options)
    return circle(kind)"""
    assert area in text
    namespace: dict[str, Any] = {}
    exec(text, namespace)
    assert namespace["area"]("x", 3) == 9


def test_definitions_of_the_same_name_are_renamed(tmp_path: pathlib.Path) -> None:
    main = """
from probes.measuring import timing
def warm_up(size_block):
    return timing.warm_up, size_block, timing.size_block
"""
    text = bundle(
        tmp_path,
        "warm_up",
        main=main,
        measuring__timing="def warm_up():\n    return 1\ndef size_block():\n    return warm_up()\n",
    )
    namespace: dict[str, object] = {}
    exec(text, namespace)
    assert {name for name in namespace if not name.startswith("__")} == {
        "warm_up",
        "timing_warm_up",
        "timing_size_block",
    }
    inner, given, sized = namespace["warm_up"](3)  # type: ignore[operator]
    assert (inner(), given, sized()) == (1, 3, 1)


def test_an_alias_is_followed_to_its_definition(tmp_path: pathlib.Path) -> None:
    text = bundle(
        tmp_path,
        "stop",
        main="from probes.measuring import timing\nstop = timing.wait\n",
        measuring__timing="def wait():\n    pass\n",
    )
    assert text == "\ndef wait():\n    pass\n"


def test_a_reference_that_cannot_be_followed_is_an_error(tmp_path: pathlib.Path) -> None:
    with pytest.raises(CannotBundleError, match="ONE"):
        bundle(tmp_path, "run", main="ONE, TWO = 1, 2\ndef run():\n    return ONE\n")
    with pytest.raises(CannotBundleError, match="defines no"):
        bundle(tmp_path, "absent", main="")


def test_a_name_that_is_imported_from_two_places_is_an_error(tmp_path: pathlib.Path) -> None:
    with pytest.raises(CannotBundleError, match="np is imported from two places"):
        bundle(
            tmp_path,
            "run",
            main="import numpy as np\nfrom probes.measuring import timing\n"
            "def run():\n    return np, timing.wait()\n",
            measuring__timing="import jax.numpy as np\ndef wait():\n    return np\n",
        )
