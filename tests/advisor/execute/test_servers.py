"""Servers under load, in real processes: a queue with a fixed service time, and a fake AIPerf.

The capacity of the queue is exact: one request for each service time. A slow machine only makes it
smaller, so the figures are bounded from above.
"""

from __future__ import annotations

import os
import pathlib
import random
import shlex
import shutil
import sysconfig
import tempfile
import venv
from collections.abc import Callable, Generator
from typing import cast

import builders
import built_answers
import built_measurements
import msgspec
import pytest
import sessions

from advisor.ask import catalogue_files
from advisor.ask.context import Context
from advisor.ask.run_options import RunOptions
from advisor.decide.answers import answer_from_results
from advisor.domain.answer import Answer, encode
from advisor.domain.constraints import Constraint
from advisor.domain.errors import EnvironmentNotUsableError, NothingViableError
from advisor.domain.run_events import LoadMeasured, LoggedEvent, WorkerEnded, WorkerSpawned
from advisor.domain.serving import ServedRequest
from advisor.execute import servers
from advisor.execute.drafts import draft_run
from advisor.execute.execution import execute
from advisor.recipes.arm_recipe import find_recipe
from advisor.report import generation, text_report
from advisor.report.answer_files import answer_of_run
from advisor.store.runs import Run
from probes.shape import Shape

pytestmark = pytest.mark.slow

BASELINE = "transformers-serve"
#: Requests per second that the fake queues complete at most.
CAPACITY = {BASELINE: 1 / 0.06, "faster": 1 / 0.008}
#: More than any of them sustains.
ASKED_RATE = 500.0
FAKES = pathlib.Path(__file__).parents[2] / "fakes"
LENGTHS = FAKES / "serving" / "lengths.jsonl"


def ask(
    workflows: str, rate: float = 0.0, budget: str = "quick", lengths: pathlib.Path = LENGTHS
) -> RunOptions:
    return RunOptions(
        task="serve",
        model="demo/llama",
        gpu="cpu",
        dtype="float32",
        ttft="300ms",
        itl="200ms",
        lengths=str(lengths),
        batch_sizes="1",
        input_tokens="4",
        output_tokens="3",
        workflows=workflows,
        rate=rate,
        budget=budget,
    )


#: A busy machine delays single requests and sends them late; the fake generator has its own delay.
SHORT = """
block_seconds.quick = 1.0
least_ttfts = 2
least_misses = 0.2
gap_seconds = 0.1
closed_loop_concurrencies = [1, 4]
closed_loop_seconds = 0.2
closed_loop_gain = 3.0
ladder = [0.5, 1.0]
most_blocks = 2
most_block_seconds = 1.5
late_ttft_share = 0.8
far_below = 0.3
sampled_share = 0.1
repeat_rates = [0.8]
request_seconds = 20.0
"""


@pytest.fixture(scope="module")
def probes(fake_probes: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The real worker and harness with a fake language model and fake servers."""
    directory = tmp_path_factory.mktemp("serving") / "probes"
    shutil.copytree(fake_probes, directory)
    workflows = directory / "workflows"
    shutil.copytree(FAKES / "serving" / "workflows", workflows, dirs_exist_ok=True)
    shutil.copy(workflows / "faster.py", workflows / "transformers_serve.py")
    return directory


@pytest.fixture(scope="module")
def catalogue(
    fake_catalogue: pathlib.Path, tmp_path_factory: pytest.TempPathFactory
) -> pathlib.Path:
    """The fake catalogue with servers and short blocks."""
    directory = tmp_path_factory.mktemp("serving") / "catalogue"
    shutil.copytree(fake_catalogue, directory)
    with (directory / "workflows.toml").open("a") as file:
        file.write((FAKES / "serving" / "workflows.toml").read_text())
    sessions.change_fields(directory / "accuracy.toml", "repeats = {calls=3, most_seconds=0.3}")
    sessions.change_fields(directory / "serving.toml", SHORT)
    return directory


@pytest.fixture(scope="module")
def make_context(
    module_home: pathlib.Path, catalogue: pathlib.Path, probes: pathlib.Path
) -> Callable[[str], Context]:
    """A function that returns contexts; its argument is the fault of the fake AIPerf.

    The environment `aiperf` of their runs has the fake.
    """
    directory = sessions.add_own_environment(module_home, "aiperf", catalogue, probes)
    venv.create(directory, symlinks=True)
    base = {"base": str(directory), "platbase": str(directory)}
    package = pathlib.Path(sysconfig.get_path("purelib", vars=base)) / "aiperf"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    shutil.copy(FAKES / "serving" / "aiperf_main.py", package / "__main__.py")

    def make(fault: str) -> Context:
        variables = {"P3_ADVISOR_HOME": str(module_home), "P3_ADVISOR_FAKE_AIPERF": fault}
        environment, chance = {**os.environ, **variables}, random.Random(fault)
        return sessions.fake_context(
            module_home, probes, catalogue, environment=environment, random=chance
        )

    return make


@pytest.fixture(scope="module")
def resumed(make_context: Callable[[str], Context]) -> Run:
    """A run of both queues that is interrupted when the second server starts, and resumed."""
    context = make_context("")
    run = sessions.create_run(context, ask(f"{BASELINE},faster/default", rate=ASKED_RATE))
    logged_events = execute(run, context)
    for event in logged_events:
        if isinstance(event.run_event, WorkerSpawned) and event.run_event.arm == BASELINE:
            break
    cast("Generator[LoggedEvent]", logged_events).close()
    sessions.exhaust(execute(run, context))
    return run


@pytest.fixture(scope="module")
def answer(resumed: Run) -> Answer:
    return answer_of_run(resumed)


def test_the_goodput_of_each_server_is_found(answer: Answer) -> None:
    found = answer.served
    assert list(found) == ["faster", BASELINE]
    for arm, capacity in CAPACITY.items():
        goodput = builders.known(found[arm].goodput)
        assert 0 < builders.known(goodput.low) <= goodput.value <= builders.known(goodput.high)
        # A queue that grows by less than the limit in a block is not seen.
        assert goodput.value < 1.25 * capacity
        assert found[arm].tokens_per_second == pytest.approx(3 * goodput.value)
        assert found[arm].failed == 0


def test_the_faster_server_is_advised_by_its_request_rate(answer: Answer) -> None:
    assert builders.known(answer.recommendation).arm == "faster"
    speedups = {entry.arm: entry.speedup for entry in answer.results.measurements}
    found = answer.served
    goodputs = {arm: entry.goodput.value for arm, entry in found.items() if entry.goodput}
    assert speedups["faster"].value == pytest.approx(goodputs["faster"] / goodputs[BASELINE])
    assert builders.known(speedups["faster"].low) > 1
    assert speedups[BASELINE].value == 1
    assert all(each.batch_tokens_per_second for each in found.values())
    assert built_answers.headline(answer, "load")


def test_only_the_server_that_may_lead_is_measured_in_two_processes(resumed: Run) -> None:
    state = resumed.state()
    assert [process.repeat for process in state.processes["faster"]] == [0, 1]
    # Its first process is the one that was interrupted.
    assert [process.repeat for process in state.processes[BASELINE]] == [0, 0]
    assert [bool(process.load_blocks) for process in state.processes[BASELINE]] == [False, True]
    assert all(process.load_blocks for process in state.processes["faster"])
    ended = [each.arm for each in sessions.of_kind(resumed.events(), WorkerEnded)]
    assert [arm for arm in ended if arm in CAPACITY] == ["faster", BASELINE, "faster"]


def test_closed_loops_find_the_capacity_before_the_load(resumed: Run) -> None:
    for arm, capacity in CAPACITY.items():
        processes = resumed.state().processes[arm]
        (probed,) = [each for each in processes if each.closed_loops]
        loops = probed.closed_loops
        assert [loop.concurrency for loop in loops] == [1, 4]
        # A processor has no energy counter.
        assert [(each.shape.batch_size, each.joules) for each in probed.energy] == [
            (1, None),
            (4, None),
        ]
        assert all(0 < loop.rate <= 1.01 * capacity for loop in loops)
        assert all(loop.problem is None for loop in loops)


def test_the_asked_rate_needs_several_servers(resumed: Run, answer: Answer) -> None:
    for served in answer.served.values():
        asked = builders.known(served.asked)
        assert asked.rate == ASKED_RATE
        assert asked.verdict == "not-met"
        assert 1 < asked.fewest_servers <= asked.servers <= asked.most_servers
    repeated = resumed.state().processes["faster"][1]
    rates = [block.rate for block in repeated.load_blocks]
    assert len(rates) == 2
    assert rates == sorted(rates)
    servers = [ASKED_RATE / rate for rate in rates]
    assert any(each == pytest.approx(round(each)) for each in servers)
    assert "Servers under load:" in text_report.render(answer)
    titles = [table.title for table in generation.tables(answer)]
    assert len([title for title in titles if f"{ASKED_RATE:g}" in title]) == 1


def test_the_texts_of_a_server_are_checked_before_during_and_after_the_load(resumed: Run) -> None:
    for arm in CAPACITY:
        for process in resumed.state().processes[arm]:
            if not process.load_blocks:
                continue
            assert process.checked[Shape(1)].accuracy_class == "exact"
            assert process.outcome is not None
            assert process.serving is not None
            assert process.texts_sampled


def test_the_recipe_of_a_server_is_its_command(resumed: Run) -> None:
    found = builders.known(find_recipe(resumed, "faster"))
    last = builders.known(resumed.state().processes["faster"][-1].serving)
    _, *measured_words = shlex.split(last.command)
    assert shlex.split(builders.known(found.serving_command)) == ["python", *measured_words]


def test_the_load_generator_leaves_no_temporary_files(resumed: Run) -> None:
    assert resumed.state().finished
    assert not list(pathlib.Path(tempfile.gettempdir()).glob("fake-aiperf-*"))


def test_an_answer_of_servers_decided_again_has_the_same_advice(
    resumed: Run, answer: Answer
) -> None:
    answer, known = msgspec.json.decode(encode(answer), type=Answer), resumed.header().catalogue
    assert answer_from_results(answer, known) == answer
    refused = answer_from_results(answer, known, constraints=(Constraint("memory", "<=", 1.0),))
    assert refused.recommendation is None
    assert refused.problem is not None


def test_failing_servers_are_outcomes_and_the_others_are_measured(
    make_context: Callable[[str], Context],
) -> None:
    names = ("wrong", "wrong-under-load", "refuses", "sheds", "dies", "too-slow")
    faults = ",".join(f"faster/{name}" for name in names)
    run = sessions.execute_run(make_context(""), ask(faults))
    state, answer = run.state(), answer_of_run(run)
    sessions.expect_failure(state.processes["faster/wrong"][-1].outcome, "incorrect")
    assert not state.processes["faster/wrong"][-1].load_blocks
    under_load = state.processes["faster/wrong-under-load"][-1]
    assert under_load.checked[Shape(1)].accuracy_class == "exact"
    assert under_load.load_blocks
    assert not any(each.failure for block in under_load.load_blocks for each in block.requests)
    assert sessions.expect_failure(under_load.outcome, "incorrect").phase == "sustain"
    refused = builders.known(state.processes["faster/refuses"][-1].failure)
    assert "ended with status 4" in refused.reason
    found = answer.served
    assert found["faster/sheds"].failed > 0
    assert found["faster/dies"].failed > 0
    assert found["faster/too-slow"].goodput is None
    unmeasured = {entry.arm: entry for entry in answer.unmeasured}
    assert unmeasured["faster/too-slow"].status == "excluded"
    assert "limits" in unmeasured["faster/too-slow"].reason


def test_after_the_time_of_the_run_only_the_baseline_is_measured(
    make_context: Callable[[str], Context],
) -> None:
    arms = f"{BASELINE},faster/default,faster/sheds"
    run = sessions.execute_run(make_context(""), ask(arms, budget="1s"))
    state, answer = run.state(), answer_of_run(run)
    assert answer.recommendation is not None
    assert set(answer.served) == {BASELINE, "faster"}
    assert builders.known(state.processes["faster/sheds"][-1].failure).skip_cause == "out-of-time"
    assert not state.repeats


def test_a_server_that_answers_no_request_of_the_load_gets_none_from_the_generator(
    make_context: Callable[[str], Context], tmp_path: pathlib.Path
) -> None:
    longer = tmp_path / "longer.jsonl"
    longer.write_text('{"input_tokens": 5, "output_tokens": 3}\n')
    run = sessions.execute_run(make_context(""), ask("faster/short", lengths=longer))
    (process,) = run.state().processes["faster/short"]
    assert process.checked[Shape(1)].accuracy_class == "exact"
    (loop,) = process.closed_loops
    assert loop.requests == 0
    failure = sessions.expect_failure(process.outcome, "build-failed")
    assert failure.phase == "sustain"
    assert "status 400" in failure.reason
    assert "too many characters" in failure.reason
    assert not process.load_blocks


def test_blocks_in_which_the_generator_fell_behind_do_not_count(
    make_context: Callable[[str], Context],
) -> None:
    run = sessions.execute_run(make_context("late"), ask("faster/default"))
    blocks = run.state().processes["faster"][0].load_blocks
    assert blocks
    assert all(block.discarded for block in blocks)
    assert builders.known(answer_of_run(run).problem).name == NothingViableError.name


def test_a_generator_that_fails_is_reported(make_context: Callable[[str], Context]) -> None:
    run = sessions.execute_run(make_context("fail"), ask("faster/default"))
    (block,) = sessions.of_kind(run.events(), LoadMeasured)
    assert "made to fail" in (block.problem or "")
    assert run.state().finished
    (process,) = run.state().processes["faster"]
    assert "made to fail" in sessions.expect_failure(process.outcome, "build-failed").reason


def test_without_the_generators_environment_the_next_step_creates_it(
    make_context: Callable[[str], Context], tmp_path: pathlib.Path
) -> None:
    context = make_context("")
    empty = {**context.environment, "P3_ADVISOR_HOME": str(tmp_path)}
    without = builders.replace(context, environment=empty)
    with pytest.raises(EnvironmentNotUsableError) as caught:
        draft_run(ask(BASELINE), without)
    assert caught.value.next_step == "p3-advisor env create aiperf"


LOAD = built_measurements.load()


def sent(at: float, late: float = 0.0) -> ServedRequest:
    return ServedRequest(at=at, late=late, ttft=0.1, seconds=0.2, itl=0.01, output_tokens=3)


def test_the_beginning_of_a_block_does_not_count() -> None:
    requests = [sent(at) for at in (0.1, 0.9, 2.0, 3.0)]
    assert [each.at for each in servers.without_warmup(requests, 1.0)] == [2.0, 3.0]
    assert len(servers.without_warmup(requests, 9.0)) == 4


def test_a_block_is_discarded_when_many_requests_were_late() -> None:
    rules = builders.known(catalogue_files.load().serving)
    punctual = [sent(float(number)) for number in range(20)]
    assert not servers.fell_behind(punctual, LOAD, rules)
    assert not servers.fell_behind([*punctual, sent(20.0, late=0.2)], LOAD, rules)
    assert servers.fell_behind([*punctual, sent(20.0, 0.2), sent(21.0, 0.2)], LOAD, rules)
