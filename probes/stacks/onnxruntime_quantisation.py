"""Quantise an ONNX file with ONNX Runtime's tools, and read the stored weights of the result."""

from __future__ import annotations

import collections
import contextlib
import math
import os
import pathlib
import re
from collections.abc import Iterator
from typing import Any

import onnx

from probes.adapter import Engagement, Request, stored_weights_engagement
from probes.files import replace_when_complete
from probes.subjects.onnx_file import item_bytes

#: Operators whose weights become INT8. Convolutions do not: ONNX Runtime's guide recommends dynamic
#: quantisation for recurrent networks and transformers.
DYNAMIC_OPERATORS = ["MatMul", "Gather"]
#: Weights that share a scale in the 4-bit format.
BLOCK = 32
#: The least exact level of `MatMulNBits`: it also rounds the activations to 8 bits.
ACCURACY_LEVEL = 4
#: Operators that multiply by a weight, and those of them whose weight is quantised.
PRODUCTS = {"MatMul", "Gemm", "Conv", "ConvTranspose"}
QUANTISED_PRODUCTS = {"MatMulInteger", "MatMulNBits"}
QUANTISED_OPERATORS = (*sorted(QUANTISED_PRODUCTS), "DynamicQuantizeLinear")


def quantise(file: pathlib.Path, weights: str, request: Request) -> pathlib.Path:
    """Return `file` with weights in the format `int8` or `int4`, written if it does not exist."""
    folder = pathlib.Path(request.scratch_directory) / f"{weights}-{file.parent.name}"
    if not folder.exists():
        with replace_when_complete(folder) as directory:
            directory.mkdir(parents=True)
            model = onnx.load(file)
            with working_directory(directory):
                write_quantised(model, weights, directory / file.name)
    return folder / file.name


@contextlib.contextmanager
def working_directory(directory: pathlib.Path) -> Iterator[None]:
    """Work in `directory`: onnx writes no weights if the present one has a file of their name."""
    before = pathlib.Path.cwd()
    os.chdir(directory)
    try:
        yield
    finally:
        os.chdir(before)


def write_quantised(model: Any, weights: str, file: pathlib.Path) -> None:
    # Native arms do not need these.
    from onnxruntime.quantization import QuantType, quantize_dynamic  # noqa: PLC0415
    from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer  # noqa: PLC0415
    from onnxruntime.quantization.onnx_model import ONNXModel  # noqa: PLC0415

    if weights == "int8":
        quantize_dynamic(
            model,
            file,
            op_types_to_quantize=DYNAMIC_OPERATORS,
            per_channel=True,
            weight_type=QuantType.QInt8,
            reduce_range=sums_saturate(),
            use_external_data_format=True,
        )
        return
    converted = ONNXModel(model)
    converted.replace_gemm_with_matmul()
    quantiser = MatMulNBitsQuantizer(
        converted.model, block_size=BLOCK, is_symmetric=True, accuracy_level=ACCURACY_LEVEL
    )
    quantiser.process()
    quantiser.model.save_model_to_file(file, use_external_data_format=True)


def sums_saturate(processors: pathlib.Path = pathlib.Path("/proc/cpuinfo")) -> bool:
    """Return whether sums of INT8 products overflow on these processors: AVX2 without VNNI.

    Weights of 7 bits avoid it. Source:
    https://onnxruntime.ai/docs/performance/model-optimizations/quantization.html
    """
    flags = re.search(r"^flags\s*:(.*)$", processors.read_text(), re.MULTILINE)
    names = flags[1].split() if flags else []
    return "avx2" in names and not any(name.endswith("vnni") for name in names)


def count_nodes(session: Any) -> tuple[collections.Counter[str], collections.Counter[str]]:
    """Count the nodes of a session by provider, and by operator."""
    providers, operators = collections.Counter[str](), collections.Counter[str]()
    for part in session.get_provider_graph_assignment_info():
        providers[part.ep_name] += len(part.get_nodes())
        operators.update(node.op_type for node in part.get_nodes())
    return providers, operators


def engagement(file: pathlib.Path, placed: collections.Counter[str]) -> Engagement:
    """Return the share of quantised weights; 0 if `placed` counts no operator that takes them."""
    graph = onnx.load(file, load_external_data=False).graph
    stored = {tensor.name: tensor for tensor in graph.initializer}
    elements: collections.Counter[str] = collections.Counter()
    for node in graph.node:
        if node.op_type in PRODUCTS | QUANTISED_PRODUCTS and node.input[1] in stored:
            kind = onnx.TensorProto.DataType.Name(stored[node.input[1]].data_type)
            sizes = {attribute.name: attribute.i for attribute in node.attribute}
            # It stores several weights in one byte.
            is_packed = node.op_type == "MatMulNBits"
            dimensions = [sizes["K"], sizes["N"]] if is_packed else stored[node.input[1]].dims
            elements[f"{node.op_type} {kind}"] += math.prod(dimensions)
    quantised = sum(
        count for name, count in elements.items() if name.split()[0] in QUANTISED_PRODUCTS
    )
    runs = {name: placed[name] for name in QUANTISED_OPERATORS if placed[name]}
    is_run = bool(QUANTISED_PRODUCTS & {*runs})
    share = quantised / elements.total() if is_run and elements.total() else 0.0
    operators = ", ".join(f"{count} {name}" for name, count in runs.items()) or "none of them"
    weight_bytes = sum(
        math.prod(tensor.dims) * item_bytes(tensor.data_type) for tensor in graph.initializer
    )
    described = "the weights of matrix products are quantised"
    note = f"; of the quantised operators the session runs {operators}"
    return stored_weights_engagement(elements, share, described, weight_bytes, note)


def integration(weights: str, file: str) -> str:
    """Return lines that write `quantised.onnx`; `onnx` refuses to overwrite its data."""
    if weights == "int8":
        reduced = ", reduce_range=True" if sums_saturate() else ""
        return f"""\
import pathlib
from onnxruntime.quantization import QuantType, quantize_dynamic

pathlib.Path("quantised.onnx.data").unlink(missing_ok=True)
quantize_dynamic({file}, "quantised.onnx", op_types_to_quantize={DYNAMIC_OPERATORS}, per_channel=True, weight_type=QuantType.QInt8{reduced}, use_external_data_format=True)
""".replace("'", '"')  # noqa: E501 - the lines are counted, so they are not wrapped
    return f"""\
import pathlib
import onnx
from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer
from onnxruntime.quantization.onnx_model import ONNXModel

converted = ONNXModel(onnx.load({file}))
converted.replace_gemm_with_matmul()
quantiser = MatMulNBitsQuantizer(converted.model, block_size={BLOCK}, is_symmetric=True, accuracy_level={ACCURACY_LEVEL})
quantiser.process()
pathlib.Path("quantised.onnx.data").unlink(missing_ok=True)
quantiser.model.save_model_to_file("quantised.onnx", use_external_data_format=True)
"""  # noqa: E501 - as above
