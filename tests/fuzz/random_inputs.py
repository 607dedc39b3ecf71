"""Random inputs: JSON trees and bytes are changed, so that most of them stay nearly valid.

hypothesis draws the random numbers, so that it can shrink an input that shows a defect.
"""

from __future__ import annotations

import copy
import os
import pathlib
import random
import shutil
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

#: So many other inputs of each test; without it a few, the same ones in every run of the tests.
INPUTS = os.environ.get("P3_ADVISOR_FUZZ_INPUTS")
CHANCE = st.randoms(use_true_random=False)

#: Values that parsers, reports and terminals have been known to handle wrongly.
HOSTILE: tuple[Any, ...] = (
    "",
    " ",
    "a" * 5000,
    "\x1b]0;title\x07",
    "\x1b[2J",
    "\u202egnp",
    "\ud800".encode("utf-8", "surrogatepass").decode("utf-8", "replace"),
    "<script>alert(1)</script>",
    "[/] [bold]",
    "=1+1",
    "../../etc/passwd",
    "/dev/zero",
    "$(id)",
    "latest",
    "cpu",
    None,
    True,
    False,
    0,
    -1,
    1,
    2**31,
    2**53 + 1,
    2**63,
    2**70,
    -(2**63),
    0.0,
    -0.5,
    1e-320,
    1e300,
    -1e300,
    [],
    {},
    [[]],
    [None],
    {"": ""},
)


def inputs(few: int) -> settings:
    """Return the settings of a test that tries a few inputs unless the environment says more."""
    return settings(
        max_examples=int(INPUTS or few),
        derandomize=INPUTS is None,
        deadline=None,
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    )


def fresh(folder: pathlib.Path) -> pathlib.Path:
    """Return an empty directory for one input of a test."""
    shutil.rmtree(folder / "input", ignore_errors=True)
    (folder / "input").mkdir()
    return folder / "input"


def mutate(tree: Any, chance: random.Random, times: int = 1) -> Any:
    """Return a copy of a JSON tree with `times` random changes."""
    changed = copy.deepcopy(tree)
    for _ in range(times):
        changed = _mutate_once(changed, chance)
    return changed


def _mutate_once(tree: Any, chance: random.Random) -> Any:
    places = list(_places(tree))
    if not places:
        return chance.choice(HOSTILE)
    parent, key = chance.choice(places)
    value = parent[key]
    match chance.randrange(7):
        case 0:
            del parent[key]
        case 1 if isinstance(parent, list):
            parent.insert(key, copy.deepcopy(value))
        case 1:
            parent[f"{key}-again"] = copy.deepcopy(value)
        case 2 if isinstance(value, (int, float)) and not isinstance(value, bool):
            parent[key] = value * chance.choice((-1, 0, 2, 1000, 1e-9, 1e12))
        case 3:
            other = chance.choice(list(parent) if isinstance(parent, dict) else range(len(parent)))
            parent[key], parent[other] = parent[other], value
        case 4:
            for _ in range(chance.choice((1, 10, 400))):
                parent[key] = [parent[key]]
        case _:
            parent[key] = copy.deepcopy(chance.choice(HOSTILE))
    return tree


def _places(tree: Any) -> list[tuple[Any, Any]]:
    """Return every container with each of its keys or indices."""
    found: list[tuple[Any, Any]] = []
    pending = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, (dict, list)):
            keys = list(node) if isinstance(node, dict) else range(len(node))
            found += [(node, key) for key in keys]
            pending += [node[key] for key in keys]
    return found


def mutate_bytes(content: bytes, chance: random.Random) -> bytes:
    """Return the bytes with a random piece changed, cut out, repeated or cut off."""
    start = chance.randrange(len(content) + 1)
    end = min(start + chance.choice((1, 1, 8, 200)), len(content))
    match chance.randrange(5):
        case 0:
            piece = bytes(byte ^ (1 << chance.randrange(8)) for byte in content[start:end])
        case 1:
            piece = b""
        case 2:
            piece = content[start:end] * 2
        case 3:
            return content[:start]
        case _:
            piece = chance.choice((b"\0", b"\n", b"\xff\xfe", b"[" * 3000, b'{"a":' * 3000, b"]"))
    return content[:start] + piece + content[end:]
