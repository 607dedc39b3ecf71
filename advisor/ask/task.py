"""The task of a model, its lengths, and the load of the task `serve`."""

from __future__ import annotations

import math
import pathlib
from collections.abc import Sequence

import msgspec

from advisor.ask.option_values import parse_duration
from advisor.ask.run_options import RunOptions
from advisor.domain.catalogue import Catalogue, Models
from advisor.domain.errors import OptionValueError, TaskError, reported_as
from advisor.domain.model import ExportedModel, FactoryModel, Model, TransformersModel
from advisor.domain.plan import ArmName
from advisor.domain.question import Lengths, LoadQuestion, RequestLengths, Task
from advisor.domain.serving import ServingRules
from advisor.domain.workflow import Workflow

#: Suffixes of the transformers classes that generate text.
GENERATING_SUFFIXES = ("ForCausalLM", "LMHeadModel")


class ModelConfig(msgspec.Struct, frozen=True):
    """The part of a model's config.json that shows its task."""

    architectures: tuple[str, ...] = ()


def choose_task(
    run_options: RunOptions,
    models: Models,
    workflows: Sequence[Workflow] = (),
    named: Sequence[str] = (),
) -> Task:
    """Return the task of the options, or the one that fits the model and the `named` workflows.

    Raise `TaskError` where the named workflows have no task in common that fits the model.
    """
    if run_options.task != "auto":
        return run_options.task
    task = suggest_task(run_options.model, models)
    if task == "forward":
        return task
    known = {workflow.id: workflow for workflow in workflows}
    supported: dict[str, set[Task]] = {}
    for name in named:
        arm = ArmName.parse(name)
        workflow = known[arm.workflow]
        declared = [workflow.arm(arm.option)] if arm.option else workflow.arms.values()
        supported[name] = {task for each in declared for task in each.tasks or workflow.tasks}
    if all(task in tasks for tasks in supported.values()):
        return task
    if all("forward" in tasks for tasks in supported.values()):
        return "forward"
    without = [name for name, tasks in supported.items() if task not in tasks]
    others = [name for name, tasks in supported.items() if "forward" not in tasks]
    raise TaskError(
        f"{', '.join(without)} cannot generate text, and {', '.join(others)} can do nothing else",
        f"measure them in two runs; --task forward measures {', '.join(without)}",
    )


def suggest_task(model: str, models: Models) -> Task:
    """Look the model up in the catalogue and in a local directory; others have `forward`."""
    shipped = models.configurations.get(model)
    try:
        config = (
            shipped.config
            if shipped is not None
            else msgspec.json.decode((pathlib.Path(model) / "config.json").read_bytes())
        )
        names = msgspec.convert(config, ModelConfig).architectures
    except (OSError, ValueError, RecursionError):
        return "forward"
    return "generate" if any(name.endswith(GENERATING_SUFFIXES) for name in names) else "forward"


def check_task(task: Task, model: Model, models: Models, gpus_per_model: int = 1) -> None:
    """Raise `TaskError` when the model cannot do the task, or not on several GPUs at once."""
    if task in {"generate", "serve"} and not isinstance(model, TransformersModel):
        raise TaskError(
            f"{model.name!r} cannot generate text",
            f"use a causal language model, such as {models.demo_language_model}",
        )
    if gpus_per_model > 1 and task != "serve":
        raise TaskError(
            f"--gpus-per-model {gpus_per_model} splits the models of servers only",
            "add --task serve with --ttft and --itl, or leave out --gpus-per-model",
        )


DEFAULT_PERCENTILE = 95.0
#: Limits that a form proposes; the command line has no default.
FIRST_TTFT, FIRST_ITL = "500ms", "50ms"
LEAST_PERCENTILE = 50.0
#: Options that only the task `serve` has.
OPTIONS = ("ttft", "itl", "lengths", "rate", "percentile")


def parse_load(
    run_options: RunOptions, task: str, model: Model, catalogue: Catalogue
) -> LoadQuestion | None:
    """Return the load that options ask for; raise `TaskError` if they do not fit the task."""
    given = [name for name in OPTIONS if getattr(run_options, name)]
    if task != "serve":
        if given:
            raise TaskError(
                f"--{given[0]} is about servers, which the task {task} does not measure",
                "add --task serve",
            )
        return None
    missing = [f"--{name}" for name in ("ttft", "itl") if not getattr(run_options, name)]
    if missing:
        raise TaskError(
            f"--task serve needs limits on the latency: {' and '.join(missing)}",
            "add for example --ttft 500ms --itl 50ms",
        )
    if run_options.sandbox:
        raise TaskError(
            "a server in a sandbox without a network cannot be asked anything",
            "leave out --sandbox",
        )
    percentile = run_options.percentile or DEFAULT_PERCENTILE
    if percentile < LEAST_PERCENTILE:
        raise OptionValueError(
            f"--percentile {percentile:g} is out of range",
            f"use a number from {LEAST_PERCENTILE:g} to below 100, such as 95",
        )
    name, lengths = parse_request_lengths(run_options.lengths, catalogue.serving)
    load = LoadQuestion(
        name=name,
        lengths=lengths,
        ttft_seconds=parse_duration("--ttft", run_options.ttft),
        itl_seconds=parse_duration("--itl", run_options.itl),
        share=percentile / 100,
        rate=run_options.rate or None,
    )
    _check_length(load, model)
    return load


def parse_request_lengths(text: str, rules: ServingRules) -> tuple[str, tuple[RequestLengths, ...]]:
    """Return the name of a mix of lengths, or of a file, and the lengths."""
    mixes, name = rules.mixes, text or rules.default_mix
    if name in mixes:
        return name, mixes[name].requests
    example = '{"input_tokens": 512, "output_tokens": 128}'
    advice = f"use one of {', '.join(mixes)}, or a file of JSON lines such as {example}"
    what = f"--lengths {name!r} is neither a known mix nor a file of lengths"
    with reported_as(OptionValueError, what, advice, (OSError, ValueError, RecursionError)):
        lines = pathlib.Path(name).read_bytes().splitlines()
        lengths = tuple(
            msgspec.json.decode(line, type=RequestLengths) for line in lines if line.strip()
        )
    if not lengths:
        raise OptionValueError(f"--lengths {name!r} has no lines", advice)
    return pathlib.Path(name).name, lengths


def _check_length(load: LoadQuestion, model: Model) -> None:
    """Raise `OptionValueError` for requests longer than the model's positions, where known."""
    config = model.config if isinstance(model, TransformersModel) else None
    most = (config or {}).get("max_position_embeddings") or (config or {}).get("n_positions")
    if isinstance(most, int) and load.most_tokens > most:
        raise OptionValueError(
            f"requests of up to {load.most_tokens} tokens do not fit the {most} positions of "
            f"{model.name}",
            "choose shorter ones with --lengths",
        )


MOST_TOKENS = 1 << 20
MIX_EXAMPLE = "write it like 32:70,512:20,2048:10, or 32/16:70,512/128:30 with output lengths"


def choose_lengths(run_options: RunOptions, model: Model, task: Task) -> tuple[Lengths, ...]:
    """Return every pair of an input and an output length, the shortest first.

    Lengths that the mix does not name have no share; without a mix all have the same. Raise
    `OptionValueError`.
    """
    inputs = parse_counts("--input-tokens", run_options.input_tokens)
    outputs = parse_counts("--output-tokens", run_options.output_tokens)
    pairs = [Lengths(input_tokens=one, output_tokens=two) for one in inputs for two in outputs]
    if len(pairs) > 1:
        _check_several(model, task, outputs)
    elif run_options.length_mix:
        raise OptionValueError(
            "--length-mix needs several lengths",
            "add them, such as --input-tokens 32,512,2048, or leave out --length-mix",
        )
    shares = (
        _parse_mix(run_options.length_mix, pairs) if run_options.length_mix else [1.0] * len(pairs)
    )
    total = math.fsum(shares)
    return tuple(
        msgspec.structs.replace(pair, share=share / total)
        for pair, share in zip(pairs, shares, strict=True)
    )


def parse_counts(option: str, text: str, most: int = MOST_TOKENS) -> tuple[int, ...]:
    """Return numbers of tokens, or others, ascending, each once; raise `OptionValueError`."""
    try:
        counts = sorted({int(part) for part in text.split(",")})
    except ValueError as problem:
        raise OptionValueError(
            f"{option} {text!r} is not a list of whole numbers",
            "write it like 16, or 1,16,64 for several",
        ) from problem
    for count in counts:
        if not 1 <= count <= most:
            raise OptionValueError(
                f"{option} {count} is out of range", f"use a whole number from 1 to {most}"
            )
    return tuple(counts)


def _check_several(model: Model, task: Task, outputs: Sequence[int]) -> None:
    """Raise `OptionValueError` where the figures do not depend on the lengths."""
    if task == "serve":
        raise OptionValueError(
            "a server is measured with one mix of request lengths",
            "leave out the lists, and choose the mix with --lengths",
        )
    if isinstance(model, (FactoryModel, ExportedModel)):
        raise OptionValueError(
            f"{model.name!r} has example inputs, and these have one length",
            "ask once for each length, with --inputs or example inputs of this length",
        )
    if task == "forward" and len(outputs) > 1:
        raise OptionValueError(
            "a forward pass generates no text, so output lengths change nothing",
            "list --input-tokens only, or use --task generate with a causal language model",
        )


def takes_tokens(model: Model) -> bool:
    """Return whether the inputs are made with a number of tokens, as far as is known unopened."""
    if isinstance(model, TransformersModel):
        return model.config is None or "vocab_size" in model.config
    return not isinstance(model, (FactoryModel, ExportedModel))


def _parse_mix(text: str, pairs: Sequence[Lengths]) -> list[float]:
    """Return the share of each pair; an input length shares its part among its output lengths."""
    by_name: dict[str, list[Lengths]] = {}
    for pair in pairs:
        by_name.setdefault(f"{pair.input_tokens}", []).append(pair)
    by_name |= {f"{pair.input_tokens}/{pair.output_tokens}": [pair] for pair in pairs}
    shares: dict[Lengths, float] = {}
    for part in text.split(","):
        name, _, number = (each.strip() for each in part.partition(":"))
        share = _parse_share(part, number)
        if name not in by_name:
            raise OptionValueError(
                f"--length-mix names {name!r}, which is not measured", f"use {', '.join(by_name)}"
            )
        if shares.keys() & {*by_name[name]}:
            raise OptionValueError(f"--length-mix names {name!r} twice", "name each length once")
        shares |= dict.fromkeys(by_name[name], share / len(by_name[name]))
    if not any(shares.values()):
        raise OptionValueError("the shares of --length-mix are all 0", MIX_EXAMPLE)
    return [shares.get(pair, 0.0) for pair in pairs]


def _parse_share(part: str, number: str) -> float:
    try:
        share = float(number.removesuffix("%"))
    except ValueError:
        share = -1.0
    if not (math.isfinite(share) and share >= 0):
        raise OptionValueError(
            f"--length-mix has {part!r}, which is not a length with its share", MIX_EXAMPLE
        )
    return share
