"""The lengths of inputs and outputs in words."""

from __future__ import annotations

from advisor.domain.question import Question, Task
from advisor.domain.sweep import Lengths


def lengths_of(question: Question) -> Lengths:
    """Return the lengths of a run."""
    return Lengths(input_tokens=question.input_tokens, output_tokens=question.output_tokens)


def format_lengths(lengths: Lengths, task: Task | None) -> str:
    """Return the tokens of an input, and those of an output where text is generated."""
    if task == "forward":
        return f"{lengths.input_tokens}"
    return f"{lengths.input_tokens}/{lengths.output_tokens}"


def describe_lengths(lengths: Lengths, task: Task | None) -> str:
    """Return the lengths with their unit."""
    return f"{format_lengths(lengths, task)} {length_unit(task)}"


def length_unit(task: Task | None) -> str:
    """Return the unit of formatted lengths."""
    return "input tokens" if task == "forward" else "tokens in/out"
