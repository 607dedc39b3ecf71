"""What the builds of a group wait for."""

from __future__ import annotations

import types
from collections.abc import Collection, Iterator
from typing import Any

import builders
import pytest
from builders import BASELINE

from advisor.domain.plan import REFERENCE, Plan
from advisor.domain.run_events import RunEvent
from advisor.execute import building, remaining


class ReachedError(Exception):
    """The model is open, and the builds would begin."""


@pytest.mark.parametrize(("device", "expected"), [("cpu", [None]), ("cuda", [{REFERENCE}])])
def test_builds_on_a_gpu_wait_for_the_import_of_the_reference_alone(
    device: str, expected: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    arms = (builders.arm(BASELINE), builders.arm("slow-import"))
    starts: list[Collection[str] | None] = []

    def start(*_: object, awaited: Any, **__: object) -> Iterator[RunEvent]:
        starts.append(awaited)
        yield from ()

    session = types.SimpleNamespace(
        start=start,
        is_running=lambda arm: arm == REFERENCE,
        has_started=lambda _: True,
        check_memory=lambda: (),
        send_and_wait=lambda *_: (),
        create_models=lambda: (),
        start_reference=lambda *_, **__: (),
    )
    progress: Any = types.SimpleNamespace(
        session=session,
        state=builders.run_state({}, plan=Plan(arms=arms, excluded=()), groups={}),
        question=builders.question(device=device),
        header=builders.header(),
        builds_at_once=2,
        seconds=100.0,
    )
    monkeypatch.setattr(remaining, "needed_arms", lambda *_: arms)
    monkeypatch.setattr(building, "without_waiting", lambda chosen, _: chosen)

    def reach(_: object) -> None:
        raise ReachedError

    monkeypatch.setattr(remaining, "arms_to_add", reach)
    with pytest.raises(ReachedError):
        list(building.build_group(progress, types.SimpleNamespace(running=[])))  # type: ignore[arg-type]
    assert starts == expected
