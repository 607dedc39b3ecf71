"""Find out which sizes of an output's last dimension are classes or a vocabulary."""

from __future__ import annotations

import torch

#: Names of the layers that return a figure for each class, in transformers and torchvision.
HEADS = {"fc", "head", "heads", "classifier", "lm_head", "score", "logits", "cls"}
#: Fields of a model, or of its configuration, that count classes.
COUNTS = ("vocab_size", "num_labels", "num_classes")


def count_classes(module: torch.nn.Module) -> frozenset[int]:
    """Return the numbers of classes that the model may return, above 1."""
    found = {
        layer.out_features
        for name, layer in module.named_modules()
        if isinstance(layer, torch.nn.Linear) and HEADS.intersection(name.split("."))
    }
    for owner in (module, getattr(module, "config", None)):
        found |= {getattr(owner, name, None) for name in COUNTS}
    return frozenset(count for count in found if isinstance(count, int) and count > 1)
