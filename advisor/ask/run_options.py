"""The options: flags, their help, forms of the screens and the schema derive from these fields."""

from __future__ import annotations

import functools
from typing import Annotated, Literal

import msgspec

from advisor.domain.constraints import EXAMPLES
from advisor.domain.question import write_command


def _option(
    section: str, description: str, value: str | None = None, **limits: float
) -> msgspec.Meta:
    """Describe an option; `value` is what the help calls its value."""
    meta = {"description": description, "extra": {"section": section, "value": value}}
    return msgspec.Meta(**meta, **limits)  # type: ignore[call-overload,no-any-return]


#: Options by the section of the help that they are in, in the order of the sections.
_model = functools.partial(_option, "Model")
_measured = functools.partial(_option, "What is measured")
_device = functools.partial(_option, "Devices")
_wish = functools.partial(_option, "Priorities and constraints")
_accuracy = functools.partial(_option, "Accuracy and quantised weights")
_load = functools.partial(_option, "Servers under load")
_time = functools.partial(_option, "Time")

#: What other programs call the dtypes.
DTYPE_SPELLINGS = {
    **dict.fromkeys(("fp32", "f32", "float"), "float32"),
    **dict.fromkeys(("fp16", "f16", "half"), "float16"),
    "bf16": "bfloat16",
}
#: Precisions that a model can have, which only `auto` measures.
OWN_DTYPES = {"float64", "fp64", "f64", "double"}
#: What other programs call options.
FURTHER_NAMES = {"device": "gpu", "precision": "dtype"}


class RunOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The options of a question, as the user gives them."""

    model: Annotated[
        str,
        _model(
            "demo, synthetic/BLOCK[@FAMILY|@HxI[xL]], a Hugging Face name, a local "
            "directory, package.module:factory, file.py:factory, a .pt2 or an .onnx file",
            "MODEL",
        ),
    ] = "demo"
    inputs: Annotated[
        str,
        _model(
            "inputs of a factory, a .pt2 or an .onnx file: an .npz file with an array "
            "for each input, by its name or in their order, or file.py:function, which returns a "
            "tensor, a tuple or a dictionary; default: like the example inputs, or random",
            "FILE",
        ),
    ] = ""
    weights_from: Annotated[
        str,
        _model(
            "weights of a model of transformers: random, hub, or a directory with "
            "safetensors; default: the weights of the model's directory, else random",
            "SOURCE",
        ),
    ] = ""
    offline: Annotated[bool, _model("never download from a model hub")] = False
    trust_remote_code: Annotated[bool, _model("execute code from the model's files")] = False
    allow_pickle: Annotated[bool, _model("load weights from pickle files")] = False
    sandbox: Annotated[
        bool,
        _model(
            "confine the workers: no network, and no file written outside the run; "
            "for models that are not trusted"
        ),
    ] = False
    max_open_seconds: Annotated[
        float,
        _model(
            "time limit in seconds for opening the model in one worker; "
            "0 means the deadline in rubric/presets.toml",
            ge=0,
        ),
    ] = 0.0
    task: Annotated[
        Literal["auto", "forward", "generate", "serve"],
        _measured(
            "forward: one pass over the inputs; generate: text from a causal "
            "language model, token by token; serve: requests to a server of each engine, with "
            "limits on their latency; auto: generate for a causal language model"
        ),
    ] = "auto"
    dtype: Annotated[
        Literal["auto", "float32", "float16", "bfloat16"],
        _measured(
            "dtype of weights and inputs; auto: the model's own for .pt2, .onnx and "
            "factories, else float32 on the CPU and the catalogue's dtype or bfloat16 on a GPU"
        ),
    ] = "auto"
    batch_sizes: Annotated[
        str,
        _measured(
            "batch sizes to measure, such as 2,8; default: 1,16; on a CPU and for the small "
            "language models 1,4, and for demo on a GPU 1,256; the fixed size of a file that has "
            "one; for other models with example inputs the size of these inputs, or 1",
            "SIZES",
        ),
    ] = ""
    input_tokens: Annotated[
        str,
        _measured(
            "tokens of each input; several, such as 32,512,2048, are measured in one "
            "run, with an answer for their mix"
        ),
    ] = "32"
    output_tokens: Annotated[
        str,
        _measured("tokens generated for each input; several are measured with every input length"),
    ] = "32"
    length_mix: Annotated[
        str,
        _measured(
            "with several lengths: the share of each in percent, such as "
            "32:70,512:20,2048:10, or 32/16:70 with the output; default: equal shares"
        ),
    ] = ""
    workflows: Annotated[
        str,
        _measured(
            "limit the plan to these workflows or arms, separated by commas, such as"
            " aotinductor,torch-compile-inductor/max-autotune; WORKFLOW/default is its first arm"
            " alone",
            "NAMES",
        ),
    ] = ""
    leave_out: Annotated[
        str,
        _measured(
            "plan none of these workflows or arms, written as in --workflows; the others are "
            "measured as without this option",
            "NAMES",
        ),
    ] = ""
    python: Annotated[
        str,
        _measured("interpreter that has the stacks; default: the one that runs p3-advisor", "PATH"),
    ] = ""
    seed: Annotated[
        int, _measured("seed of weights, inputs and the order of visits", ge=0, le=(1 << 63) - 1)
    ] = 0
    gpu: Annotated[
        str,
        _device(
            "index, UUID or name of the GPU, or cpu; default: the first GPU, else cpu", "DEVICE"
        ),
    ] = ""
    price_per_hour: Annotated[
        float, _device("price of one device per hour, for the cost of serving; 0 means none", ge=0)
    ] = 0.0
    priority: Annotated[
        str,
        _wish(
            "weights of the three Ps that sum to 100, such as "
            "performance=60,productivity=25,portability=15; default: those of --preset",
            "WEIGHTS",
        ),
    ] = ""
    preset: Annotated[
        str,
        _wish(
            "named priorities: balanced, serving (mostly performance), research "
            "(mostly productivity) or multi-vendor (mostly portability); default: balanced",
            "NAME",
        ),
    ] = ""
    require: Annotated[
        str,
        _wish(
            "constraints on the recommended workflow, separated by commas, letters and figures: "
            + ", ".join(f'"{each}"' for each in EXAMPLES)
            + "; accuracy as a letter limits what is lost of a trained model, and measures "
            "quantised arms too",
            "CONSTRAINTS",
        ),
    ] = ""
    requests: Annotated[
        int,
        _wish(
            "number of requests to serve: the answer names the arm that serves them "
            "first, builds included, and builds that cannot pay off are left out; 0 means unknown",
            ge=0,
            # JSON readers keep whole numbers up to this one exact.
            le=1 << 53,
        ),
    ] = 0
    rubric: Annotated[str, _wish("a file that replaces the shipped criteria.toml", "FILE")] = ""
    accuracy: Annotated[
        str,
        _accuracy(
            "largest relative error of an arm that is ranked although it is less "
            "exact than eager PyTorch: a number such as 1e-3 or 1%, or exact to rank exact arms "
            "only; default: 1e-2; quantised arms are exempt",
            "ERROR",
        ),
    ] = ""
    quantised: Annotated[
        str,
        _accuracy(
            "measure arms with quantised weights as well: int8, int4, fp8, several of "
            "them separated by commas, or any; default: none",
            "FORMATS",
        ),
    ] = ""
    data: Annotated[
        str,
        _accuracy(
            "JSON Lines file of the texts on which the loss of quantised arms is "
            'measured; a line is {"prompt": "...", "continuation": "..."} or {"tokens": [...]}; '
            "default: texts that the model writes",
            "FILE",
        ),
    ] = ""
    metric: Annotated[
        str,
        _accuracy(
            "your metric of a trained model, as file.py:function: it is called with "
            "each measured model, which takes and returns numpy arrays, and returns a number; "
            "larger is better",
            "FILE:FUNCTION",
        ),
    ] = ""
    ttft: Annotated[
        str,
        _load("with --task serve: limit of the time to the first token, such as 500ms", "DURATION"),
    ] = ""
    itl: Annotated[
        str,
        _load(
            "with --task serve: limit of the mean time between the later tokens of a "
            "request, such as 50ms",
            "DURATION",
        ),
    ] = ""
    percentile: Annotated[
        float,
        _load(
            "with --task serve: percentage of the requests that have to meet both "
            "limits; 0 means 95",
            ge=0,
            lt=100,
        ),
    ] = 0.0
    lengths: Annotated[
        str,
        _load(
            "with --task serve: lengths of the requests: chat, code, sharegpt, "
            "instruct, rag, or a file of JSON lines with input_tokens and output_tokens; "
            "default: chat",
            "MIX",
        ),
    ] = ""
    rate: Annotated[
        float,
        _load(
            "with --task serve: requests per second for which the answer has the "
            "number of servers; 0 means none",
            ge=0,
        ),
    ] = 0.0
    gpus_per_model: Annotated[
        int,
        _load(
            "with --task serve: number of equal GPUs over which each server splits the "
            "model (tensor parallelism); servers that cannot are not measured then",
            ge=1,
            le=64,
        ),
    ] = 1
    budget: Annotated[
        str,
        _time(
            "how much the run measures: quick, or standard with more repetitions, or a duration "
            "such as 120s or 5min; these limit its time, builds included, or twice that until two "
            "workflows can be compared; thorough repeats more and gate every arm, for compare, "
            "both without a limit; default: quick",
            "BUDGET",
        ),
    ] = ""
    cold_start: Annotated[
        bool,
        _time(
            "also start the leaders in new processes with empty caches, by every way that their"
            " stacks offer, until the first reply; takes minutes more"
        ),
    ] = False
    all_arms: Annotated[
        bool,
        _time(
            "measure every arm, however long its build takes; default: the run ends with its budget"
        ),
    ] = False
    wait_for_quiet: Annotated[
        str,
        _time(
            "wait up to this long until nothing else uses the processors and the "
            "GPU, such as 90s or 5min; default: measure at once and warn",
            "DURATION",
        ),
    ] = ""
    max_build_seconds: Annotated[
        float, _time("time limit in seconds for the build of one batch size", gt=0)
    ] = 600.0
    max_build_times: Annotated[
        str,
        _time(
            "time limits for the builds of single workflows, such as "
            '"tensorrt=1h,torch-tensorrt=30min"; the others keep --max-build-seconds',
            "LIMITS",
        ),
    ] = ""


def given_options(run_options: RunOptions) -> dict[str, str | bool | int | float]:
    """Return the model, and the options that differ from their defaults."""
    values = {
        field.encode_name: getattr(run_options, field.name)
        for field in msgspec.structs.fields(RunOptions)
        if getattr(run_options, field.name) != field.default
    }
    return {"model": run_options.model, **values}


def command_of(run_options: RunOptions) -> str:
    """Return the command that asks the same question and prints the JSON document."""
    return write_command({"model": "", "json": True, **given_options(run_options)})
