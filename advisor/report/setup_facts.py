"""What was asked and where it was answered, in words. Pure."""

from __future__ import annotations

from advisor.domain.question import CRITERIA
from advisor.report.document import RunDocument
from advisor.report.table import device_name


def circumstances(document: RunDocument) -> list[tuple[str, str]]:
    """Return what was asked and where it was answered, by name."""
    asked, machine = document.question, document.machine
    gpus = [
        f"{gpu.name}, {gpu.memory_bytes >> 20:,} MiB, driver {gpu.driver}, CUDA {gpu.cuda_driver}"
        for gpu in machine.gpu
    ]
    weights = ", ".join(f"{name} {getattr(asked.priorities, name):g} %" for name in CRITERIA)
    constraints = ", ".join(
        f"{constraint.criterion}>={constraint.at_least}" for constraint in asked.constraints
    )
    return [
        (
            "model",
            f"{asked.model.name}, {asked.task}, {asked.dtype}, {asked.input_tokens} input tokens",
        ),
        ("batch sizes", _sizes(document)),
        ("device", device_name(document)),
        ("weights", weights),
        ("constraints", constraints or "none"),
        ("budget", f"{asked.budget.name}, {asked.budget.measuring_seconds:g} s of measuring"),
        ("seed", str(asked.seed)),
        ("GPUs", "; ".join(gpus) or machine.gpu_problem or "none"),
        (
            "processor",
            f"{machine.cpu.model}, {machine.cpu.physical_cores} cores, {machine.cpu.memory_bytes >> 20:,} MiB",
        ),
        ("kernel", machine.kernel),
        ("Python", f"{machine.software.version}, {_packages(machine.software.packages)}"),
    ]


def _sizes(document: RunDocument) -> str:
    asked = document.question.batch_sizes
    raced = (
        {race.batch_size for race in document.race.by_batch_size} if document.race else set(asked)
    )
    missing = [str(size) for size in asked if size not in raced]
    return ", ".join(map(str, asked)) + (f"; not measured: {', '.join(missing)}" if missing else "")


def _packages(packages: dict[str, str]) -> str:
    return ", ".join(f"{name} {version}" for name, version in sorted(packages.items()))
