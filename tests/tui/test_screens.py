"""Each screen: what it shows, and what its keys do."""

from __future__ import annotations

import dataclasses
import io
import json
import pathlib
from collections.abc import Callable

import builders
import msgspec
import pytest
from onscreen import (
    SIZES,
    asynchronous,
    lines_of,
    replay,
    settle,
    shown,
    shown_at,
    wait_for,
    wait_for_screen,
)
from textual.widgets import Input

from advisor import question
from advisor.cli import plain as line_by_line
from advisor.context import Context
from advisor.question.answers import Answers
from advisor.store import Run
from advisor.tui.app import AdvisorApp
from advisor.tui.options import LaunchOptions
from advisor.tui.run.host_process import Host
from advisor.tui.screens.dialogs import Cancelling, Export, Leaving
from advisor.tui.screens.results import Results
from advisor.tui.screens.setup import Setup
from advisor.tui.widgets.choice import Choice
from advisor.tui.widgets.weights import WeightBar


def asking(world: Context, host: Callable[[Run], Host] | None = None, **answers: str) -> AdvisorApp:
    return AdvisorApp(
        LaunchOptions(answers=Answers(**{"gpu": "cpu", **answers})),  # type: ignore[arg-type]
        world,
        start_host=host,
    )


@asynchronous
async def test_the_questions_lead_to_a_plan_with_a_reason_for_everything(
    tui_world: Context,
) -> None:
    async with shown(asking(tui_world, workflows="quick,alike")) as pilot:
        assert "demo" in lines_of(pilot)
        await pilot.press("enter")
        await wait_for(pilot, lambda: "processors" in lines_of(pilot))
        await pilot.press("enter")
        await wait_for(pilot, lambda: "sum to 100" in lines_of(pilot))
        await pilot.press("enter")
        await wait_for(pilot, lambda: "[x]  quick" in lines_of(pilot))
        await wait_for(pilot, lambda: "excluded: left out by" in lines_of(pilot))
        await pilot.press("down", "space")
        assert "[ ]" in lines_of(pilot)
        await pilot.press("escape")
        assert "What matters" in lines_of(pilot)


@pytest.mark.parametrize(("visible", "device"), [("1", "1"), ("", "cpu"), (None, "0")])
@asynchronous
async def test_the_device_is_one_that_cuda_would_see(
    visible: str | None, device: str, tui_world: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = builders.gpu_machine(builders.gpu(), builders.gpu(index=1, uuid="GPU-1"))
    monkeypatch.setattr(AdvisorApp, "_look_at_machine", lambda _: here)
    others = {
        name: value
        for name, value in tui_world.environment.items()
        if name != question.VISIBLE_DEVICES
    }
    environment = others | ({} if visible is None else {question.VISIBLE_DEVICES: visible})
    async with shown(
        asking(dataclasses.replace(tui_world, environment=environment), gpu="")
    ) as pilot:
        await pilot.press("enter")
        await wait_for(pilot, lambda: "Fancy CPU" in lines_of(pilot))
        assert pilot.app.screen.query_one("#device", Choice).value == device


@asynchronous
async def test_a_model_that_does_not_exist_is_told_beside_the_question(tui_world: Context) -> None:
    async with shown(asking(tui_world)) as pilot:
        await pilot.press(*"gone.onnx", "enter")
        await pilot.pause()
        assert "there is no file" in lines_of(pilot)
        assert isinstance(pilot.app.screen, Setup)
        assert pilot.app.screen.place == 0


@asynchronous
async def test_the_task_is_proposed_by_the_model_until_the_user_chooses_one(
    tui_world: Context,
) -> None:
    async with shown(asking(tui_world)) as pilot:
        app = pilot.app
        assert isinstance(app, AdvisorApp)
        assert "[one forward pass]" in lines_of(pilot)
        await pilot.press(*"demo/q")
        await wait_for(pilot, lambda: "[generate text]" in lines_of(pilot))
        await pilot.press(*["backspace"] * 6)
        await wait_for(pilot, lambda: "[one forward pass]" in lines_of(pilot))
        await pilot.press("tab", *["down"] * 4)
        await wait_for(pilot, lambda: "[generate text]" in lines_of(pilot))
        await pilot.press("ctrl+t", "down", "enter")
        await wait_for(pilot, lambda: "Where will it run" in lines_of(pilot))
        assert (app.answers.model, app.answers.task) == ("demo/qwen2", "forward")
        assert "Output tokens" not in lines_of(pilot)


@asynchronous
async def test_generated_text_is_asked_for_and_planned_with_its_lengths(tui_world: Context) -> None:
    async with shown(asking(tui_world, task="generate", workflows="pytorch-eager")) as pilot:
        app = pilot.app
        assert isinstance(app, AdvisorApp)
        assert "by demo/llama" in lines_of(pilot)
        await pilot.press(*"synthetic/ffn@8x16", "enter")
        await wait_for(pilot, lambda: "cannot generate text" in lines_of(pilot))
        await pilot.press(*["backspace"] * 18, "enter")
        await wait_for(pilot, lambda: "Output tokens" in lines_of(pilot))
        app.screen.query_one("#output_tokens", Input).value = "x"
        await pilot.press("enter")
        await wait_for(pilot, lambda: "no number of tokens" in lines_of(pilot))
        app.screen.query_one("#output_tokens", Input).value = "8"
        for words in ("sum to 100", "generate 8 tokens from 32 with demo/llama"):
            await pilot.press("enter")
            await wait_for(pilot, lambda words=words: words in lines_of(pilot))  # type: ignore[misc]


@asynchronous
async def test_a_model_of_one_s_own_that_was_named_on_the_command_line_is_kept(
    tui_world: Context,
) -> None:
    async with shown(asking(tui_world, model="package.module:factory")) as pilot:
        app = pilot.app
        assert isinstance(app, AdvisorApp)
        for _ in range(2):
            await pilot.press("enter")
            await wait_for(pilot, lambda: "Where will it run" in lines_of(pilot))
            assert app.answers.model == "package.module:factory"
            await pilot.press("escape")
            await wait_for(pilot, lambda: "Which model" in lines_of(pilot))


@asynchronous
async def test_weights_always_sum_to_100_and_presets_move_them(tui_world: Context) -> None:
    async with shown(asking(tui_world)) as pilot:
        for words in ("Where will it run", "What matters"):
            await pilot.press("enter")
            await wait_for(pilot, lambda words=words: words in lines_of(pilot))  # type: ignore[misc]
        for keys in (
            ["right"] * 3,
            ["shift+left"],
            ["9", "5"],
            ["down", "0"],
            ["equals_sign"],
            ["p"],
        ):
            await pilot.press(*keys)
            await pilot.pause()
            assert sum(bar.weight for bar in pilot.app.screen.query(WeightBar)) == 100
        assert "[balanced]" in lines_of(pilot)


@asynchronous
async def test_two_keys_from_the_start_to_the_probes_and_on_to_the_results(
    tui_world: Context, fake_host: Callable[[Run], Host], tmp_path: pathlib.Path
) -> None:
    async with shown(
        asking(tui_world, fake_host, workflows="quick", batch_sizes="1", budget="2")
    ) as pilot:
        await pilot.press("ctrl+r")
        await wait_for_screen(pilot, "Live")
        await wait_for_screen(pilot, "Results")
        assert lines_of(pilot).splitlines()[1].startswith((" Use ", " Tie "))
        await pilot.press("e")
        await wait_for_screen(pilot, "Export")
        file = tmp_path / "out.json"
        pilot.app.screen.query_one(Input).value = str(file)
        await pilot.press("enter")
        await wait_for(pilot, file.exists)
        assert json.loads(file.read_text())["recommendation"]["arm"] in {"quick", "pytorch-eager"}


@asynchronous
async def test_a_run_can_be_paused_and_cancelled_and_leaves_nothing(
    tui_world: Context, fake_host: Callable[[Run], Host]
) -> None:
    async with shown(
        asking(tui_world, fake_host, workflows="quick", batch_sizes="1,2,3,4", budget="60")
    ) as pilot:
        assert isinstance(pilot.app, AdvisorApp)
        await pilot.press("ctrl+r")
        await wait_for_screen(pilot, "Live")
        await wait_for(pilot, lambda: "Measuring" in lines_of(pilot))
        await pilot.press("space")
        session = pilot.app.runs.session
        assert session is not None
        await wait_for(pilot, lambda: session.is_paused)
        seq = session.follower.state.seq
        await pilot.pause(1)
        assert session.follower.state.seq <= seq + 1
        await pilot.press("space")
        await wait_for(pilot, lambda: not session.is_paused)
        await pilot.press("q")
        await wait_for_screen(pilot, "Leaving")
        await pilot.press("escape", "x")
        await wait_for_screen(pilot, "Cancelling")
        await pilot.press("y")
        await wait_for_screen(pilot, "Results")
        await wait_for(pilot, lambda: not session.is_alive)


@asynchronous
async def test_a_weight_moves_the_ranking_where_the_marks_say(
    tui_world: Context, recorded: Run
) -> None:
    async with shown(replay(tui_world, recorded)) as pilot:
        await wait_for_screen(pilot, "Results")
        screen = pilot.app.screen
        assert isinstance(screen, Results)
        before = screen.decision.recommendation
        assert before is not None
        flip = next(flip for flip in before.flips if flip.criterion == "performance")
        await pilot.press("w", *str(100 if flip.weight > 40 else 0))
        await pilot.pause()
        after = screen.decision.recommendation
        assert after is not None
        assert after.arm != before.arm
        assert "with these weights" in lines_of(pilot)
        await pilot.press("u")
        await pilot.pause()
        assert screen.decision.recommendation == before
        assert "with these weights" not in lines_of(pilot)


@asynchronous
async def test_results_tell_why_not_and_sort_and_show_details(
    tui_world: Context, recorded: Run
) -> None:
    async with shown(replay(tui_world, recorded)) as pilot:
        await wait_for_screen(pilot, "Results")
        await pilot.press("x")
        await pilot.pause()
        assert "segfault: crashed" in lines_of(pilot)
        await pilot.press("x", "o")
        await pilot.pause()
        assert "Speed\N{BLACK DOWN-POINTING TRIANGLE}" in lines_of(pilot)
        await pilot.press("w", "w", "enter")
        await wait_for_screen(pilot, "Detail")
        assert "Input Flexibility" in lines_of(pilot)
        await pilot.press("2")
        await wait_for(pilot, lambda: "visit   1" in lines_of(pilot))
        await pilot.press("question_mark")
        await wait_for_screen(pilot, "Help")
        assert "Everywhere" in lines_of(pilot) or "Keys of this screen" in lines_of(pilot)
        await pilot.press("escape", "escape")
        await wait_for_screen(pilot, "Results")


@asynchronous
async def test_a_tie_is_told_as_a_tie(tui_world: Context, recorded: Run) -> None:
    async with shown(replay(tui_world, recorded)) as pilot:
        await wait_for_screen(pilot, "Results")
        screen = pilot.app.screen
        assert isinstance(screen, Results)
        advice = screen.original.recommendation
        assert advice is not None
        screen.decision = dataclasses.replace(
            screen.original, recommendation=msgspec.structs.replace(advice, ties=("alike",))
        )
        screen.draw()
        await settle(pilot)
        assert lines_of(pilot).splitlines()[1].startswith(" Tie for demo")
        assert "or as well alike" in lines_of(pilot)


def test_line_by_line_the_same_answers_make_the_same_question(
    tui_world: Context, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given = Answers(gpu="cpu", workflows="quick", batch_sizes="1")
    monkeypatch.setattr("sys.stdin", io.StringIO("\n\n\n2\n\nyes\n"))
    plain = line_by_line._ask_until_it_fits(given, tui_world)
    app = AdvisorApp(
        LaunchOptions(answers=msgspec.structs.replace(given, preset="serving")), tui_world
    )
    on_screen = app._propose()
    assert (plain.question, plain.plan) == (on_screen.question, on_screen.plan)
    assert "To be measured, 2: pytorch-eager, quick." in capsys.readouterr().out


def test_line_by_line_the_task_is_proposed_by_the_model(
    tui_world: Context, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("demo/gpt2\n\n\n\n\nyes\n"))
    asked = line_by_line._ask_until_it_fits(Answers(gpu="cpu"), tui_world).question
    assert (asked.model.name, asked.task) == ("demo/gpt2", "generate")
    assert "demo/gpt2 generates 32 tokens from 32." in capsys.readouterr().out


@asynchronous
async def test_the_history_opens_a_run(tui_world: Context, recorded: Run) -> None:
    async with shown(asking(tui_world)) as pilot:
        await pilot.press("enter")
        await wait_for(pilot, lambda: "Where will it run" in lines_of(pilot))
        pilot.app.action_history()  # type: ignore[attr-defined]
        await wait_for_screen(pilot, "History")
        assert recorded.directory.name in lines_of(pilot)
        await pilot.press("enter")
        await wait_for_screen(pilot, "Results")


@asynchronous
async def test_screens_without_a_golden_fit_and_no_key_is_cut(tui_world: Context) -> None:
    async with shown(asking(tui_world)) as pilot:
        app = pilot.app
        assert isinstance(app, AdvisorApp)
        app.action_doctor()
        await wait_for_screen(pilot, "Doctor")
        await wait_for(pilot, lambda: "python" in lines_of(pilot))
        for size in SIZES:
            await shown_at(pilot, size)
        for dialog in (
            Leaving("0000 goes on"),
            Cancelling(),
            Export(pathlib.Path("run.html"), [".html", ".json"]),
        ):
            await app.push_screen(dialog)
            await wait_for_screen(pilot, type(dialog).__name__)
            for size in SIZES:
                await shown_at(pilot, size)
            await app.pop_screen()


@asynchronous
async def test_a_terminal_that_is_too_small_is_told(tui_world: Context) -> None:
    async with shown(asking(tui_world), (50, 12)) as pilot:
        assert "Needs 60x16" in lines_of(pilot)
        await pilot.resize_terminal(80, 24)
        await wait_for(pilot, lambda: "Which model" in lines_of(pilot))


@asynchronous
async def test_ascii_means_ascii(tui_world: Context, recorded: Run) -> None:
    async with shown(replay(tui_world, recorded, ascii_only=True)) as pilot:
        await wait_for_screen(pilot, "Results")
        assert lines_of(pilot).isascii()
        await pilot.press("enter")
        await wait_for_screen(pilot, "Detail")
        assert lines_of(pilot).isascii()
