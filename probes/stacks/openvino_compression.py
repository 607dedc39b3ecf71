"""Compress a model's weights with NNCF, and read which weights a compiled model multiplies with."""

from __future__ import annotations

import collections
import math
from typing import Any

from probes.adapter import Engagement

#: NNCF's mode of each format. Weights that it does not compress to 4 bits have 8.
MODES = {"int8": "INT8_SYM", "int4": "INT4_SYM"}
#: Weights that share a scale in the 4-bit format.
GROUP = 64
#: Layers of a compiled model that multiply by weights, and types of compressed weights.
PRODUCTS = {"FullyConnected", "MatMul", "Convolution"}
COMPRESSED = {"i8", "u8", "i4", "u4"}


def compress(model: Any, weights: str) -> Any:
    import nncf  # noqa: PLC0415 - native arms do not need it

    grouping = {"group_size": GROUP} if weights == "int4" else {}
    mode = getattr(nncf.CompressWeightsMode, MODES[weights])
    return nncf.compress_weights(model, mode=mode, **grouping)


def count_weight_bytes(model: Any) -> int:
    return sum(
        math.ceil(math.prod(node.get_output_shape(0)) * node.get_element_type().bitwidth / 8)
        for node in model.get_ops()
        if node.get_type_name() == "Constant"
    )


def engagement(compiled: Any, weight_bytes: int) -> Engagement:
    """Return the share of the elements of the compiled model's weights that are compressed.

    `weight_bytes` is what `count_weight_bytes` returned for the model that was compiled.
    """
    elements: collections.Counter[str] = collections.Counter()
    products: collections.Counter[str] = collections.Counter()
    for node in compiled.get_runtime_model().get_ops():
        information = node.get_rt_info()
        if information["layerType"].value in PRODUCTS and node.get_input_size() > 1:
            weight = node.input_value(1).get_node()
            if weight.get_rt_info()["layerType"].value == "Const":
                kind = weight.get_rt_info()["outputPrecisions"].value
                elements[kind] += math.prod(weight.get_output_shape(0))
                products[information["runtimePrecision"].value] += 1
    total = elements.total()
    share = sum(elements[kind] for kind in COMPRESSED) / total if total else 0.0
    kinds = ", ".join(f"{kind} {count:,}" for kind, count in elements.most_common())
    layers = ", ".join(f"{count} in {kind}" for kind, count in products.most_common())
    return Engagement(
        share,
        f"{share * 100:.0f} % of the weights of the compiled model's products are compressed, "
        "by elements: "
        f"{kinds or 'there are none'}; its layers with weights run {layers or 'nowhere'}",
        {"weights": dict(elements), "layers": dict(products)},
        weight_bytes,
    )


def integration(model: str, weights: str) -> str:
    """Return the expression that compresses the converted model of the expression `model`."""
    grouping = f", group_size={GROUP}" if weights == "int4" else ""
    return (
        f"nncf.compress_weights({model}, mode=nncf.CompressWeightsMode.{MODES[weights]}{grouping})"
    )
