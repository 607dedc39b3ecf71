"""Configure OpenVINO, compress weights with NNCF, and read back what a compiled model is.

That are its precision, its threads and the weights that it multiplies with.
"""

from __future__ import annotations

import collections
import math
import pathlib
from typing import Any

import openvino

from probes.adapter import Engagement, Request, stored_weights_engagement
from probes.stacks import pytorch

#: OpenVINO's name of each precision. Without this hint it computes float32 models in bfloat16 on a
#: CPU that has instructions for it.
PRECISION_HINTS = {"float32": "f32", "float16": "f16", "bfloat16": "bf16"}

#: Layers of a compiled model that hold or pass data and compute nothing.
DATA_LAYERS = {"Const", "Input", "Output"}


def versions() -> dict[str, str]:
    """Return the versions of OpenVINO, torch and `packaging`, an undeclared import of OpenVINO."""
    return {"openvino": openvino.__version__, **pytorch.versions("packaging")}


def settings(request: Request) -> dict[str, str]:
    return {
        **pytorch.apply_settings(request),
        "inference_num_threads": str(request.threads),
        "performance_hint": "LATENCY",
    }


def configuration(dtype: str, request: Request) -> dict[str, str]:
    return {
        "INFERENCE_PRECISION_HINT": PRECISION_HINTS[dtype],
        "INFERENCE_NUM_THREADS": str(request.threads),
        "PERFORMANCE_HINT": "LATENCY",
        # For later processes of this arm.
        "CACHE_DIR": str(pathlib.Path(request.scratch_directory) / "cache" / "openvino"),
    }


def describe_compiled(compiled: Any) -> dict[str, Any]:
    layers: collections.Counter[str] = collections.Counter()
    for operation in compiled.get_runtime_model().get_ops():
        layers[operation.get_rt_info()["layerType"].value] += 1
    return {
        "devices": list(compiled.get_property("EXECUTION_DEVICES")),
        "threads": int(compiled.get_property("INFERENCE_NUM_THREADS")),
        "inference_precision": compiled.get_property("INFERENCE_PRECISION_HINT").get_type_name(),
        "layers": {kind: number for kind, number in layers.items() if kind not in DATA_LAYERS},
    }


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


def weights_engagement(compiled: Any, weight_bytes: int) -> Engagement:
    """Return the share of quantised weights.

    `weight_bytes` is the result of `count_weight_bytes` for the model that was compiled.
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
    layers = ", ".join(f"{count} in {kind}" for kind, count in products.most_common())
    described = "the weights of the compiled model's products are compressed"
    note = f"; its layers with weights run {layers or 'nowhere'}"
    return stored_weights_engagement(elements, share, described, weight_bytes, note)


def conversion(model: str, request: Request) -> tuple[str, str]:
    """Return the expression that converts, and compresses, `model`, with the import it needs."""
    converted = f"openvino.convert_model({model})"
    weights = request.options.get("weights")
    if not weights:
        return converted, ""
    grouping = f", group_size={GROUP}" if weights == "int4" else ""
    mode = f"nncf.CompressWeightsMode.{MODES[weights]}"
    return f"nncf.compress_weights({converted}, mode={mode}{grouping})", "import nncf\n"
