"""Give all workers the weights of the worker that opened the model first."""

from __future__ import annotations

import pathlib

import torch
from safetensors.torch import load_file, load_model, save_model

from probes.partial_file import replace_when_complete

#: Suffix of the file of a model that safetensors cannot hold.
OTHER_SUFFIX = ".pt"
#: Suffix of the file with the buffers that are not in the state of the module.
BUFFERS_SUFFIX = ".buffers.pt"


def share(module: torch.nn.Module, file: pathlib.Path, device: str) -> None:
    """Load the weights from `file`, or save them there if it does not exist.

    The reference worker runs first and saves them. safetensors holds dense tensors only, so a model
    with others, or with views of them, has a file of PyTorch's next to it.
    """
    _share_other_buffers(module, file.with_suffix(BUFFERS_SUFFIX))
    if not _is_dense(module):
        _share_any(module, file.with_suffix(OTHER_SUFFIX))
    elif not file.exists():
        with replace_when_complete(file) as partial:
            save_model(module, str(partial))
    elif any(parameter.is_meta for parameter in module.parameters()):
        module.load_state_dict(load_file(file, device=device), assign=True)
    else:
        load_model(module, file, device="cpu")


def _is_dense(module: torch.nn.Module) -> bool:
    """Return whether each tensor is a dense one, the only view of all its bytes or equal to it.

    For example, `torch.hann_window` returns a part of a longer tensor.
    """
    return all(
        isinstance(value, torch.Tensor)
        and value.layout is torch.strided
        and not value.is_quantized
        and not value.is_nested
        and (value.is_meta or _fills_its_storage(value))
        for value in module.state_dict().values()
    )


def _fills_its_storage(value: torch.Tensor) -> bool:
    return value.is_contiguous() and bool(value.untyped_storage().nbytes() == value.nbytes)


def _share_any(module: torch.nn.Module, file: pathlib.Path) -> None:
    if file.exists():
        module.load_state_dict(torch.load(file, map_location="cpu", weights_only=True))
        return
    with replace_when_complete(file) as partial:
        torch.save(module.state_dict(), partial)


def _share_other_buffers(module: torch.nn.Module, file: pathlib.Path) -> None:
    """Share the buffers that are registered with `persistent=False`, which may be random."""
    state = module.state_dict()
    buffers = {name: value for name, value in module.named_buffers() if name not in state}
    if not buffers:
        return
    if not file.exists():
        with replace_when_complete(file) as partial:
            torch.save(buffers, partial)
        return
    for name, saved in torch.load(file, map_location="cpu", weights_only=True).items():
        buffers[name].copy_(saved)
