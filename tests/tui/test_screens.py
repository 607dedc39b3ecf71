from __future__ import annotations

import importlib
import pathlib
import pkgutil

import builders
import pytest
from onscreen import SMALLEST, asking_app, running_app, showing
from textual import events
from textual.widgets import Input, Static, TabbedContent

from advisor import tui
from advisor.ask.context import Context
from advisor.ask.devices import CPU
from advisor.ask.task import FIRST_ITL
from advisor.domain.workflow import CitedFact, DeclaredArm, Environment
from advisor.execute.drafts import DraftRun
from advisor.tui.app import AdvisorApp
from advisor.tui.dialogs import HelpDialog, LineDialog, quit_dialog, yes_or_no
from advisor.tui.form import Choice
from advisor.tui.home import HomeScreen
from advisor.tui.launch import LaunchOptions
from advisor.tui.model_step import own_models
from advisor.tui.plan_step import describe_row, find_environment, plan_rows
from advisor.tui.results import DetailScreen, ResultsScreen
from advisor.tui.setup import SetupScreen
from advisor.tui.target_step import CPU_NOTES
from advisor.tui.widgets import WeightBar, Weights

#: The private methods of Textual that the screens replace, because nothing public does the same.
REPLACED = {
    "AdvisorApp._fatal_error",  # it is the one hook for an exception, and prints local variables
    "Choice._init_selected_option",  # it sends a message about a value that the user has not chosen
    "Palette._dispatch_message",  # it obeys an enter that was pressed while the palette closes
}


def test_the_screens_replace_no_private_method_of_textual_but_the_listed_ones() -> None:
    modules = [
        importlib.import_module(f"advisor.tui.{found.name}")
        for found in pkgutil.iter_modules(tui.__path__)
    ]
    assert {
        method.__qualname__
        for module in modules
        for kind in vars(module).values()
        if isinstance(kind, type) and kind.__module__ == module.__name__
        for name, method in vars(kind).items()
        if name.startswith("_") and not name.endswith("__")
        if getattr(method, "__module__", None) == module.__name__
        if any(
            hasattr(base, name) for base in kind.__mro__ if base.__module__.startswith("textual")
        )
    } == REPLACED


async def test_a_cpu_build_of_torch_offers_no_gpu(
    tui_context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = builders.gpu_machine(builders.gpu(), builders.gpu(index=1, uuid="GPU-1"))
    software = builders.replace(machine.software, torch_cuda=None)
    machine = builders.replace(machine, software=software)
    monkeypatch.setattr(AdvisorApp, "_detect_machine", lambda _: machine)
    async with running_app(asking_app(tui_context, gpu="")) as pilot:
        setup = await pilot.go_to_step(1)
        await pilot.wait_for_text(machine.cpu.model)
        assert setup.query_one("#device", Choice).values == [CPU]
        note = str(setup.query_one("#device-note", Static).render())
        assert note == CPU_NOTES["cpu-build"].format(
            names=", ".join(gpu.name for gpu in machine.gpus)
        )


async def test_a_missing_file_is_an_error_and_an_unchosen_task_follows_the_model(
    tui_context: Context,
) -> None:
    app = asking_app(tui_context)
    async with running_app(app) as pilot:
        app.screen.query_one("#model", Input).value = "gone.onnx"
        await pilot.until_text("gone.onnx'", "enter")
        setup = await pilot.wait_for_screen(SetupScreen)
        assert setup.query_one("#error").has_class("-shown")
        assert setup.step_index == 0
        name = app.screen.query_one("#model", Input)
        assert setup.query_one("#field-inputs").display
        name.value = ""
        await pilot.wait_for(lambda: not setup.query_one("#error").has_class("-shown"))
        assert not setup.query_one("#field-inputs").display, "the demo has its own"
        task = app.screen.query_one("#task", Choice)
        assert task.chosen == "forward"
        name.value = "demo/qwen2"
        await pilot.wait_for(lambda: task.chosen == "generate")
        name.value = ""
        await pilot.wait_for(lambda: task.chosen == "forward")
        await pilot.until(lambda: task.chosen == "generate", "tab", *["down"] * 4)
        task.focus()
        await pilot.press("right", "right")
        app.screen.query_one("#models").focus()
        await pilot.press("down")
        setup = await pilot.go_to_step(1)
        assert (app.run_options.model, app.run_options.task) == ("demo/qwen2", "forward")
        assert not setup.query_one("#field-output_tokens").display


@pytest.mark.slow
async def test_text_generation_is_planned_with_its_lengths(tui_context: Context) -> None:
    app = asking_app(tui_context, task="generate", workflows="pytorch-eager")
    async with showing(SetupScreen, app) as (pilot, setup):
        error = setup.query_one("#error")
        name = setup.query_one("#model", Input)
        name.value = "synthetic/ffn@8x16"
        await pilot.until(lambda: error.has_class("-shown"), "enter")
        name.value = ""
        await pilot.go_to_step(1)
        tokens = setup.query_one("#output_tokens", Input)
        assert setup.query_one("#field-output_tokens").display
        tokens.value = "x"
        await pilot.until(lambda: error.has_class("-shown"), "enter")
        assert setup.step_index == 1
        tokens.value = "8"
        await pilot.go_to_step(3)
        await pilot.wait_for_text("generate 8 tokens from 32 with demo/llama")


@pytest.mark.slow
async def test_a_load_of_requests_is_asked_for_with_its_limits(tui_context: Context) -> None:
    app = asking_app(tui_context, task="serve", workflows="vllm", gpu="cpu")
    async with running_app(app) as pilot:
        setup = await pilot.go_to_step(1)
        for hidden in ("batch_sizes", "input_tokens", "output_tokens"):
            assert not setup.query_one(f"#field-{hidden}").display
        error = setup.query_one("#error")
        limit, count = setup.query_one("#ttft", Input), setup.query_one("#gpus_per_model", Input)
        for field, wrong in ((limit, "soon"), (count, "two")):
            right, field.value = field.value, wrong
            await pilot.until(lambda: error.has_class("-shown"), "enter")
            assert setup.step_index == 1
            field.value = right
        limit.value, count.value = "250ms", "2"
        setup.query_one("#lengths", Input).value = "rag"
        setup.query_one("#rate", Input).value = "7.5"
        await pilot.go_to_step(2)
        asked = app.run_options
        assert (asked.ttft, asked.itl, asked.lengths) == ("250ms", FIRST_ITL, "rag")
        assert (asked.rate, asked.gpus_per_model) == (7.5, 2)
        await pilot.press("escape", "escape")
        setup.query_one("#task", Choice).choose("forward")
        await pilot.go_to_step(2)
        asked = app.run_options
        assert (asked.task, asked.ttft, asked.rate, asked.gpus_per_model) == ("forward", "", 0.0, 1)


async def test_weights_always_sum_to_100_and_the_plan_says_what_is_required(
    tui_context: Context,
) -> None:
    app = asking_app(tui_context, require="accuracy<=0.01")
    async with running_app(app) as pilot:
        setup = await pilot.go_to_step(1)
        setup.query_one("#quantised").focus()
        await pilot.press("right")
        await pilot.go_to_step(2)
        bar = setup.query_one("#weight-performance", WeightBar)
        before = bar.weight
        for _ in range(2):  # keys that arrive at once
            bar.action_step(5)
        await pilot.press("h", "h", "l")
        await pilot.pause()
        assert bar.weight == before + 10, "letters change nothing"
        for keys in (["right"] * 3, ["shift+left"], ["9", "5"], ["down", "0"]):
            await pilot.press(*keys)
            await pilot.pause()
            assert sum(bar.weight for bar in setup.query(WeightBar)) == 100
        setup.query_one("#preset").focus()
        await pilot.press("right")
        await pilot.pause()
        assert sum(bar.weight for bar in setup.query(WeightBar)) == 100
        assert setup.query_one("#preset", Choice).chosen == "balanced"
        setup.query_one("#required-accuracy").focus()
        await pilot.press("right", "right")
        await pilot.pause()
        assert app.run_options.quantised == "int8"
        assert app.run_options.require == "accuracy>=2,accuracy<=0.01"
        await pilot.go_to_step(3)
        await pilot.wait_for_text("Required: accuracy>=B, accuracy<=0.01.")


async def test_results_show_exclusions_and_details_and_what_other_weights_recommend(
    recorded_app: AdvisorApp,
) -> None:
    async with showing(ResultsScreen, recorded_app) as (pilot, screen):
        await pilot.press("5")
        await pilot.pause()
        assert "segfault: crashed" in pilot.text()
        before = builders.known(screen.shown.answer.recommendation)
        flip = next(flip for flip in before.flips if flip.criterion == "performance")
        screen.query_one(Weights).move("performance", 100.0 if flip.when == "more" else 0.0)
        await pilot.wait_for(lambda: screen.is_explored)
        after = builders.known(screen.shown.answer.recommendation)
        assert after.arm != before.arm
        await pilot.press("u")
        await pilot.pause()
        assert screen.shown.answer.recommendation == before
        await pilot.wait_for(lambda: not screen.is_explored)
        detail = await pilot.reach(DetailScreen, "1", "shift+tab", "enter")
        assert "letters: A for a grade" in pilot.text()
        await pilot.until(lambda: detail.query_one(TabbedContent).active == "code", "2")
        await pilot.reach(HelpDialog, "question_mark")
        await pilot.reach(ResultsScreen, "escape", "escape")


@pytest.mark.slow
async def test_dialogs_without_a_golden_fit_the_smallest_terminal(tui_context: Context) -> None:
    app = asking_app(tui_context)
    async with running_app(app) as pilot:
        for dialog in (
            quit_dialog("run 0000 in progress"),
            yes_or_no("Cancel this run?", "Cancel the run", "Continue"),
            LineDialog("Export this run.", "run.html", str),
        ):
            await app.push_screen(dialog)
            await pilot.wait_for_screen(type(dialog))
            await pilot.check_at(SMALLEST)
            await app.pop_screen()


async def test_a_notice_replaces_the_screen_in_a_small_terminal_and_the_answers_are_kept(
    tui_context: Context,
) -> None:
    app = asking_app(tui_context, model="package.module:factory")
    async with running_app(app, (50, 12)) as pilot:
        await pilot.wait_for_text("60x16")
        assert "Which model" not in pilot.text()
        await pilot.resize_terminal(80, 24)
        await pilot.wait_for_text("Which model")
        focused = app.screen.focused
        await pilot.resize_terminal(60, 15)
        await pilot.wait_for_text("60x15")
        await pilot.resize_terminal(80, 24)
        await pilot.wait_for_text("Which model")
        await pilot.wait_for(lambda: focused is not None and app.screen.focused is focused)
        for _ in range(2):
            setup = await pilot.go_to_step(1)
            assert app.run_options.model == "package.module:factory"
            await pilot.until(lambda setup=setup: setup.step_index == 0, "escape")  # type: ignore[misc]


async def test_a_run_is_asked_for_with_a_model_that_was_typed_a_moment_ago(
    tui_context: Context, here: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "five.py").write_text("def net(): ...\n")
    started: list[str] = []
    monkeypatch.setattr(
        AdvisorApp, "action_start_now", lambda app: started.append(app.run_options.model)
    )
    async with running_app(asking_app(tui_context)) as pilot:
        await pilot.go_to_step(0)
        for key in ("ctrl+u", "f", "i", "v", "e", "full_stop", "p", "y", "tab", "ctrl+r"):
            character = "." if key == "full_stop" else key if len(key) == 1 else None
            pilot.app.post_message(events.Key(key, character))
        await pilot.wait_for(lambda: started)
    assert started == ["five.py:net"]


async def test_without_colour_the_cursor_and_the_row_of_the_list_are_visible(
    tui_context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "")  # the app sets it
    async with running_app(AdvisorApp(LaunchOptions(no_color=True), tui_context)) as pilot:
        setup = await pilot.go_to_step(0)

        def marked(attribute: str, widget: str) -> str:
            """Return the text with this attribute in the first line of a widget."""
            line = setup._compositor.render_strips()[setup.query_one(widget).region.y]
            return "".join(each.text for each in line if getattr(each.style, attribute))

        await pilot.wait_for(lambda: marked("reverse", "#model") == "d")
        assert marked("underline", "#models").startswith("demo ")
        await pilot.until(lambda: not marked("underline", "#models"), "down", "down")
        assert marked("reverse", "#model") == ""


async def test_what_is_typed_goes_to_the_model_also_while_the_list_has_the_focus(
    tui_context: Context,
) -> None:
    async with running_app(asking_app(tui_context)) as pilot:
        setup = await pilot.go_to_step(0)
        field, models = setup.query_one("#model", Input), setup.query_one("#models")
        await pilot.press("down", "down", "up")
        assert setup.focused is models
        await pilot.press("up", *"own.py:")
        assert setup.focused is field
        await pilot.press("down")
        assert setup.focused is models
        await pilot.press(*"jHk.py:build")
        assert setup.focused is field
        assert field.value == "jHk.py:build"
        await pilot.reach(HomeScreen, "down", "escape")
        await pilot.reach(SetupScreen, "n")
        await pilot.wait_for(lambda: setup.focused is field)
        assert field.value == "jHk.py:build"


async def test_a_typed_model_stays_and_a_new_model_begins_with_the_defaults(
    context: Context, here: pathlib.Path
) -> None:
    (here / "net.py").write_text("def cnn(): ...\n")
    app = asking_app(context, workflows="quick,alike")
    async with running_app(app) as pilot:
        setup = await pilot.go_to_step(0)
        assert "(module, example inputs)" in pilot.text()
        name = setup.query_one("#model", Input)
        await pilot.press("ctrl+u", *"demo", "tab")
        await pilot.go_to_step(1)
        setup.query_one("#batch_sizes", Input).value = "1,8"
        await pilot.go_to_step(3)
        await pilot.wait_for_text("[x] alike")
        await pilot.until_text("[ ] alike", "down", "down", "space")
        asked = app.run_options
        assert (asked.batch_sizes, asked.workflows) == ("1,8", "quick,alike")
        assert asked.leave_out == "alike/default"
        await pilot.until(lambda: setup.step_index == 2, "escape")
        await pilot.go_to_step(3)
        await pilot.wait_for_text("[ ] alike")
        app.action_new_question()
        await pilot.wait_for(lambda: setup.step_index == 0)
        name.focus()
        await pilot.press("ctrl+u", *"res", "enter")
        await pilot.wait_for(lambda: setup.query_one("#error").has_class("-shown"))
        assert name.value == "res", "no suggestion replaces what is typed"
        await pilot.until(lambda: name.value == "microsoft/resnet-50", "tab")
        await pilot.go_to_step(1)
        assert not setup.query_one("#field-input_tokens").display, "an image has no tokens"
        await pilot.until(lambda: setup.step_index == 0, "escape")
        name.focus()
        await pilot.press("ctrl+u", *"net.py:c", "tab")
        inputs = setup.query_one("#inputs", Input)
        inputs.value = "net.py:gone"
        await pilot.until_text("gone'", "enter")
        inputs.value = "net.py:cnn"
        await pilot.go_to_step(1)
        assert app.run_options.model == "net.py:cnn" == app.run_options.inputs
        assert setup.query_one("#batch_sizes", Input).value == ""
        assert not setup.query_one("#field-input_tokens").display
        assert (app.run_options.workflows, app.run_options.leave_out) == ("quick,alike", "")
        await pilot.go_to_step(3)
        await pilot.wait_for_text("[x] alike")


def test_the_plan_has_the_lines_of_the_arm_and_the_present_kind_of_device_first() -> None:
    made = builders.workflow("compiled", verified=("H100 2026-11", "H200 2026-11", "cpu 2026-11"))
    lines = CitedFact(value=9, source="a test")
    made = builders.replace(made, arms={"default": DeclaredArm(declared={"lines_changed": lines})})
    for gpus, first in (((), "cpu"), ((builders.gpu(),), "H100")):
        question = builders.question(gpu=next((gpu.uuid for gpu in gpus), None))
        draft = DraftRun(
            builders.catalogue(made),
            builders.machine(gpus=gpus),
            question,
            builders.plan("compiled"),
        )
        note = plan_rows(draft, ())["compiled"]["note"]
        assert note.startswith(f"9 lines changed; verified: {first} 2026-11, ")


def test_the_plan_offers_the_environment_that_a_single_arm_lacks() -> None:
    writer = Environment(kind="own", name="writer", requirements=("rare-stack",))
    engine = builders.workflow("engine", arms={"q8": DeclaredArm(quantiser=writer)})
    lacking = builders.excluded("engine", option="q8")
    plan = builders.plan(excluded=[lacking])
    draft = DraftRun(builders.catalogue(engine), builders.machine(), builders.question(), plan)
    assert describe_row(draft, "engine/q8").plain.startswith(f"{engine.title}\n{lacking.reason}")
    assert find_environment(engine, lacking) == writer


def test_files_are_completed_to_their_functions(here: pathlib.Path) -> None:
    functions = "def cnn_big(depth=2): ...\ndef cnn(): ...\ndef cnn_of(width): ...\n"
    (here / "nets.py").write_text(f"{functions}class cnn_class: ...\nimport os\n")
    (here / "net.onnx").touch()
    (here / "broken.py").write_text("def (")
    assert own_models("ne") == ["net.onnx", "nets.py:cnn_big", "nets.py:cnn"]
    assert own_models("nets.py:cnn") == ["nets.py:cnn", "nets.py:cnn_big"]
    assert own_models("nets.py:x") == own_models("b") == own_models("") == []
