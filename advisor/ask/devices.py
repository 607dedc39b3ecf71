"""`--gpu`: choose the device to measure on."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from advisor.domain import errors
from advisor.domain.catalogue import Catalogue
from advisor.domain.machine import Gpu, Machine

CPU = "cpu"
#: Why no GPU of a machine can be used: it has none, or its torch is a CPU build.
NoGpuReason = Literal["no-gpu", "cpu-build"]
VISIBLE_DEVICES = "CUDA_VISIBLE_DEVICES"
#: How PyTorch names GPUs by their number; without one it is the first.
PYTORCH_NAME = re.compile(r"(?:cuda|gpu)(?::(\d+))?")
WHOLE_GPUS_ONLY = "memory, clocks and power can be read for whole GPUs only"


def find_no_gpu_reason(machine: Machine) -> NoGpuReason | None:
    if not machine.gpus:
        return "no-gpu"
    return None if machine.software.torch_cuda is not None else "cpu-build"


def choose_gpu(
    text: str, machine: Machine, catalogue: Catalogue, visible_devices: str | None = None
) -> Gpu | None:
    """Return the GPU to measure on; None for the CPU.

    `visible_devices` is the value of `CUDA_VISIBLE_DEVICES`; it counts when `text` is empty.
    """
    no_gpu_reason = find_no_gpu_reason(machine)
    asked, text = text, _index_of(text, visible_gpus(machine.gpus, visible_devices))
    if text == CPU or (not text and no_gpu_reason is not None):
        return None
    reject_mig_instance(text)
    if not text:
        return choose_visible_gpu(machine.gpus, visible_devices)
    matches = [gpu for gpu in machine.gpus if text in {str(gpu.index), gpu.uuid}] or [
        gpu for gpu in machine.gpus if matches_name(gpu.name, text)
    ]
    if not matches:
        raise _not_attached(asked, machine, catalogue)
    if no_gpu_reason == "cpu-build":
        raise errors.NoStackError(
            f"torch in {machine.software.executable} is built without CUDA",
            "install a CUDA build of torch, or name another interpreter with --python",
        )
    return first_whole_gpu(matches)


def _index_of(text: str, visible: Sequence[Gpu]) -> str:
    """Return the index that `cuda` or `cuda:0` of PyTorch stands for; other names as they are."""
    named = PYTORCH_NAME.fullmatch(text.lower())
    if named is None:
        return CPU if text.lower() == CPU else text
    number = int(named[1] or 0)
    return str(visible[number].index if number < len(visible) else number)


def choose_visible_gpu(gpus: Sequence[Gpu], visible_devices: str | None) -> Gpu | None:
    """Return the first whole GPU that CUDA sees with this value; None when it sees no GPU."""
    reject_mig_instance(visible_devices or "")
    visible = visible_gpus(gpus, visible_devices)
    return first_whole_gpu(visible) if visible else None


def visible_gpus(gpus: Sequence[Gpu], visible_devices: str | None) -> list[Gpu]:
    """Return the GPUs that CUDA sees with this value, in its order."""
    visible = list(gpus) if visible_devices is None else []
    for name in map(str.strip, visible_devices.split(",") if visible_devices else ()):
        matches = [
            gpu
            for gpu in gpus
            if name == str(gpu.index) or (name.startswith("GPU-") and gpu.uuid.startswith(name))
        ]
        if not matches:
            break  # CUDA ignores the entries after an invalid one, such as -1
        visible.append(matches[0])
    return visible


def choose_further_gpus(
    gpu: Gpu | None, count: int, machine: Machine, visible_devices: str | None
) -> tuple[str, ...]:
    """Return the UUIDs of the GPUs that share each model with `gpu`, `count` GPUs in all.

    They have the same name, no MIG instances, and are visible. Raise `GpuNotAttachedError` where
    there are too few.
    """
    if count == 1:
        return ()
    if gpu is None:
        raise errors.GpuNotAttachedError(
            f"--gpus-per-model {count} needs {count} GPUs, and the run is on the CPU",
            "leave out --gpus-per-model, or run p3-advisor on a machine with GPUs",
        )
    others = [
        each.uuid
        for each in visible_gpus(machine.gpus, visible_devices)
        if each.name == gpu.name and each.uuid != gpu.uuid and not each.mig
    ]
    if len(others) < count - 1:
        raise errors.GpuNotAttachedError(
            f"--gpus-per-model {count} needs {count} whole GPUs like the {gpu.name}, "
            f"and {len(others) + 1} can be used",
            f"use --gpus-per-model {len(others) + 1}, or a machine with more of them",
        )
    return tuple(others[: count - 1])


def reject_mig_instance(name: str) -> None:
    if name.startswith("MIG-"):
        raise errors.MigEnabledError(
            f"{name} is a MIG instance, and {WHOLE_GPUS_ONLY}",
            "name a whole GPU, or cpu, with --gpu",
        )


def first_whole_gpu(gpus: Sequence[Gpu]) -> Gpu:
    """Return the first GPU without MIG; raise `MigEnabledError` when there is none."""
    whole = next((gpu for gpu in gpus if not gpu.mig), None)
    if whole is None:
        raise errors.MigEnabledError(
            f"the {gpus[0].name} with index {gpus[0].index} is partitioned into MIG instances, and "
            f"{WHOLE_GPUS_ONLY}",
            "disable MIG, or name another GPU, or cpu, with --gpu",
        )
    return whole


def find_known_gpu(text: str, catalogue: Catalogue) -> str | None:
    return next(
        (name for name in catalogue.gpus if matches_name(text, name) or matches_name(name, text)),
        None,
    )


def _not_attached(
    text: str, machine: Machine, catalogue: Catalogue
) -> errors.GpuNotAttachedError | errors.UnknownGpuError:
    attached = ", ".join(f"{gpu.index} {gpu.name}" for gpu in machine.gpus) or "none"
    catalogue_name = find_known_gpu(text, catalogue)
    if named := PYTORCH_NAME.fullmatch(text.lower()):
        number = int(named[1] or 0)
        meant = f"GPU {number}" if number else "the first GPU"
        return errors.GpuNotAttachedError(
            f"{text} means {meant}, which is not attached; attached: {attached}",
            "use cpu, or run p3-advisor on a machine that has this GPU",
        )
    if catalogue_name is None:
        known = [CPU, *(str(gpu.index) for gpu in machine.gpus), *catalogue.gpus]
        return errors.UnknownGpuError(
            f"unknown GPU {text!r}; attached: {attached}", errors.choose_among(text, known)
        )
    return errors.GpuNotAttachedError(
        f"the {catalogue_name} is not attached (attached: {attached}), and no run on one is stored",
        "run p3-advisor on a machine that has one, then use export-run and import-run",
    )


def matches_name(device: str, text: str) -> bool:
    """Return whether the words of `text` occur whole and in this order in the device's name.

    `RTX 4090` matches `NVIDIA GeForce RTX 4090`; `1`, which is an index, does not match `H100`.
    """
    words = r"\W+(?:\w+\W+)*?".join(map(re.escape, text.split()))
    return bool(words) and re.search(rf"(?<!\w){words}(?!\w)", device, re.IGNORECASE) is not None
