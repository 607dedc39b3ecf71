"""Give all workers the weights of the worker that opened the model first."""

from __future__ import annotations

import pathlib

import torch
from safetensors.torch import load_file, load_model, save_model

from probes.partial_file import replace_when_complete

#: Suffix of the file of a model that safetensors cannot hold.
OTHER_SUFFIX = ".pt"


def share(module: torch.nn.Module, file: pathlib.Path, device: str) -> None:
    """Load the weights from `file`, or save them there if it does not exist.

    The reference worker runs first and saves them. safetensors holds dense tensors only, so a model
    with sparse or quantised ones has a file of PyTorch's next to it.
    """
    if not _is_dense(module):
        _share_any(module, file.with_suffix(OTHER_SUFFIX))
    elif not file.exists():
        with replace_when_complete(file) as partial:
            save_model(module, str(partial))
    elif next(module.parameters()).is_meta:
        module.load_state_dict(load_file(file, device=device), assign=True)
    else:
        load_model(module, file, device=str(next(module.parameters()).device))


def _is_dense(module: torch.nn.Module) -> bool:
    return all(
        isinstance(value, torch.Tensor)
        and value.layout is torch.strided
        and not value.is_quantized
        and not value.is_nested
        for value in module.state_dict().values()
    )


def _share_any(module: torch.nn.Module, file: pathlib.Path) -> None:
    if file.exists():
        module.load_state_dict(torch.load(file, map_location="cpu", weights_only=True))
        return
    with replace_when_complete(file) as partial:
        torch.save(module.state_dict(), partial)
