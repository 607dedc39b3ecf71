"""The part of vLLM 0.32's offline interface that its probe uses."""

import itertools
from types import SimpleNamespace as Namespace

from bigrams import Bigrams

__version__ = "0.32.0"
KNOWN_ARGUMENTS = {
    "skip_tokenizer_init",
    "dtype",
    "max_model_len",
    "max_num_seqs",
    "max_num_batched_tokens",
    "enable_prefix_caching",
    "seed",
    "trust_remote_code",
    "gpu_memory_utilization",
    "kv_cache_memory_bytes",
    "quantization",
}
#: Formats that the engine accepts, and the type in which it stores linear layers.
STORED = {"fp8": "float8_e4m3fn", "int8_per_channel_weight_only": "bfloat16", None: "bfloat16"}


def stored_tensor(kind, elements):
    size = 2 if kind == "bfloat16" else 1
    return Namespace(
        ndim=2, dtype=f"torch.{kind}", itemsize=size, nbytes=elements * size, numel=lambda: elements
    )


class ModelRegistry:
    @staticmethod
    def get_supported_archs():
        return ["LlamaForCausalLM", "OPTForCausalLM"]


class SamplingParams:
    def __init__(self, *, temperature, max_tokens, ignore_eos, detokenize, prompt_logprobs=None):
        self.max_tokens, self.prompt_logprobs = max_tokens, prompt_logprobs


class LLM:
    def __init__(self, model, **arguments):
        assert set(arguments) <= KNOWN_ARGUMENTS, set(arguments) - KNOWN_ARGUMENTS
        assert arguments["enable_prefix_caching"] is False
        self.model = Bigrams(model)
        self.length = arguments["max_model_len"]
        # A quantised checkpoint states how it is stored.
        self.stored = self.model.settings.get("stored", STORED[arguments.get("quantization")])
        compiled, graphs = (Namespace(name=name) for name in ("VLLM_COMPILE", "NONE"))
        config = Namespace(compilation_config=Namespace(mode=compiled, cudagraph_mode=graphs))
        self.llm_engine = Namespace(vllm_config=config)

    def apply_model(self, function):
        return [function(self)]

    def named_parameters(self):
        tables = {"model.embed_tokens.weight": "bfloat16", "lm_head.weight": "bfloat16"}
        layers = {"model.layers.0.qkv_proj.weight": self.stored}
        for name, kind in (tables | layers).items():
            yield name, stored_tensor(kind, 64)

    def named_modules(self):
        """Return an ordinary module, and a layer whose weight is packed for oneDNN."""
        weight, sizes = stored_tensor(self.stored, 0), ("output", "input")
        packed = Namespace(weight=weight, **{f"{each}_size_per_partition": 8 for each in sizes})
        yield "model.norm", Namespace(weight=stored_tensor("bfloat16", 8))
        yield "model.layers.0.o_proj", packed

    def modules(self):
        return (module for _, module in self.named_modules())

    def generate(self, prompts, sampling, use_tqdm):
        return [self.answer(prompt["prompt_token_ids"], sampling) for prompt in prompts]

    def answer(self, prompt, sampling):
        assert len(prompt) + sampling.max_tokens <= self.length, "the prompt is too long"
        logprobs = None
        if sampling.prompt_logprobs:
            logprobs = [None]
            for before, token in itertools.pairwise(prompt):
                entries = {
                    **self.model.likeliest(before, sampling.prompt_logprobs),
                    token: float(self.model.table[before][token]),
                }
                logprobs.append({key: Namespace(logprob=value) for key, value in entries.items()})
        output = Namespace(token_ids=tuple(self.model.follow(prompt, sampling.max_tokens)))
        return Namespace(outputs=[output], prompt_logprobs=logprobs)
