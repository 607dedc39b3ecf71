"""The options: command-line flags, forms of the screens and the schema derive from these fields."""

from __future__ import annotations

import shlex
from typing import Annotated, Literal

import msgspec


class Answers(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The options of a question, as the user gives them."""

    model: Annotated[
        str,
        msgspec.Meta(
            description="demo, synthetic/BLOCK[@FAMILY|@HxI[xL]], a Hugging Face name, a local "
            "directory, package.module:factory, file.py:factory, a .pt2 or an .onnx file"
        ),
    ] = "demo"
    inputs: Annotated[
        str,
        msgspec.Meta(
            description="inputs of a factory, a .pt2 or an .onnx file: an .npz file with an array "
            "for each input, by its name or in their order, or file.py:function, which returns a "
            "tensor, a tuple or a dictionary; default: like the example inputs, or random"
        ),
    ] = ""
    task: Annotated[
        Literal["auto", "forward", "generate", "serve"],
        msgspec.Meta(
            description="forward: one pass over the inputs; generate: text from a causal "
            "language model, token by token; serve: requests to a server of each engine, with "
            "limits on their latency; auto: generate for a causal language model"
        ),
    ] = "auto"
    ttft: Annotated[
        str,
        msgspec.Meta(
            description="with --task serve: limit of the time to the first token, such as 500ms"
        ),
    ] = ""
    itl: Annotated[
        str,
        msgspec.Meta(
            description="with --task serve: limit of the mean time between the later tokens of a "
            "request, such as 50ms"
        ),
    ] = ""
    lengths: Annotated[
        str,
        msgspec.Meta(
            description="with --task serve: lengths of the requests: chat, code, sharegpt, "
            "instruct, rag, or a file of JSON lines with input_tokens and output_tokens; "
            "default: chat"
        ),
    ] = ""
    rate: Annotated[
        float,
        msgspec.Meta(
            description="with --task serve: requests per second for which the answer has the "
            "number of servers; 0 means none",
            ge=0,
        ),
    ] = 0.0
    percentile: Annotated[
        float,
        msgspec.Meta(
            description="with --task serve: percentage of the requests that have to meet both "
            "limits; 0 means 95",
            ge=0,
            lt=100,
        ),
    ] = 0.0
    gpu: Annotated[
        str,
        msgspec.Meta(
            description="index, UUID or name of the GPU; cpu; or all, to measure on every GPU "
            "(extra fleet); default: the first GPU, else cpu"
        ),
    ] = ""
    gpus_per_model: Annotated[
        int,
        msgspec.Meta(
            description="with --task serve: number of equal GPUs over which each server splits the "
            "model (tensor parallelism); servers that cannot are not measured then",
            ge=1,
            le=64,
        ),
    ] = 1
    dtype: Annotated[
        Literal["auto", "float32", "float16", "bfloat16"],
        msgspec.Meta(
            description="dtype of weights and inputs; auto: the model's own for .pt2, .onnx and "
            "factories, else float32 on the CPU and the catalogue's dtype or bfloat16 on a GPU"
        ),
    ] = "auto"
    batch_sizes: Annotated[
        str,
        msgspec.Meta(
            description="batch sizes to measure, such as 2,8; default: 1,4,16,64; for the "
            "demo models 1,4, and for demo on a GPU 1,256; for .pt2 and .onnx files the fixed one, "
            "or 1; for factories 1"
        ),
    ] = ""
    input_tokens: Annotated[
        str,
        msgspec.Meta(
            description="tokens of each input; several, such as 32,512,2048, are measured in one "
            "run, with an answer for their mix"
        ),
    ] = "32"
    output_tokens: Annotated[
        str,
        msgspec.Meta(
            description="tokens generated for each input; several are measured with every input "
            "length"
        ),
    ] = "32"
    length_mix: Annotated[
        str,
        msgspec.Meta(
            description="with several lengths: the share of each in percent, such as "
            "32:70,512:20,2048:10, or 32/16:70 with the output; default: equal shares"
        ),
    ] = ""
    priority: Annotated[
        str,
        msgspec.Meta(
            description="weights of the three Ps that sum to 100, such as "
            "performance=60,productivity=25,portability=15; default: those of --preset"
        ),
    ] = ""
    preset: Annotated[
        str,
        msgspec.Meta(
            description="named priorities: balanced, serving (mostly performance), research "
            "(mostly productivity) or multi-vendor (mostly portability); default: balanced"
        ),
    ] = ""
    require: Annotated[
        str,
        msgspec.Meta(
            description="constraints on the recommended workflow, separated by commas: letters "
            '("portability>=B") and figures ("speedup>=1.2", "memory<=8GiB", "build<=5min", '
            '"ttft<=200ms", "itl<=20ms", "accuracy<=1e-3"); "accuracy>=B" limits what is lost of a '
            "trained model, and measures quantised arms too"
        ),
    ] = ""
    accuracy: Annotated[
        str,
        msgspec.Meta(
            description="largest relative error of an arm that is ranked although it is less "
            "exact than eager PyTorch: a number such as 1e-3 or 1%, or exact to rank exact arms "
            "only; default: 1e-2; quantised arms are exempt"
        ),
    ] = ""
    quantised: Annotated[
        str,
        msgspec.Meta(
            description="measure arms with quantised weights as well: int8, int4, fp8, several of "
            "them separated by commas, or any; default: none"
        ),
    ] = ""
    data: Annotated[
        str,
        msgspec.Meta(
            description="JSON Lines file of the texts on which the loss of quantised arms is "
            'measured; a line is {"prompt": "...", "continuation": "..."} or {"tokens": [...]}; '
            "default: texts that the model writes"
        ),
    ] = ""
    metric: Annotated[
        str,
        msgspec.Meta(
            description="your metric of a trained model, as file.py:function: it is called with "
            "each measured model, which takes and returns numpy arrays, and returns a number; "
            "larger is better"
        ),
    ] = ""
    budget: Annotated[
        str,
        msgspec.Meta(
            description="how long the run takes at most, builds included: quick, standard or "
            "thorough, which repeat the leaders in more fresh processes, gate, which repeats every "
            "arm for compare, or a duration such as 120s or 5min; default: quick"
        ),
    ] = ""
    wait_for_quiet: Annotated[
        str,
        msgspec.Meta(
            description="wait up to this long until nothing else uses the processors and the "
            "GPU, such as 90s or 5min; default: measure at once and warn"
        ),
    ] = ""
    all_arms: Annotated[
        bool,
        msgspec.Meta(
            description="measure every arm, however long its build takes; default: the run ends "
            "with its budget"
        ),
    ] = False
    max_build_seconds: Annotated[
        float,
        msgspec.Meta(description="time limit in seconds for the build of one batch size", gt=0),
    ] = 600.0
    max_build_times: Annotated[
        str,
        msgspec.Meta(
            description="time limits for the builds of single workflows, such as "
            '"tensorrt=1h,torch-tensorrt=30min"; the others keep --max-build-seconds'
        ),
    ] = ""
    max_load_seconds: Annotated[
        float,
        msgspec.Meta(
            description="time limit in seconds for opening the model in one worker; "
            "0 means the deadline in rubric/presets.toml",
            ge=0,
        ),
    ] = 0.0
    build_minutes: Annotated[
        float,
        msgspec.Meta(
            description="time limit in minutes for all builds together; arms that are not "
            "built by then are excluded; 0 means no limit",
            ge=0,
        ),
    ] = 0.0
    requests: Annotated[
        int,
        msgspec.Meta(
            description="number of requests to serve: the answer names the arm that serves them "
            "first, builds included, and builds that cannot pay off are left out; 0 means unknown",
            ge=0,
        ),
    ] = 0
    price_per_hour: Annotated[
        float,
        msgspec.Meta(
            description="price of one device per hour, for the cost of serving; 0 means none", ge=0
        ),
    ] = 0.0
    workflows: Annotated[
        str,
        msgspec.Meta(
            description="limit the plan to these workflows or arms, separated by commas, such as"
            " aotinductor,torch-compile-inductor/max-autotune; WORKFLOW/default is its first arm"
            " alone"
        ),
    ] = ""
    weights_from: Annotated[
        str,
        msgspec.Meta(
            description="weights of a model of transformers: random, hub, or a directory with "
            "safetensors; default: the weights of the model's directory, else random"
        ),
    ] = ""
    python: Annotated[
        str,
        msgspec.Meta(
            description="interpreter that has the stacks; default: the one that runs p3-advisor"
        ),
    ] = ""
    rubric: Annotated[
        str, msgspec.Meta(description="a file that replaces the shipped criteria.toml")
    ] = ""
    seed: Annotated[
        int, msgspec.Meta(description="seed of weights, inputs and the order of visits", ge=0)
    ] = 0
    offline: Annotated[bool, msgspec.Meta(description="never download from a model hub")] = False
    trust_remote_code: Annotated[
        bool, msgspec.Meta(description="execute code from the model's files")
    ] = False
    sandbox: Annotated[
        bool,
        msgspec.Meta(
            description="confine the workers: no network, and no file written outside the run; "
            "for models that are not trusted"
        ),
    ] = False
    allow_pickle: Annotated[bool, msgspec.Meta(description="load weights from pickle files")] = (
        False
    )


def command_of(answers: Answers) -> str:
    """Return the command that asks the same question and prints the JSON document."""
    words = ["p3-advisor", "--json"]
    for field in msgspec.structs.fields(Answers):
        value = getattr(answers, field.name)
        if value != field.default:
            words += [
                f"--{field.encode_name.replace('_', '-')}",
                *([] if value is True else [str(value)]),
            ]
    return shlex.join(words)
