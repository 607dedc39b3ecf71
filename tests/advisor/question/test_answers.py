"""The command line that repeats a question."""

from __future__ import annotations

from advisor.question.answers import Answers, command_of


def test_the_command_has_the_options_that_differ_from_their_defaults() -> None:
    assert command_of(Answers()) == "p3-advisor --json"
    asked = Answers(
        gpu="RTX 4090",
        batch_sizes="1,64",
        require="portability>=2",
        input_tokens=64,
        price_per_hour=2.5,
        offline=True,
    )
    assert command_of(asked) == (
        "p3-advisor --json --gpu 'RTX 4090' --batch-sizes 1,64 --input-tokens 64"
        " --require 'portability>=2' --price-per-hour 2.5 --offline"
    )
