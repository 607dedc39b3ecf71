"""The command line that repeats a question, and the help of its options."""

from __future__ import annotations

import re
import typing

import builders
import msgspec

from advisor.question.answers import Answers, command_of


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
