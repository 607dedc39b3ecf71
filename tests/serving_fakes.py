"""Servers under load in fakes: queues with a fixed service time, and a fake AIPerf."""

from __future__ import annotations

import pathlib
import shutil
import sysconfig
import venv

import builders

from advisor.ask import rubric_files
from advisor.ask.run_options import RunOptions
from advisor.probing.environments import registry

FAKES = pathlib.Path(__file__).parent / "fakes"


def copy_probes(fake_probes: pathlib.Path, directory: pathlib.Path) -> pathlib.Path:
    """Make the real worker and harness with a fake language model and fake servers."""
    shutil.copytree(fake_probes, directory)
    workflows = directory / "workflows"
    shutil.copytree(FAKES / "serving" / "workflows", workflows, dirs_exist_ok=True)
    shutil.copy(workflows / "faster.py", workflows / "transformers_serve.py")
    return directory


def copy_rubric(fake_rubric: pathlib.Path, directory: pathlib.Path) -> pathlib.Path:
    """Make the fake rubric with servers and short blocks."""
    shutil.copytree(fake_rubric, directory)
    with (directory / "workflows.toml").open("a") as file:
        file.write((FAKES / "serving" / "workflows.toml").read_text())
    shorten(
        directory / "accuracy.toml",
        ("\ncalls = 30", "\ncalls = 3"),
        ("most_seconds = 1.0", "most_seconds = 0.3"),
    )
    shorten(
        directory / "serving.toml",
        ("quick = 10.0", "quick = 1.0"),
        ("least_ttfts = 20", "least_ttfts = 2"),
        ("least_misses = 1", "least_misses = 0.2"),
        ("gap_seconds = 2.0", "gap_seconds = 0.1"),
        ("closed_loop_concurrencies = [1, 4, 16, 64]", "closed_loop_concurrencies = [1, 4]"),
        ("closed_loop_seconds = 2.0", "closed_loop_seconds = 0.2"),
        # A busy machine delays single requests.
        ("closed_loop_gain = 1.3", "closed_loop_gain = 3.0"),
        ("ladder = [0.4, 0.6, 0.8, 1.0]", "ladder = [0.5, 1.0]"),
        ("most_blocks = 8", "most_blocks = 2"),
        ("most_block_seconds = 45.0", "most_block_seconds = 1.5"),
        # A busy machine sends requests late; the fake generator has its own delay.
        ("late_share = 0.1", "late_share = 0.8"),
        ("far_below = 2.0", "far_below = 0.3"),
        ("sampled_share = 0.04", "sampled_share = 0.1"),
        ("repeat_rates = [0.5, 0.8, 0.9, 1.0]", "repeat_rates = [0.8]"),
        ("request_seconds = 60.0", "request_seconds = 20.0"),
    )
    return directory


def shorten(file: pathlib.Path, *changes: tuple[str, str]) -> None:
    """Replace values of a TOML file, each of which it has."""
    text = file.read_text()
    for long, short in changes:
        assert long in text
        text = text.replace(long, short)
    file.write_text(text)


def make_generator(home: pathlib.Path, rubric: pathlib.Path, probes: pathlib.Path) -> None:
    """Make the environment `aiperf` of a directory of runs, with the fake AIPerf."""
    environments = home / "environments"
    known = rubric_files.load(rubric, probes=probes)
    environment = registry.own_environments(known.workflows)["aiperf"]
    digest = registry.environment_digest(environment, registry.lock_file(rubric, "aiperf"))
    directory = registry.environment_directory(environments, "aiperf", digest)
    venv.create(directory, symlinks=True)
    base = {"base": str(directory), "platbase": str(directory)}
    package = pathlib.Path(sysconfig.get_path("purelib", vars=base)) / "aiperf"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    shutil.copy(FAKES / "serving" / "aiperf_main.py", package / "__main__.py")
    builders.write_creation_record(directory, digest)


def write_lengths(home: pathlib.Path) -> str:
    """Return the file with the lengths of requests, which it writes."""
    file = home / "lengths.jsonl"
    file.write_text('{"input_tokens": 4, "output_tokens": 3}\n')
    return str(file)


def ask(lengths: str, workflows: str, rate: float = 0.0, budget: str = "quick") -> RunOptions:
    return RunOptions(
        task="serve",
        model="demo/llama",
        gpu="cpu",
        dtype="float32",
        ttft="300ms",
        itl="200ms",
        lengths=lengths,
        batch_sizes="1",
        input_tokens="4",
        output_tokens="3",
        workflows=workflows,
        rate=rate,
        budget=budget,
    )
