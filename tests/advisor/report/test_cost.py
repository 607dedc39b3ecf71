"""Sections about costs and generated text, and servers as a user starts them."""

from __future__ import annotations

import json
import pathlib
import shlex
from typing import Any

import builders
import built_answers
import built_measurements
import pytest
from built_answers import run_answer, with_results
from forks import run_command
from kept.runs import decide_run, read_run
from recorded_runs import UnstoredRun, make_run

from advisor.decide.answers import answer_from_results
from advisor.decide.process_figures import PENDING_SOURCE
from advisor.domain.answer import Answer, RankedArm
from advisor.domain.measurement import MemoryBytes
from advisor.domain.model import FactoryModel, TransformersModel
from advisor.domain.question import RequestLengths
from advisor.domain.recommendation import BreakEven
from advisor.domain.results import MeasuredInputs
from advisor.recipes.server import REQUEST, started_command
from advisor.report import generation, recipe_text
from advisor.report.answer_files import answer_of_run
from advisor.report.answer_lines import code_lines
from advisor.report.cost import EAGER_COST, NOT_READ, cost_line, is_fixed
from advisor.store.runs import Run
from advisor.store.store import Store
from probes.events import Imported, NewShapeHandling, NewShapeResult, Serving
from probes.facts import InputSpec, SizeLimit
from probes.shape import Shape


@pytest.fixture(scope="module")
def answer() -> Answer:
    return read_run("cpu-quantised-ffn-1024x4096x2")


def arm_of(answer: Answer, arm: str) -> RankedArm:
    return next(each for each in answer.ranking if each.arm == arm)


def test_eager_pytorch_costs_nothing(answer: Answer) -> None:
    assert cost_line(answer, arm_of(answer, "pytorch-eager")) == EAGER_COST


@pytest.mark.parametrize(
    ("run", "cost"),
    [
        ("h100-demo-bert-bfloat16", "; new lengths recompile (9.3 s); build"),
        ("h100-vit-base-float32", "; new batch sizes run eager code; build"),
        ("h100-minilm-float32", "; new lengths take over 15 s; build"),
        ("h200-generate-llama2-7b-float16", " MiB with preallocated KV cache (eager 21,640)"),
    ],
)
def test_a_shape_that_was_not_built_is_a_part_of_the_cost(run: str, cost: str) -> None:
    kept = built_answers.advised(decide_run(run))
    assert cost in cost_line(kept.answer, kept.advised)


def test_an_answer_is_described_by_the_catalogue_that_it_was_decided_with() -> None:
    kept, known = read_run("h200-generate-llama2-7b-float16"), builders.shipped_catalogue()
    rules = builders.replace(known.accuracy, close={**known.accuracy.close, "tolerance": 0.25})
    other = builders.replace(known, engine_memory={}, accuracy=rules)
    made = built_answers.advised(answer_from_results(kept, other))
    assert "preallocated" not in cost_line(made.answer, made.advised)
    assert made.answer.tolerance == 0.25


def test_an_arm_costs_a_build_and_memory_next_to_the_baseline(answer: Answer) -> None:
    line = cost_line(answer, arm_of(answer, "onnxruntime-cpu/host"))
    assert line.endswith("; build 3.7 s; 719 MiB (eager 562)")
    unknown = MemoryBytes(peak=None, source="not known: no counter, as in some containers")
    entry = arm_of(answer, "onnxruntime-cpu/host")
    entry = entry._replace(measured=builders.replace(entry.measured, memory_bytes=unknown))
    assert "; memory not known: no counter, as in some containers" in cost_line(answer, entry)
    assert cost_line(answer, entry, has_details=False).endswith("; memory not known")
    pending = builders.replace(unknown, source=PENDING_SOURCE)
    late = entry._replace(measured=builders.replace(entry.measured, memory_bytes=pending))
    for goes_on, why in ((True, PENDING_SOURCE), (False, NOT_READ)):
        assert f"; memory {why}" in cost_line(builders.replace(answer, in_progress=goes_on), late)


@pytest.mark.parametrize(
    ("name", "nested", "lines"), [("", False, 0), ("image", False, 8), ("image", True, 29)]
)
def test_a_module_around_a_model_counts(
    answer: Answer, name: str, nested: bool, lines: int
) -> None:
    entry = arm_of(answer, "onnxruntime-cpu/host")
    plain = cost_line(answer, entry)
    spec = InputSpec(name, (3,), "float32", nested=nested)
    inputs = MeasuredInputs(fixed=0, has_length=False, has_batch=True, tensors=(spec,))
    made = built_answers.with_question(
        with_results(answer, inputs=inputs), model=FactoryModel(name="a.py:f")
    )
    line, own = cost_line(made, entry), int(plain.split()[0])
    assert line.startswith(f"{own + lines} lines of code")
    assert (f"({lines} of them a module around the model)" in line) == bool(lines)


def test_an_arm_of_one_shape_costs_a_build_for_each_of_several(answer: Answer) -> None:
    entry = arm_of(answer, "onnxruntime-cpu/host")
    refused = builders.rating(1, fact="new_shapes", value="refused")
    ratings = {**entry.scored.ratings, "input_flexibility": refused}
    entry = entry._replace(scored=builders.replace(entry.scored, ratings=ratings))
    for count, is_named in ((1, False), (2, True)):
        asked = built_answers.with_question(answer, batch_sizes=(1, 8)[:count])
        assert ("each of batch sizes 1 and 8" in cost_line(asked, entry)) == is_named


@pytest.mark.parametrize(
    ("of_batch", "of_length", "refuses_batches"),
    [("served", "refused", False), ("refused", "refused", True), ("refused", "served", True)],
)
def test_an_arm_that_refuses_lengths_alone_needs_no_build_for_each_batch_size(
    answer: Answer,
    of_batch: NewShapeHandling,
    of_length: NewShapeHandling,
    *,
    refuses_batches: bool,
) -> None:
    entry = arm_of(answer, "onnxruntime-cpu/host")
    refused = builders.rating(1, fact="new_shapes", value="refused")
    ratings = {**entry.scored.ratings, "input_flexibility": refused}
    tried = (
        NewShapeResult(Shape(9), of_batch, 0.1, 0.1),
        NewShapeResult(Shape(1, 17), of_length, 0.1, 0.1),
    )
    entry = entry._replace(
        scored=builders.replace(entry.scored, ratings=ratings),
        measured=builders.replace(entry.measured, new_shape_results=tried),
    )
    assert is_fixed(entry) is refuses_batches
    assert ("length" in cost_line(answer, entry)) is not refuses_batches


@pytest.mark.parametrize(
    ("limit", "told"),
    [
        (SizeLimit(0, 1, 2, 64), "input ids takes lengths 2 to 64"),
        (SizeLimit(0, 0, 3), "input ids takes batch sizes of 3 or more"),
        (SizeLimit(1, 1, 1, 8), "input 2 takes sizes 1 to 8 in dimension 2"),
    ],
)
def test_an_arm_whose_sizes_are_limited_is_not_built_for_each_shape(
    answer: Answer, limit: SizeLimit, told: str
) -> None:
    entry = arm_of(answer, "onnxruntime-cpu/host")
    refused = builders.rating(1, fact="new_shapes", value="refused")
    ratings = {**entry.scored.ratings, "input_flexibility": refused}
    entry = entry._replace(
        scored=builders.replace(entry.scored, ratings=ratings),
        measured=builders.replace(entry.measured, size_limits=(limit,)),
    )
    spec = InputSpec("ids", (32,), "int64")
    inputs = MeasuredInputs(fixed=0, has_length=False, has_batch=True, tensors=(spec,))
    assert told in cost_line(with_results(answer, inputs=inputs), entry)
    assert not is_fixed(entry)


def test_a_build_from_caches_is_named_where_the_printed_lines_use_them(answer: Answer) -> None:
    for arm, keeps in (("onnxruntime-cpu/int8", False), ("torchao/int8-dynamic", True)):
        assert builders.known(arm_of(answer, arm).measured.build_seconds.warm) > 0
        assert ("from caches" in cost_line(answer, arm_of(answer, arm))) == keeps


@pytest.mark.parametrize(
    ("requests", "said"), [((None, None), ""), ((50.0, None), "never"), ((50.0, 90.0), "90")]
)
def test_a_build_is_repaid_when_it_is_at_every_batch_size(
    answer: Answer, requests: tuple[float | None, ...], said: str
) -> None:
    advised = builders.known(answer.advised)
    even = tuple(
        BreakEven(shape=Shape(size), requests=count, low=count, high=count)
        for size, count in zip((1, 4), requests, strict=True)
    )
    line = cost_line(built_answers.with_advice(answer, break_even=even), advised)
    assert ("repaid" in line) == bool(said)
    assert said in line


def test_without_details_the_shapes_are_one_range(answer: Answer) -> None:
    advised = builders.known(answer.advised)
    known = (900.0, "70 to 900 requests, by batch size")
    for high, written in (known, *((end, "at least 70 requests") for end in (None, 39_000_000.0))):
        even = (
            BreakEven(shape=Shape(1), requests=80.0, low=70.0, high=90.0),
            BreakEven(shape=Shape(4), requests=500.0, low=400.0, high=high),
        )
        made = built_answers.with_advice(answer, break_even=even)
        assert cost_line(made, advised, has_details=False).endswith(f"repaid after {written}")
        assert "at batch size 4" in cost_line(made, advised)


def test_a_baseline_other_than_eager_pytorch_has_lines_and_costs_its_build(answer: Answer) -> None:
    """As for an ONNX file, or a server."""
    arm = "onnxruntime-cpu/host"
    other = built_answers.with_advice(with_results(answer, baseline=arm), arm=arm)
    assert "; build 3.7 s; 719 MiB;" in cost_line(other, arm_of(other, arm))
    assert code_lines(other)
    assert not code_lines(built_answers.with_advice(answer, arm="pytorch-eager"))


def test_each_arm_has_a_row_with_its_rate_and_latencies(tmp_path: pathlib.Path) -> None:
    answer = answer_of_run(make_run(Store(tmp_path), finished=True, generates=True))
    head, first, *_ = generation.text_rows(answer)
    row = dict(zip(head, first, strict=True))
    assert [row[name] for name in ("arm", "batch", "tokens/s", "TTFT, ms", "ITL, ms")] == [
        *("compiled", "1", "7,782", "0.411", "0.119")
    ]
    assert row["cache MiB"] == "0.25"
    assert not generation.text_rows(built_answers.answer())


LEVELS = tuple(
    built_measurements.rate_level(
        rate, ttft_seconds=(0.011, 0.022, 0.033), itl_seconds=(0.004, 0.005, 0.006), failed=failed
    )
    for rate, failed in ((5.0, 0), (8.0, 0), (10.0, 3))
)


def served_answer(joules_per_token: float | None = None) -> Answer:
    served = built_measurements.served_arm(levels=LEVELS, joules_per_token=joules_per_token)
    answer = run_answer(question=builders.question(load=built_measurements.load()))
    return with_results(answer, serving=built_measurements.serving(served))


def test_the_energy_of_a_token_is_a_column_where_it_was_measured() -> None:
    assert generation.ENERGY_HEAD not in generation.server_rows(served_answer())[0]
    head, row = generation.server_rows(served_answer(0.1234))
    assert row[head.index(generation.ENERGY_HEAD)] == "0.123"


def test_each_server_has_its_goodput_and_its_latency_by_rate() -> None:
    servers, latency = generation.tables(served_answer())
    (_, server), (_, *levels) = servers.rows, latency.rows
    assert server[:3] == ["engine", "at least 10.00 (8.33 to 12.00)", "40"]
    assert [row[1:3] for row in levels] == [["5", "50 %"], ["8", "80 %"], ["10", "100 %"]]
    assert levels[-1][4:] == ["11", "22", "33", "4", "5", "6", "3"]


def test_a_search_that_found_no_rate_that_fails_is_marked_in_the_table() -> None:
    for met, is_least in ((1.0, True), (0.5, False)):
        last = builders.replace(LEVELS[-1], met=met)
        engine = built_measurements.served_arm(levels=(*LEVELS[:-1], last))
        served = with_results(served_answer(), serving=built_measurements.serving(engine))
        (_, row) = generation.server_rows(served)
        assert ("at least 10.00" in row[1]) == is_least


MODEL = TransformersModel(name="org/model", config={"model_type": "llama"}, weights="hub")
LOAD = built_measurements.load(lengths=(RequestLengths(input_tokens=48, output_tokens=9),))
QUESTION = builders.question(task="serve", model=MODEL, load=LOAD, output_tokens=4)
SERVING = built_measurements.started_server(variables={"CACHE_GIB": "4; echo hacked"})


def run_of_server(serving_command: str, serving: Serving = SERVING) -> Run:
    distributions = {"engine": "1.2+cu130", "torch": "2.13.0", "transformers": "5.17.0"}
    own = builders.interpreter_facts(distributions, interpreter="/envs/engine/bin/python")
    process = builders.process(
        imported=Imported(versions={"engine": "1.2"}, settings={}, environment=own),
        snippet_facts=builders.snippet_facts(serving_command=serving_command),
        serving=serving,
    )
    planned = builders.arm("compiled", workflow="engine")
    return UnstoredRun(builders.header(question=QUESTION), [planned], {"compiled": process})


def answered(**changes: Any) -> Answer:
    goodput = built_measurements.interval(26.5)
    served = built_measurements.served_arm("compiled", goodput=goodput, **changes)
    answer = built_answers.answer(question=QUESTION)
    return with_results(answer, serving=built_measurements.serving(served))


def short(run: Run) -> str:
    entry, found = recipe_text.choose_recipe(answered(), run, "compiled")
    return recipe_text.render_short(answered(), entry, found)


def test_an_answer_hands_out_the_server_that_was_under_load() -> None:
    """Not the lines of a batch, and as it was started: on both GPUs, with the name of requests."""
    command = (
        "/envs/engine/bin/python -m engine --model /runs/1/scratch/checkpoint --port 52605 "
        "--served-model-name model --tensor-parallel-size 2 --max-model-len 78"
    )
    run = run_of_server("", builders.replace(SERVING, command=command))
    answer = answered(command=started_command(run.state().processes["compiled"][0], QUESTION))
    start, request = "\n".join(code_lines(answer)).replace("\\\n", "").split(REQUEST)
    assert "# --max-model-len" in start
    assert shlex.split(start, comments=True) == [
        *("env", "CACHE_GIB=4; echo hacked", "python", "-m", "engine", "--model", "org/model"),
        *("--served-model-name", "model", "--tensor-parallel-size", "2"),
        *("--max-model-len", "78", "--port", "8000"),
    ]
    assert json.loads(shlex.split(request)[-1])["model"] == "model"
    entry, found = recipe_text.choose_recipe(answer, None, "compiled")
    script = recipe_text.render_short(answer, entry, found)
    assert "--tensor-parallel-size 2" in script
    assert "# --max-model-len is" in script


def test_an_engine_is_started_with_its_variables_and_the_users_port(tmp_path: pathlib.Path) -> None:
    """A value of a run from another machine stays one word of the shell."""
    script = tmp_path / "server.sh"
    script.write_text(short(run_of_server("printenv CACHE_GIB")))
    assert run_command(["sh", script]).stdout == "4; echo hacked\n"
    (last,) = [line for line in script.read_text().splitlines() if line.startswith("exec ")]
    assert shlex.split(last)[-1] == "$@"
    comments = [line for line in script.read_text().splitlines() if line.startswith("# ")]
    assert any("engine==1.2" in line for line in comments)
    assert any("26.5" in line for line in comments)


def test_the_recipe_of_a_run_under_load_is_its_server() -> None:
    run = run_of_server("engine")
    assert recipe_text.render_recommended(answered(), run) == short(run)
