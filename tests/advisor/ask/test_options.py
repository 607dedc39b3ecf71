"""Texts of single options become values of the question or are refused."""

from __future__ import annotations

import pathlib
import re
import typing
from collections.abc import Callable

import builders
import msgspec
import pytest

from advisor.ask.answers import Answers, command_of
from advisor.ask.devices import NoGpuReason, find_no_gpu_reason
from advisor.ask.option_values import (
    FORMATS,
    choose_weight_formats,
    parse_build_times,
    parse_constraints,
    parse_data,
    parse_function,
    parse_inputs,
    parse_tolerance,
    parse_weight_formats,
)
from advisor.domain.machine import Machine
from advisor.domain.question import WeightFormat
from advisor.errors import (
    OptionFileError,
    SizeError,
    UnknownWorkflowError,
    UserError,
    WeightFormatError,
)


def test_the_command_has_the_options_that_differ_from_their_defaults() -> None:
    assert command_of(Answers()) == "p3-advisor --json"
    asked = Answers(
        gpu="RTX 4090",
        batch_sizes="1,64",
        require="portability>=2",
        input_tokens="64",
        price_per_hour=2.5,
        offline=True,
    )
    assert command_of(asked) == (
        "p3-advisor --json --gpu 'RTX 4090' --batch-sizes 1,64 --input-tokens 64"
        " --require 'portability>=2' --price-per-hour 2.5 --offline"
    )


def test_the_help_of_the_batch_sizes_has_the_defaults_of_the_catalogue() -> None:
    models = builders.shipped_catalogue().models
    hint = typing.get_type_hints(Answers, include_extras=True)["batch_sizes"]
    (meta,) = (each for each in hint.__metadata__ if isinstance(each, msgspec.Meta))
    _, _, defaults = (meta.description or "").partition("default:")
    assert re.findall(r"[\d,]*\d+,\d+", defaults) == [
        ",".join(map(str, sizes))
        for sizes in (models.batch_sizes, models.demo_batch_sizes, models.demo_gpu_batch_sizes)
    ]


KNOWN = builders.shipped_catalogue()


@pytest.mark.parametrize(
    ("text", "limits"),
    [
        ("", {}),
        ("tensorrt=1h", {"tensorrt": 3600.0}),
        (" tensorrt = 90s , iree=5min,", {"tensorrt": 90.0, "iree": 300.0}),
    ],
)
def test_limits_are_seconds_by_workflow(text: str, limits: dict[str, float]) -> None:
    assert parse_build_times(text, KNOWN) == limits


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("nonsense=5min", UnknownWorkflowError),
        ("tensorrt", SizeError),
        ("tensorrt=", SizeError),
        ("tensorrt=soon", SizeError),
        ("tensorrt=0s", SizeError),
        ("tensorrt=-5min", SizeError),
        ("tensorrt=1h,tensorrt=2h", SizeError),
    ],
)
def test_other_texts_are_refused(text: str, error: type[UserError]) -> None:
    with pytest.raises(error):
        parse_build_times(text, KNOWN)


WITH_GPU = builders.gpu_machine(builders.gpu())
CPU_BUILD = msgspec.structs.replace(
    WITH_GPU, software=msgspec.structs.replace(WITH_GPU.software, torch_cuda=None)
)


@pytest.mark.parametrize(
    ("machine", "reason"),
    [(builders.machine(), "no-gpu"), (CPU_BUILD, "cpu-build"), (WITH_GPU, None)],
)
def test_a_gpu_needs_a_cuda_build_of_torch(machine: Machine, reason: NoGpuReason | None) -> None:
    assert find_no_gpu_reason(machine) == reason


def test_paths_become_absolute(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "texts.jsonl").write_text("{}\n")
    (tmp_path / "metric.py").write_text("def score(model):\n    return 1\nraise SystemExit\n")
    monkeypatch.chdir(tmp_path)
    assert parse_data("texts.jsonl") == str(tmp_path / "texts.jsonl")
    assert parse_function("--metric", "metric.py:score") == f"{tmp_path / 'metric.py'}:score"
    assert parse_inputs("metric.py:score") == f"{tmp_path / 'metric.py'}:score"
    assert parse_data("") == parse_function("--metric", "") == parse_inputs("") == ""


@pytest.mark.parametrize("text", ["no.py:score", "metric.py", "metric.py:other", "metric.py:a b"])
def test_a_metric_that_cannot_be_called_is_refused(
    text: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "metric.py").write_text("def score(model):\n    return 1\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(OptionFileError):
        parse_function("--metric", text)


def test_a_file_that_is_no_python_is_refused(tmp_path: pathlib.Path) -> None:
    (tmp_path / "metric.py").write_text("def score(:\n")
    with pytest.raises(OptionFileError):
        parse_function("--metric", f"{tmp_path / 'metric.py'}:score")


@pytest.mark.parametrize("parse", [parse_data, parse_inputs])
def test_missing_files_are_refused(parse: Callable[[str], str], tmp_path: pathlib.Path) -> None:
    for name in ("", "absent.npz"):
        with pytest.raises(OptionFileError):
            parse(str(tmp_path / name))


@pytest.mark.parametrize(
    ("text", "tolerance"),
    [("", None), ("exact", 0.0), (" EXACT ", 0.0), ("1e-3", 1e-3), ("1%", 0.01), ("0.5 %", 0.005)],
)
def test_a_tolerance_is_a_share(text: str, tolerance: float | None) -> None:
    assert parse_tolerance(text) == (tolerance if tolerance is None else pytest.approx(tolerance))


@pytest.mark.parametrize("text", ["-1", "2", "150%", "close", "nan", "1e-3x", "%"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(SizeError):
        parse_tolerance(text)


@pytest.mark.parametrize(
    ("text", "formats"),
    [
        ("", ()),
        ("int4", ("int4",)),
        (" INT4, int8 ", ("int8", "int4")),
        ("any", ("int8", "int4", "fp8")),
        ("any,int8", ("int8", "int4", "fp8")),
    ],
)
def test_formats_are_named_one_by_one_or_together(
    text: str, formats: tuple[WeightFormat, ...]
) -> None:
    assert parse_weight_formats(text) == formats


@pytest.mark.parametrize("text", ["int2", "int8,q4", "none"])
def test_an_unknown_format_is_refused(text: str) -> None:
    with pytest.raises(WeightFormatError):
        parse_weight_formats(text)


@pytest.mark.parametrize(
    ("text", "require", "formats"),
    [
        ("", "accuracy>=B", FORMATS),
        ("int8", "accuracy>=B", ("int8",)),
        ("", "accuracy<=1e-2,portability>=B", ()),
    ],
)
def test_a_required_class_of_accuracy_asks_for_quantised_weights(
    text: str, require: str, formats: tuple[WeightFormat, ...]
) -> None:
    assert choose_weight_formats(text, parse_constraints(require)) == formats
