"""The commands over the stored runs."""

from __future__ import annotations

import json
import pathlib
import shutil
import subprocess
from collections.abc import Callable

Advise = Callable[..., subprocess.CompletedProcess[str]]


def test_a_run_travels_and_counts_as_imported(
    advise: Advise, recorded: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    exported = advise("export-run", recorded.name)
    assert exported.stdout == f"{recorded.name}.p3run\n", exported.stderr
    assert advise("import-run", exported.stdout.strip(), home=tmp_path / "home").returncode == 0
    shown = json.loads(advise("show", recorded.name, "--json", home=tmp_path / "home").stdout)
    assert shown["imported"]
    assert {entry["evidence"] for entry in shown["workflows"] if entry["rank"]} == {"imported"}
    assert (
        shown["recommendation"]["arm"]
        == json.loads(advise("show", recorded.name, "--json").stdout)["recommendation"]["arm"]
    )
    for command in (("verify", recorded.name), ("resume", recorded.name)):
        assert advise(*command, home=tmp_path / "home").returncode == 2
    recipe = advise("recipe", recorded.name, "--workflow", "pytorch-eager", home=tmp_path / "home")
    assert "read the script before you run it" in recipe.stderr
    again = advise("import-run", exported.stdout.strip(), home=tmp_path / "home")
    assert again.returncode == 2
    assert "already" in again.stderr


def test_a_run_goes_through_standard_output_as_it_is(
    advise: Advise, recorded: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    home = tmp_path / "home"
    place = shutil.copytree(recorded, home / "runs" / recorded.name)
    header = json.loads((place / "run.json").read_text())
    header["machine"]["cpu"]["model"] = "hidden\u202e signs"
    (place / "run.json").write_text(json.dumps(header, ensure_ascii=False))
    (tmp_path / "piped.p3run").write_text(
        advise("export-run", recorded.name, "-o", "-", home=home).stdout
    )
    taken = advise("import-run", "piped.p3run", home=tmp_path / "other")
    assert taken.returncode == 0, taken.stderr


def test_the_history_is_filtered_noted_and_cleared(
    advise: Advise, recorded: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    home = tmp_path / "home"
    name = recorded.name
    place = shutil.copytree(recorded, home / "runs" / name)
    assert advise("note", name, "before the\nupgrade", home=home).returncode == 0
    assert "before the upgrade" in advise("history", home=home).stdout
    for flags, there in (
        (["--model", "DEMO"], True),
        (["--model", "llama"], False),
        (["--noted", "upgrade"], True),
        (["--since", "2099-12-31"], False),
        (["--finished"], True),
        (["--stopped"], False),
        (["--imported"], False),
        (["--own", "--device", "cpu"], True),
    ):
        assert (name in advise("history", *flags, home=home).stdout) is there, flags
    assert advise("delete", name, home=home).stdout == f"{name}\n"
    assert not place.exists()
    assert advise("delete", str(recorded), home=home).returncode == 2
    assert recorded.exists()
