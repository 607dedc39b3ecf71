"""Options: their names, types and help; weights, constraints and their refusals."""

from __future__ import annotations

import functools
import pathlib
import re
import typing
from collections.abc import Callable

import builders
import msgspec
import pytest
from builders import replace
from hypothesis import given
from hypothesis import strategies as st

from advisor.ask.devices import find_no_gpu_reason
from advisor.ask.option_values import (
    WEIGHT_FORMATS,
    choose_priorities,
    choose_weight_formats,
    parse_constraints,
    parse_duration,
    parse_file,
    parse_function,
    parse_inputs,
    parse_priorities,
    parse_tolerance,
)
from advisor.ask.resolve import parse_build_times
from advisor.ask.run_options import RunOptions, command_of, given_options
from advisor.domain.arm_figures import ARM_FIGURES
from advisor.domain.constraints import (
    CRITERIA,
    EXAMPLES,
    PILLARS,
    Constraint,
    Priorities,
    check_constraints,
)
from advisor.domain.errors import OptionValueError, UnknownWorkflowError, UserError
from advisor.domain.question import Question, WeightFormat


def at_least(name: str, value: float) -> Constraint:
    return Constraint(name, ">=", value)


@pytest.mark.parametrize(
    ("letter", "tier"), [("A", 3), ("a", 3), ("B", 2), ("b", 2), ("C", 1), ("3", 3), ("1", 1)]
)
@pytest.mark.parametrize("name", CRITERIA)
def test_a_criterion_takes_a_letter_or_its_number(name: str, letter: str, tier: int) -> None:
    assert parse_constraints(f"{name}>={letter}") == (at_least(name, tier),)
    assert parse_constraints(f" {name.replace('_', '-').upper()} >= {letter} ") == (
        at_least(name, tier),
    )


@pytest.mark.parametrize(
    ("text", "bound", "shown"),
    [
        ("speedup>=1.2", 1.2, "speedup>=1.2x"),
        ("speedup>=1.2x", 1.2, "speedup>=1.2x"),
        ("memory<=1.5GiB", 1.5 * 2**30, "memory<=1.5GiB"),
        ("memory<=8gib", 8 * 2**30, "memory<=8GiB"),
        ("memory<=8GB", 8e9, "memory<=8GB"),
        ("memory<=4096B", 4096.0, "memory<=4096B"),
        ("build<=5m", 300.0, "build<=5min"),
        ("build<=1.5h", 5400.0, "build<=1.5h"),
        ("ttft<=0.2s", 0.2, "ttft<=0.2s"),
        ("ttft<=1500ms", 1.5, "ttft<=1500ms"),
        ("itl<=1.5e-2s", 0.015, "itl<=0.015s"),
        ("itl<=500us", 5e-4, "itl<=500us"),
        ("accuracy<=0.1%", 0.001, "accuracy<=0.1%"),
        ("accuracy<=0", 0.0, "accuracy<=0"),
        ("engaged>=90%", 0.9, "engaged>=90%"),
        ("breaks<=0", 0.0, "breaks<=0"),
        ("breaks<=1234567", 1234567.0, "breaks<=1234567"),
    ],
)
def test_a_figure_is_converted_to_its_base_unit_and_shown_in_its_own(
    text: str, bound: float, shown: str
) -> None:
    (found,) = parse_constraints(text)
    assert found.quantity == text[: text.index("=") - 1]
    assert found.comparison in text
    assert found.limit == pytest.approx(bound)
    assert found.text == shown


def test_the_help_has_an_example_of_every_figure_that_can_be_limited() -> None:
    _, option = typing.get_args(typing.get_type_hints(RunOptions, include_extras=True)["require"])
    assert [name for name in ARM_FIGURES if f'"{name}' not in option.description] == []
    assert all(len(parse_constraints(example)) == 1 for example in EXAMPLES)


def test_the_breaks_of_a_graph_are_counted() -> None:
    breaks = ARM_FIGURES["breaks"].get
    assert breaks(builders.measurement()) == 0
    assert breaks(builders.measurement(facts={"graph_breaks": {"net.py:1: x": 3, "y": 1}})) == 2


def test_letters_and_figures_are_combined_in_their_order_and_suit_their_tasks() -> None:
    assert parse_constraints("portability >= B,speedup>=1.2,build<=5min,") == (
        at_least("portability", 2),
        at_least("speedup", 1.2),
        Constraint("build", "<=", 300.0, unit="min"),
    )
    check_constraints(parse_constraints("speedup>=1.2,memory<=8GiB,accuracy<=1e-3"), "forward")
    check_constraints(parse_constraints("ttft<=200ms,itl<=50ms"), "generate")


@pytest.mark.parametrize(
    "text",
    [
        "portability",
        "portability=B",
        "portability>=0",
        "portability>=D",
        "speedup<=2",
        "speedup>=2s",
        "speedup>=fast",
        "speedup>=0",
        "speedup>=nan",
        "memory>=8GiB",
        "memory<=8",
        "memory<=8TiB",
        "build>=5min",
        "build<=1.2.3s",
        "build<=0s",
        "ttft<=200ms<=1",
        "accuracy>=0.9",
    ],
)
def test_an_invalid_constraint_is_an_error_that_names_it(text: str) -> None:
    with pytest.raises(OptionValueError) as problem:
        parse_constraints(f"performance>=C,{text}")
    assert repr(text) in problem.value.what
    assert all(name in problem.value.next_step for name in (*CRITERIA, *ARM_FIGURES))


parse_wait = functools.partial(parse_duration, "--wait-for-quiet")


@pytest.mark.parametrize("text", ["memory<2GiB", "memory<=2", "memory>=2GiB"])
def test_a_wrong_constraint_of_a_figure_is_corrected_by_one_of_it(text: str) -> None:
    step = builders.known(builders.error_of(lambda: parse_constraints(text))).next_step
    assert step.startswith("write it like memory<=8GiB;")


@pytest.mark.parametrize(
    ("parse", "text", "step"),
    [
        (parse_constraints, "spedup>=2", "did you mean speedup?"),
        (parse_constraints, "speed>=2", "did you mean speedup?"),
        (parse_constraints, "portabilty>=B", "did you mean portability?"),
        (parse_constraints, "build<=90", "write 90s or 90min"),
        (parse_constraints, "ttft<=200", "write 200ms or 200s"),
        *(
            (parse_wait, each, "write it like 90s, 5min or 1h")
            for each in ("soon", "-5s", "nan", "0", "5 parsecs")
        ),
        (parse_wait, "5", "write 5s or 5min"),
    ],
)
def test_what_may_be_meant_is_named(parse: Callable[[str], object], text: str, step: str) -> None:
    assert builders.known(builders.error_of(lambda: parse(text))).next_step == step


def test_criteria_may_have_the_names_of_the_tables_and_no_others() -> None:
    assert parse_constraints("port>=B") == parse_constraints("portability>=B")
    assert parse_priorities("perf=60,prod=25,port=15").performance == 60
    with pytest.raises(OptionValueError):
        parse_priorities("p=60,prod=25,port=15")


fragments = st.lists(
    st.sampled_from(
        ["performance", "memory", "speedup", "=", ">=", "<=", ",", "60", "1e999", " ", "\n", "GiB"]
    ),
    max_size=12,
).map("".join)


@pytest.mark.parametrize("parse", [parse_constraints, parse_priorities])
@given(text=st.text(max_size=30) | fragments)
def test_any_text_is_parsed_or_a_one_line_error(parse: Callable[[str], object], text: str) -> None:
    error = builders.error_of(lambda: parse(text))
    assert error is None or "\n" not in error.what + error.next_step


THIRD = 100 / 3


@pytest.mark.parametrize(
    ("text", "weights"),
    [
        (
            "performance=60.5, productivity = 24.5,portability=15,input-flexibility=20",
            builders.priorities(60.5, 24.5, 15, input_flexibility=20),
        ),
        (
            "performance=60,productivity=25,portability=15,architecture_support=5",
            builders.priorities(60, 25, 15, architecture_support=5),
        ),
        ("performance=100", builders.priorities(100, 0, 0)),
        # The sum is 100 but for its rounding.
        (",".join(f"{pillar}={THIRD!r}" for pillar in PILLARS), builders.priorities(*[THIRD] * 3)),
    ],
    ids=["inputs", "models", "left out", "rounding"],
)
def test_weights_are_parsed(text: str, weights: Priorities) -> None:
    assert parse_priorities(text) == weights


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("performance", "'performance'"),
        ("performance=60,speed=40", "'speed=40'"),
        ("performance=60,performance=40", "'performance=40'"),
        ("performance=60,,productivity=40", "''"),
        ("performance=high,productivity=25,portability=15", "'high'"),
        ("performance=nan,productivity=25,portability=15", "not between 0 and 100"),
        ("performance=-1,productivity=86,portability=15", "not between 0 and 100"),
        ("performance=60", "60, not 100"),
        ("performance=60,productivity=25,portability=14.99", "99.99"),
        (
            "performance=60,productivity=25,portability=15,input_flexibility=60,architecture_support=41",
            "exceed 100",
        ),
    ],
)
def test_invalid_weights_are_errors(text: str, words: str) -> None:
    with pytest.raises(OptionValueError) as problem:
        parse_priorities(text)
    assert words in problem.value.what
    assert problem.value.next_step


def test_priority_and_preset_together_are_an_error() -> None:
    both = RunOptions(priority="perf=60,prod=25,port=15", preset="serving")
    with pytest.raises(OptionValueError, match="both"):
        choose_priorities(both, builders.catalogue())


def test_the_command_has_the_options_that_differ_from_their_defaults() -> None:
    assert command_of(RunOptions()) == "p3-advisor recommend demo --json"
    asked = RunOptions(
        gpu="RTX 4090",
        batch_sizes="1,64",
        require="portability>=2",
        input_tokens="64",
        leave_out="iree,trt",
        price_per_hour=2.5,
        requests=1000,
        offline=True,
    )
    assert command_of(asked) == (
        "p3-advisor recommend demo --json --offline --batch-sizes 1,64 --input-tokens 64"
        " --leave-out iree,trt --gpu 'RTX 4090' --price-per-hour 2.5 --require 'portability>=2'"
        " --requests 1000"
    )
    (known, unknown) = (builders.question(asked=each) for each in (given_options(asked), {}))
    again = command_of(asked).replace(" --json", "").replace("1,64", "2") + " --all-arms"
    stored = msgspec.json.decode(msgspec.json.encode(known), type=Question)
    assert stored.ask_again(batch_sizes="2", all_arms=True) == again
    assert unknown.ask_again(batch_sizes="2") == "ask again with --batch-sizes 2"


def test_the_help_of_the_batch_sizes_has_the_defaults_of_the_catalogue() -> None:
    models = builders.shipped_catalogue().models
    hint = typing.get_type_hints(RunOptions, include_extras=True)["batch_sizes"]
    (meta,) = (each for each in hint.__metadata__ if isinstance(each, msgspec.Meta))
    _, _, defaults = (meta.description or "").partition("default:")
    assert re.findall(r"[\d,]*\d+,\d+", defaults) == [
        ",".join(map(str, sizes))
        for sizes in (models.batch_sizes, models.cpu_batch_sizes, models.demo_gpu_batch_sizes)
    ]


def test_a_gpu_needs_a_cuda_build_of_torch() -> None:
    with_gpu = builders.gpu_machine(builders.gpu())
    cpu_build = replace(with_gpu, software=replace(with_gpu.software, torch_cuda=None))
    found = [find_no_gpu_reason(each) for each in (builders.machine(), cpu_build, with_gpu)]
    assert found == ["no-gpu", "cpu-build", None]


parse_data = functools.partial(parse_file, "--data", fix="name a file")


def test_paths_become_absolute(here: pathlib.Path) -> None:
    (here / "texts.jsonl").write_text("{}\n")
    functions = "def score(model):\n    return 1\ndef made(): ...\nraise SystemExit\n"
    (here / "metric.py").write_text(functions)
    assert parse_data("texts.jsonl") == str(here / "texts.jsonl")
    assert parse_function("--metric", "metric.py:score") == f"{here / 'metric.py'}:score"
    assert parse_inputs("metric.py:made") == f"{here / 'metric.py'}:made"
    assert parse_data("") == parse_function("--metric", "") == parse_inputs("") == ""


@pytest.mark.parametrize("parse", [parse_data, parse_inputs])
def test_missing_files_are_refused(parse: Callable[[str], str], tmp_path: pathlib.Path) -> None:
    for name in ("", "absent.npz"):
        with pytest.raises(OptionValueError):
            parse(str(tmp_path / name))


@pytest.mark.parametrize(
    ("text", "require", "formats"),
    [
        ("", "accuracy>=B", WEIGHT_FORMATS),
        ("int8", "accuracy>=B", ("int8",)),
        ("", "accuracy<=1e-2,portability>=B", ()),
    ],
)
def test_a_required_class_of_accuracy_asks_for_quantised_weights(
    text: str, require: str, formats: tuple[WeightFormat, ...]
) -> None:
    assert choose_weight_formats(text, parse_constraints(require)) == formats


parse_limits = functools.partial(parse_build_times, catalogue=builders.shipped_catalogue())
parse_formats = functools.partial(choose_weight_formats, constraints=())


@pytest.mark.parametrize(
    ("parse", "text", "value"),
    [
        (parse_limits, "", {}),
        (parse_limits, " tensorrt = 90s , iree=1h,", {"tensorrt": 90.0, "iree": 3600.0}),
        (parse_limits, "Inductor=1h", {"torch-compile-inductor": 3600.0}),
        (parse_tolerance, "", None),
        (parse_tolerance, " EXACT ", 0.0),
        (parse_tolerance, "1e-3", 1e-3),
        (parse_tolerance, "0.5 %", 0.005),
        (parse_formats, "", ()),
        (parse_formats, " INT4, int8 ", ("int8", "int4")),
        (parse_formats, "any,int8", WEIGHT_FORMATS),
    ],
)
def test_values_are_parsed(parse: Callable[[str], object], text: str, value: object) -> None:
    assert parse(text) == value


@pytest.mark.parametrize(
    ("parse", "error", "texts"),
    [
        (parse_limits, UnknownWorkflowError, ["nonsense=5min"]),
        (parse_limits, OptionValueError, ["iree", "iree=", "iree=-5min", "iree=1h,iree=2h"]),
        (parse_limits, OptionValueError, ["torch-compile-inductor/dynamic=1h"]),
        (parse_tolerance, OptionValueError, ["-1", "2", "150%", "close", "nan", "1e-3x", "%"]),
        (parse_formats, OptionValueError, ["int2", "int8,q4", "none"]),
        (
            functools.partial(parse_function, "--metric"),
            OptionValueError,
            ["no.py:score", "metric.py", "metric.py:other", "metric.py:a b", "no_python.py:score"],
        ),
    ],
)
def test_other_values_are_refused(
    parse: Callable[[str], object], error: type[UserError], texts: list[str], here: pathlib.Path
) -> None:
    (here / "metric.py").write_text("def score(model):\n    return 1\n")
    (here / "no_python.py").write_text("def score(:\n")
    for text in texts:
        with pytest.raises(error):
            parse(text)
