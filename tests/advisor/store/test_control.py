"""Commands to a run in progress."""

from __future__ import annotations

import os
import pathlib

import pytest

from advisor.errors import RunNotControllableError
from advisor.store.control import RunControl


def test_commands_are_read_once_and_only_when_they_are_complete(tmp_path: pathlib.Path) -> None:
    control = RunControl(tmp_path)
    assert control.read_commands(0) == ([], 0)
    control.send("pause")
    control.send("skip a/b")
    commands, offset = control.read_commands(0)
    assert commands == ["pause", "skip a/b"]
    assert offset == (tmp_path / "control").stat().st_size
    with (tmp_path / "control").open("a") as file:
        file.write("canc")
    assert control.read_commands(offset) == ([], offset)
    assert oct((tmp_path / "control").stat().st_mode & 0o777) == "0o600"


def test_the_state_is_stored_and_cleared(tmp_path: pathlib.Path) -> None:
    control = RunControl(tmp_path)
    assert not control.is_paused()
    control.set_paused(paused=True)
    assert control.is_paused()
    control.set_paused(paused=False)
    assert not control.is_paused()
    control.set_paused(paused=True)
    control.send("pause")
    control.clear()
    assert list(tmp_path.iterdir()) == []


def test_a_link_or_a_directory_of_another_user_controls_nothing(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("cancel\n")
    (tmp_path / "run").mkdir()
    control = RunControl(tmp_path / "run")
    (tmp_path / "run" / "control").symlink_to(elsewhere)
    assert control.read_commands(0) == ([], 0)
    with pytest.raises(RunNotControllableError):
        control.send("pause")
    (tmp_path / "run" / "control").unlink()
    control.send("pause")
    user = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: user + 1)
    assert control.read_commands(0) == ([], 0)
    with pytest.raises(RunNotControllableError):
        control.send("pause")
